"""Count the episodes that PPO needs until it succeeds in 99 % of the episodes of a BabyAI level.

    python benchmarks/babyai_learning.py PRESET [--seeds 0 1 2 3] [--steps N] [--out FILE] [--states FOLDER]

PRESET is a preset of PPO: BabyAI-GoToLocal-v0, or BabyAI-GoToLocal-v0:published with the network and hyperparameters of
BabyAI 1.1 (rewards are not multiplied by 20, because advantages are normalized anyway). Every ten updates the present
policy, with sampled actions as in training, plays 512 fresh episodes. A seed stops at the first such test with at least
99 % successes, or after --steps. The file of rows is written after every test; a seed that is measured again is
replaced. With --states the agent's state is saved after every test too, and the same command goes on from there.
"""

import argparse
import json
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "babyai-learning.json"
# Episodes to 99 % success, in thousands: BabyAI 1.0 and BabyAI 1.1 (`endpool_res`), Hui et al. 2020.
PUBLISHED_EPISODES = {
    "BabyAI-GoToRedBallGrey-v0": (21, 21),
    "BabyAI-GoToRedBall-v0": (273, 179),
    "BabyAI-GoToLocal-v0": (1311, 437),
    "BabyAI-PickupLoc-v0": (1797, 710),
    "BabyAI-PutNextLocal-v0": (2984, 1009),
    "BabyAI-GoTo-v0": (1601, 813),
}
ENOUGH, TEST_EPISODES, UPDATES_BETWEEN_TESTS = 0.99, 512, 10

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("preset")
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
parser.add_argument(
    "--steps", type=int, default=0, help="at most so many environment steps a seed; default: the preset's"
)
parser.add_argument("--out", type=Path, default=RESULTS)
parser.add_argument("--states", type=Path, help="save the state of each seed here after every test, and go on from it")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from shoal.agents.presets import presets  # noqa: E402
from shoal.core.registry import make  # noqa: E402
from shoal.core.struct import to_arrays  # noqa: E402
from shoal.rollouts.evaluate import evaluate  # noqa: E402
from shoal.training import checkpoint  # noqa: E402


def learn(agent, env, seed):
    """Train one seed until a test succeeds, or for all steps. Yields what was measured so far after every test."""
    k_init, k_test = jax.random.split(shoal.make_key(seed))
    state, measured = jax.jit(agent.init)(k_init, env), {"episodes": 0, "seconds": 0.0, "tests": []}
    saved = args.states and args.states / f"{args.preset}-{seed}".replace(":", "-")
    spec = repr((args.preset, preset.fields, seed))
    if saved and saved.exists():
        state, measured = checkpoint.restore(saved, checkpoint.LEARNERS, state, spec), checkpoint.read_about(saved)
    episodes, tests, start = measured["episodes"], measured["tests"], time.perf_counter() - measured["seconds"]
    done = len(tests) * UPDATES_BETWEEN_TESTS
    for update in range(done, max(1, args.steps // agent.steps_per_update), UPDATES_BETWEEN_TESTS):
        if tests and tests[-1][-1] >= ENOUGH:
            return
        state, ended = trained(agent, env, state, jnp.int32(update))
        returns = tested(agent, env, state, jax.random.fold_in(k_test, update))
        episodes += int(ended)
        steps = (update + UPDATES_BETWEEN_TESTS) * agent.steps_per_update
        tests.append([steps, episodes, float((returns > 0).mean())])
        print(f"seed {seed}: {steps:,} steps, {episodes:,} episodes, success {tests[-1][-1]:.3f}", flush=True)
        measured = {
            "seed": seed,
            "reached": tests[-1][-1] >= ENOUGH,
            "episodes": episodes,
            "steps": steps,
            "success": tests[-1][-1],
            "return": float(returns.mean()),
            "seconds": round(time.perf_counter() - start, 1),
            "tests": tests,
        }
        if saved:
            checkpoint.save(saved, {checkpoint.LEARNERS: state}, spec, measured)
        yield measured


@jax.jit
def trained(agent, env, state, first_update):
    """(the state after some updates, how many episodes ended in them)."""

    def update(state, clock):
        state, metrics = agent.update(state, env, clock)
        return state, metrics.episodes.count

    clocks = first_update + jnp.arange(UPDATES_BETWEEN_TESTS, dtype=jnp.int32)
    state, counts = jax.lax.scan(update, state, clocks)
    return state, counts.sum()


@jax.jit
def tested(agent, env, state, key):
    """Returns of fresh episodes with sampled actions."""
    policy = agent.policy_state(state)
    return evaluate(agent, policy, env, key, TEST_EPISODES, longest_episode, greedy=False).episode_return


def keep(row, seed):
    """Add a seed to the file of rows."""
    rows = json.loads(args.out.read_text()) if args.out.exists() else []
    same = [old for old in rows if old["preset"] == row["preset"]]
    seeds = {one["seed"]: one for old in same for one in old["seeds"]} | {seed["seed"]: seed}
    rows = [old for old in rows if old not in same] + [row | {"seeds": [seeds[number] for number in sorted(seeds)]}]
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


preset = presets("ppo")[args.preset]
args.steps = args.steps or preset.steps
env = make(preset.env)
longest_episode = int(env.limit_range[1])
agent = preset.build(horizon=float(preset.steps)).bind(env)
weights = jax.eval_shape(agent.init, shoal.make_key(0), env).weights
row = {
    "preset": args.preset,
    "command": f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}",
    "weights": sum(x.size for x in jax.tree.leaves(weights)),
    "published_thousand_episodes": PUBLISHED_EPISODES.get(preset.env),
    "jax": jax.__version__,
}
for seed in args.seeds:
    for measured in learn(to_arrays(agent), to_arrays(env), seed):
        keep(row, measured)
