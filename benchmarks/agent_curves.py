"""Train each agent once with a fixed recipe and record its learning curves, for the page of agents.

    python benchmarks/agent_curves.py [AGENT ...] [--seeds N]
    python benchmarks/agent_curves.py --figures

Seeds 0 to N - 1. At 20 points of the training each member plays fresh episodes (20, unless its recipe has another
number) with greedy actions. The curves go to `results/agent-curves.json` (rows of agents that are not trained again are
kept), and `--figures` alone draws every agent's figure from that file into docs/images/agents/.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "agent-curves.json"
FIGURES = HERE.parent / "docs" / "images" / "agents"
POINTS = 20


class Recipe(NamedTuple):
    """A run to record: the environment, with the preset of the agent if it has one, otherwise with `fields`."""

    env: str
    preset: str = ""
    fields: dict[str, Any] = {}
    steps: int | None = None  # None: those of the preset
    episodes: int = 20  # of each member at each point


CLIFF = {"learning_rate": 0.5, "discount": 1.0, "epsilon_end": 0.1}  # those of q-learning's preset
# The return of one episode, which has only 10 steps, has a standard deviation of about 2.
BANDIT = Recipe("BernoulliBandit-v0", preset="5-arms-10-pulls", steps=1_000_000, episodes=1000)
MIXED = {"buffer_size": 50_000, "target_period": 10, "target_mix": 0.02, "learning_starts": 1_000}
SMALL = {"policy_learning_rate": 1e-3, "batch_size": 128, "learning_starts": 1_000, "hidden": (64, 64)}
RECIPES = {
    "ppo": Recipe("CartPole-v1"),
    "a2c": Recipe("CartPole-v1"),
    "pqn": Recipe("CartPole-v1"),
    "q-learning": Recipe("CliffWalking-v1"),
    "double-q": Recipe("CliffWalking-v1", fields=CLIFF, steps=200_000),
    "sarsa": Recipe("CliffWalking-v1", fields={**CLIFF, "learning_rate": 0.1}, steps=200_000),
    "expected-sarsa": Recipe("CliffWalking-v1", fields=CLIFF, steps=200_000),
    "bc": Recipe("CartPole-v1", steps=128_000),
    "es": Recipe("CartPole-v1"),
    "dqn": Recipe("CartPole-v1"),
    "c51": Recipe("CartPole-v1"),
    "sac": Recipe("Pendulum-v1"),
    "td3": Recipe("Pendulum-v1"),
    "ddpg": Recipe("Pendulum-v1"),
    "rl2": BANDIT,
    "iqn": Recipe("CartPole-v1", fields=MIXED, steps=100_000),
    "rainbow": Recipe("CartPole-v1", fields=MIXED, steps=100_000),
    "crossq": Recipe("Pendulum-v1", fields=SMALL, steps=20_000),
    "redq": Recipe("Pendulum-v1", fields={**SMALL, "learning_rate": 1e-3}, steps=5_000),
    "droq": Recipe("Pendulum-v1", fields={**SMALL, "learning_rate": 1e-3}, steps=5_000),
    "fasttd3": Recipe("Pendulum-v1"),
    "tqc": Recipe("Pendulum-v1", fields=SMALL, steps=20_000),
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("agents", nargs="*", help="default: every agent")
parser.add_argument("--seeds", type=int, default=8, help="members of each run (8)")
parser.add_argument("--figures", action="store_true", help="train nothing; draw the figures from the recorded curves")


def measure(agent: str, seeds: int) -> dict[str, Any]:
    """One row: the recipe of an agent and its greedy returns at each point, a list for each member."""
    import tempfile

    import jax
    import numpy as np

    import shoal

    recipe = RECIPES[agent]
    learner: Any = agent
    if agent == "bc":  # which learns from recorded steps: here 500 steps of a trained policy
        from shoal.agents.bc import BC

        learner = BC(demonstrations=shoal.record(shoal.load("zoo:ppo/CartPole-v1"), 500))
    with tempfile.TemporaryDirectory() as root:
        result = shoal.train(
            learner,
            recipe.env,
            preset=recipe.preset,
            fields=recipe.fields or None,
            steps=recipe.steps,
            seeds=seeds,
            root=root,
            records=POINTS,
            evaluations=POINTS,
            eval_episodes=recipe.episodes,
            figures=False,
            progress=False,
        )
        curves = result.curves  # read before the folder is removed
    returns = np.asarray(curves["eval_return"])
    evaluated = ~np.isnan(returns).all(axis=1)
    return {
        "agent": agent,
        "env": recipe.env,
        "preset": recipe.preset,
        "fields": recipe.fields,
        "seeds": seeds,
        "episodes": recipe.episodes,
        "steps": np.asarray(curves["env_steps"])[evaluated].tolist(),
        "curves": returns[evaluated].T.round(3).tolist(),
        "jax": jax.__version__,
    }


def keep(row: dict[str, Any]) -> None:
    """Add a row to the file, or replace the agent's earlier row."""
    rows = {known["agent"]: known for known in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    rows[row["agent"]] = row
    lines = [json.dumps(rows[agent]) for agent in sorted(rows)]
    RESULTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def draw(row: dict[str, Any]) -> Path:
    """Draw a row in the style of all of shoal's learning curves. Returns the path of the picture."""
    import numpy as np

    from shoal.viz.curves import Curve, learning_curves

    returns = np.array(row["curves"]).T
    curve = Curve(row["agent"], np.array(row["steps"]), returns, returns)
    variant = f", preset {row['preset']}" if row["preset"] else ""
    title = f"{row['agent']} on {row['env']}{variant}"
    return learning_curves([curve], FIGURES / f"{row['agent']}.png", title=title)


if __name__ == "__main__":
    args = parser.parse_args()
    if not args.figures:
        import shoal

        shoal.prepare()
        for name in args.agents or RECIPES:
            keep(measure(name, args.seeds))
            print(name, flush=True)
    for row in json.loads(RESULTS.read_text()):
        print(draw(row))
