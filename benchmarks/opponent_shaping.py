"""Train M-FOS shapers against a learner in a meta-game, and measure the rewards of both players.

    python benchmarks/opponent_shaping.py [--agents es ppo] [--env ID] [--seeds 8] [--out FILE] [--figure PNG]

Each agent is trained with its preset. Its last policy then plays `--episodes` fresh episodes per seed, greedily; the
result is the mean reward per step of both players, with a bootstrap interval over seeds. Policies that do not learn
are measured in the same way. Writes benchmarks/results/opponent-shaping.json; `--figure` draws the result.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import shoal
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.ops.statistics import bootstrap_interval

OUT = Path(__file__).parent / "results" / "opponent-shaping.json"
LOGIT = 10.0
FIXED = {  # logits of policies that never change
    "always cooperate": (LOGIT, LOGIT, LOGIT, LOGIT, LOGIT),
    "tit for tat": (LOGIT, LOGIT, -LOGIT, LOGIT, -LOGIT),
    "always defect": (-LOGIT, -LOGIT, -LOGIT, -LOGIT, -LOGIT),
}


def rewards_of(actor: Any, weights: Any, env: Any, episodes: int, seed: int) -> np.ndarray:
    """Mean rewards [T, 2] of the agent and its opponent in each step, over fresh episodes."""

    def play(weights, key):
        def step(carry, _):
            state, memory = carry
            action, memory = actor.act(weights, env.observe(state), memory, key, True)
            state, reward, _, _, info = env.advance(state, action, None)
            return (state, memory), jnp.stack([reward, info["opponent_reward"]])

        return jax.lax.scan(step, (env.init(key), actor.initial_carry()), length=int(env.max_steps))[1]

    keys = jax.random.split(make_key(seed), episodes)
    return np.asarray(jax.jit(jax.vmap(play, (None, 0)))(weights, keys)).mean(axis=0)


class Fixed:
    """A policy that always takes the same action."""

    def initial_carry(self):
        return None

    def act(self, weights, obs, carry, key, greedy):
        return weights, carry


def summary(rewards: list[np.ndarray]) -> dict[str, Any]:
    """The mean reward per step of both players for each seed, with mean and interval; rewards are [T, 2] per seed."""
    per_seed = np.stack(rewards).mean(axis=1)
    found = {}
    for i, player in enumerate(("agent", "opponent")):
        found[f"{player}_reward"] = {
            "mean": round(float(per_seed[:, i].mean()), 4),
            "interval": [round(x, 4) for x in bootstrap_interval(per_seed[:, i], np.mean)],
            "of_each_seed": [round(float(x), 4) for x in per_seed[:, i]],
            "over_time": [round(float(x), 4) for x in np.mean([of_seed[:, i] for of_seed in rewards], axis=0)],
        }
    return found


def trained(agent: str, env_name: str, seeds: int, episodes: int) -> dict[str, Any]:
    """Train the preset of an agent and measure its last policies."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = shoal.train(agent, env_name, seeds=seeds, folder=Path(folder) / "run")
        seconds = time.perf_counter() - started
        rewards = [rewards_of(p.actor, p.weights, p.env, episodes, 1000 + i) for i, p in enumerate(result.policies)]
    return {"agent": agent, "steps": shoal.preset(agent, env_name).steps, "seconds": round(seconds), **summary(rewards)}


def fixed(name: str, env_name: str, seeds: int, episodes: int) -> dict[str, Any]:
    """Measure a policy that does not learn."""
    env = to_arrays(shoal.make(env_name))
    rewards = [rewards_of(Fixed(), jnp.float32(FIXED[name]), env, episodes, 1000 + i) for i in range(seeds)]
    return {"agent": name, **summary(rewards)}


def draw(rows: list[dict[str, Any]], env_name: str, file: Path) -> None:
    """Draw the mean rewards of both players, and rewards over the steps of an episode of the first agent."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), dpi=110, layout="constrained")
    bars, curve = figure.subplots(1, 2)
    for i, (player, color) in enumerate((("agent", "#3465C4"), ("opponent", "#DE8436"))):
        means = [row[f"{player}_reward"]["mean"] for row in rows]
        errors = np.abs(np.array([row[f"{player}_reward"]["interval"] for row in rows]).T - means)
        bars.bar(np.arange(len(rows)) + 0.4 * i - 0.2, means, 0.38, yerr=errors, color=color, label=player, capsize=2)
        over_time = rows[0][f"{player}_reward"]["over_time"]
        curve.plot(np.arange(1, 1 + len(over_time)), over_time, color=color)
    bars.set_xticks(range(len(rows)), [row["agent"].replace(" ", "\n") for row in rows])
    bars.axhline(-1, color="#777777", linewidth=1, linestyle="--", label="both cooperate")
    bars.set_ylabel("mean reward per step")
    bars.legend(frameon=False, fontsize=9)
    curve.axhline(-1, color="#777777", linewidth=1, linestyle="--")
    curve.set_title(f"an episode of {rows[0]['agent']}", fontsize=11)
    curve.set_xlabel("step: updates of the opponent")
    curve.set_ylabel("reward per step")
    bars.set_title(f"{env_name}, {len(rows[0]['agent_reward']['of_each_seed'])} seeds", fontsize=11)
    for axes in (bars, curve):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", default=["es", "ppo"])
    parser.add_argument("--env", default="MFOS/IPD-NL-v0")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--figure", type=Path, help="draw the rows of --out in this file, without training")
    args = parser.parse_args()
    if args.figure:
        found = json.loads(args.out.read_text())
        draw(found["rows"], found["env"], args.figure)
        return
    rows = [fixed(name, args.env, args.seeds, args.episodes) for name in FIXED if "IPD" in args.env]
    for agent in args.agents:
        rows.insert(0, trained(agent, args.env, args.seeds, args.episodes))
        found = {"env": args.env, "seeds": args.seeds, "episodes": args.episodes, "rows": rows}
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    for row in rows:
        agent, opponent = (row[f"{player}_reward"] for player in ("agent", "opponent"))
        print(f"{row['agent']:18} {agent['mean']:6.3f} {agent['interval']}", end=", ")
        print(f"opponent {opponent['mean']:6.3f} {opponent['interval']}")


if __name__ == "__main__":
    main()
