"""Evolve recurrent controllers for two-link pendula of different lengths, and draw the return against the length.

    python benchmarks/recurrent_controllers.py [--memory gru] [--seeds 3] [--generations 60]
    python benchmarks/recurrent_controllers.py --figure

The task is Acrobot with two links whose lengths sum to 2 m, as in gymnax's notebook `02_evolution.ipynb`. An evolution
strategy (Open_ES with Adam and ranks, as there) searches for the weights of one controller; its fitness is the mean
return over 16 sampled lengths. Every generation samples new lengths. The notebook samples the first length in
[0.1, 1.9]; here training sees two intervals of it, `TRAINED`, so that lengths between and beyond them are held out.

Four controllers are trained: recurrent and feed-forward, each with all six observations and without the two velocities.
A fifth, recurrent, is not trained. Differences from the notebook, besides the intervals: smaller networks and fewer
candidates, episodes and generations; the last action is no input, because the controller is deterministic and its
recurrent carry determines it. Results go to `results/recurrent-controllers.json`; `--figure` alone draws that file into
docs/images/recurrent-controllers.png.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import shoal

shoal.prepare()  # before JAX is imported

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from shoal import ES, Box, Randomize, TransformObservation  # noqa: E402
from shoal.envs.classic.acrobot import Acrobot  # noqa: E402
from shoal.training.policy import Policy  # noqa: E402
from shoal.viz.style import NOTE_SIZE, PALETTE, figure_style  # noqa: E402

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "recurrent-controllers.json"
FIGURE = HERE.parent / "docs" / "images" / "recurrent-controllers.png"

TRAINED = ((0.4, 0.8), (1.2, 1.6))  # m, lengths of the first link in training
LENGTHS = tuple(round(0.1 * i, 1) for i in range(1, 20))  # m, evaluated
EPISODES = 64  # of the evaluation of one policy at one length
ANGLES = Box(-1.0, 1.0, (4,))
NO_TRAINING = "untrained"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--memory", default="gru", choices=("gru", "lstm"), help="cell of the recurrent controller (gru)")
parser.add_argument("--seeds", type=int, default=3, help="training runs of each controller (3)")
parser.add_argument("--generations", type=int, default=60)
parser.add_argument("--population", type=int, default=32, help="candidates of a generation (32)")
parser.add_argument("--episodes", type=int, default=16, help="episodes of each candidate (16)")
parser.add_argument("--figure", action="store_true", help="train nothing; draw the figure from the recorded results")


def pendulum(length: Any) -> Acrobot:
    """Two links, the first of this length (m), the second of 2 m minus it. The motion depends on the first only."""
    return Acrobot(link_length_1=length, link_length_2=2.0 - length)


def sample_pendulum(key: jax.Array) -> Acrobot:
    """A pendulum whose first link has a uniform length within the intervals `TRAINED`, which are equally long."""
    k_interval, k_length = jax.random.split(key)
    low, high = (jnp.asarray(side) for side in zip(*TRAINED, strict=True))
    i = jax.random.randint(k_interval, (), 0, len(TRAINED))
    return pendulum(jax.random.uniform(k_length, minval=low[i], maxval=high[i]))


def without_velocities(obs: jax.Array) -> jax.Array:
    """The cosines and sines of the two angles."""
    return obs[:4]


def seen(env: Any, velocities: bool) -> Any:
    """The environment with all six observations, or with the first four."""
    return env if velocities else TransformObservation(env, without_velocities, ANGLES)


def controller(memory: str, args: argparse.Namespace) -> ES:
    """The evolution strategy and its controller; `memory` is "none", "gru" or "lstm"."""
    cell = {} if memory == "none" else {"memory": memory, "memory_size": 16}
    return ES(
        strategy="Open_ES",
        optimizer="adam",
        shaping="ranks",
        antithetic="on",
        population_size=args.population,
        episodes=args.episodes,
        learning_rate=0.1,
        learning_rate_decay=0.999,
        sigma=0.1,
        sigma_decay=0.999,
        sigma_limit=0.01,
        hidden=(16,),
        normalize_observation=True,
        **cell,
    )


def train(memory: str, velocities: bool, args: argparse.Namespace) -> dict[str, Any]:
    """Train one kind of controller with every seed. Returns a row of the results."""
    env = seen(Randomize(pendulum(1.0), sample_pendulum), velocities)
    agent = controller(memory, args)
    steps = args.generations * args.population * args.episodes * 500  # at most: episodes may end sooner
    options: Any = {"records": 20, "evaluations": 1, "eval_episodes": 1, "figures": False, "progress": False}
    with tempfile.TemporaryDirectory() as root:
        result = shoal.train(agent, env, steps=steps, seeds=args.seeds, root=root, **options)
        policies, curves, summary = result.policies, result.curves, result.summary
    return {
        **about(memory, velocities),
        "generations": args.generations,
        "population": args.population,
        "episodes": args.episodes,
        "train_seconds": round(summary["train_seconds"], 1),
        "fitness": np.asarray(curves["train_return"]).T.round(2).tolist(),
        "returns": returns_by_length(policies, velocities),
    }


def untrained(memory: str, args: argparse.Namespace) -> dict[str, Any]:
    """A row of the results for initial weights of the recurrent controller, with all observations."""
    env = pendulum(1.0)
    agent = controller(memory, args).bind(env)
    keys = [shoal.make_key(seed) for seed in range(args.seeds)]
    policies = [Policy(agent, agent.policy_state(agent.init(key, env)), env) for key in keys]
    returns = [returns_by_length(policy, True) for policy in policies]
    return {**about(memory, True), "controller": NO_TRAINING, "returns": returns}


def about(memory: str, velocities: bool) -> dict[str, Any]:
    """The columns of a row that name the controller."""
    kind = "feed-forward" if memory == "none" else "recurrent"
    return {"controller": kind, "memory": memory, "velocities": velocities, "lengths": LENGTHS, "jax": jax.__version__}


def returns_by_length(policies: Any, velocities: bool) -> list:
    """Mean returns of greedy episodes at each of `LENGTHS`: [seeds, L] for a population, [L] for one policy."""
    envs = [seen(pendulum(length), velocities) for length in LENGTHS]
    played = [shoal.evaluate(policies, env, episodes=EPISODES).episode_return.mean(axis=-1) for env in envs]
    return np.stack(played, axis=-1).round(2).tolist()


def draw(rows: list[dict[str, Any]]) -> Path:
    """Draw the returns against the length: a panel for each set of observations, a line for each seed and the mean."""
    colors = {"recurrent": PALETTE[0], "feed-forward": PALETTE[1], NO_TRAINING: PALETTE[6]}
    with figure_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, velocities in zip(panels, (True, False), strict=True):
            for low, high in TRAINED:
                panel.axvspan(low, high, color="#EFEFEF", zorder=0)
            for row in rows:
                if row["velocities"] != velocities and row["controller"] != NO_TRAINING:
                    continue
                lengths, returns = np.asarray(row["lengths"]), np.asarray(row["returns"])
                color, name = colors[row["controller"]], row["controller"]
                label = f"{name} ({row['memory']})" if name == "recurrent" else name
                panel.plot(lengths, returns.T, color=color, alpha=0.35, linewidth=0.8)
                panel.plot(lengths, returns.mean(axis=0), color=color, linewidth=2, label=label)
            panel.set_title("all six observations" if velocities else "without the two velocities", fontsize=10)
            panel.set_xlabel("length of the first link, m")
            panel.set_xticks([0.1, 0.4, 0.8, 1.2, 1.6, 1.9])
            panel.grid(color="#E4E4E4", linewidth=0.6)
        panels[0].set_ylabel("return of an episode")
        panels[0].legend(frameon=False, loc="center")
        trained = next(row for row in rows if row["controller"] != NO_TRAINING)
        note = f"gray: lengths of training. {len(trained['returns'])} seeds (thin), their mean (thick)."
        figure.supxlabel(note, fontsize=NOTE_SIZE)
        figure.savefig(FIGURE, dpi=120)
    return FIGURE


def main(args: argparse.Namespace) -> None:
    """Train all controllers and write the results, or read them; then draw the figure."""
    if not args.figure:
        started = time.perf_counter()
        rows = [train(memory, v, args) for v in (True, False) for memory in (args.memory, "none")]
        rows.append(untrained(args.memory, args))
        RESULTS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        print(f"{time.perf_counter() - started:.0f} s in all")
    rows = json.loads(RESULTS.read_text())
    for row in rows:
        returns = np.asarray(row["returns"]).mean(axis=0)
        inside = [any(low <= length <= high for low, high in TRAINED) for length in row["lengths"]]
        means = f"trained lengths {returns[inside].mean():7.1f}, held-out ones {returns[np.invert(inside)].mean():7.1f}"
        print(f"{row['controller']:13} velocities={row['velocities']!s:6} {means}")
    print(draw(rows))


if __name__ == "__main__":
    main(parser.parse_args())
