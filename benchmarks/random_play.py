"""Measure random play in every environment that src/shoal/envs/references.toml has, for the normalization of scores.

    python benchmarks/random_play.py [ENV ...] [--episodes N] [--out FILE]

Actions are uniformly random: of all actions of a discrete space, of the whole box of a continuous one. Writes
benchmarks/results/random-play.json with mean, standard error and number of episodes; a test compares its means with
those in references.toml.
"""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("envs", nargs="*", metavar="ENV", help="default: every environment of references.toml")
parser.add_argument("--episodes", type=int, default=10_000)
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "random-play.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from shoal.training.references import known_references  # noqa: E402

BATCH = 1000
MOST_STEPS = 100_000  # of an episode; random play reaches the cliff's goal late


def returns(env, episodes, key):
    """Returns [episodes] of random play until every episode has ended."""
    k_init, k_steps = jax.random.split(key)
    states = jax.vmap(env.init)(jax.random.split(k_init, episodes))

    def step(loop):
        t, states, total, is_done = loop
        keys = jax.random.split(jax.random.fold_in(k_steps, t), (episodes, 2))
        actions = jax.vmap(env.action_space.sample)(keys[:, 0])
        _, states, reward, terminated, truncated, _ = jax.vmap(env.step)(keys[:, 1], states, actions)
        return t + 1, states, total + jax.numpy.where(is_done, 0, reward), is_done | terminated | truncated

    start = (0, states, jax.numpy.zeros(episodes), jax.numpy.zeros(episodes, bool))
    t, _, total, is_done = jax.lax.while_loop(lambda loop: (loop[0] < MOST_STEPS) & ~loop[3].all(), step, start)
    return total, is_done


rows = json.loads(args.out.read_text()) if args.out.exists() else {}
for name in args.envs or [name for name in known_references() if ":" not in name]:
    env = shoal.make(name)
    play = jax.jit(lambda key, env=env: returns(env, BATCH, key))
    batches = [play(key) for key in jax.random.split(shoal.make_key(0), args.episodes // BATCH)]
    if not all(is_done.all() for _, is_done in batches):
        raise SystemExit(f"{name}: an episode has not ended after {MOST_STEPS:,} steps")
    found = np.concatenate([np.asarray(total, float) for total, _ in batches])
    error = found.std(ddof=1) / found.size**0.5
    rows[name] = {"mean": round(found.mean(), 4), "standard_error": round(error, 4), "episodes": found.size}
    args.out.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    print(name, rows[name], flush=True)
