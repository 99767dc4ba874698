"""GridWorld: tabular Q-learning in NumPy, in JAX, and with 30 agents at once, after Ryan Pegoud's article."""

import statistics

import numpy as np

from reproductions.beside import Run, train
from reproductions.reproduction import Chart, Measured, Part, Reproduction, Row, Source, register
from reproductions.values import animate_values
from reproductions.workspace import Workspace

ENV, ROWS, COLUMNS, SHORTEST = "GridWorld-v0", 8, 12, 18
# The article's discount 0.9 and final epsilon 0.1 are those of shoal's preset; its epsilon is constant.
FIELDS = ("--learning-rate", 0.1, "--discount", 0.9, "--epsilon-end", 0.1, "--exploration", 0)
RULES = {"q-learning": "Q-learning", "double-q": "double Q-learning", "expected-sarsa": "expected Sarsa"}
CPU = "the article's CPU"


def speed(work: Workspace, *, episodes: int, steps: int, many: int, many_steps: int, shoal_steps: int) -> Measured:
    """Steps per second of the loop in NumPy, of the article's JAX code, and of shoal; compilation is left out."""
    work.say("  the loop in NumPy")
    loop = work.peer("q_learning_numpy", "--episodes", episodes)
    numbers: dict[str, float] = {"numpy": loop["steps"] / loop["wall_s"]}
    forms: dict[str, list[float]] = {}
    commands: dict[str, str] = {}
    for group, agents, of_each in (("one", 1, steps), ("many", many, many_steps)):
        work.say(f"  the article's code in JAX: {_agents(agents)}")
        forms[group] = [_rate(work, agents, of_each, form) for form in ((), ("--last-only",))]
        numbers[f"jax.{group}"] = max(forms[group])
        run = train(work, group, "q-learning", ENV, *FIELDS, "--steps", shoal_steps // agents, "--seeds", agents)
        commands[f"shoal, {_agents(agents)}"] = run.command
        numbers[f"shoal.{group}"] = run.result.summary["steps_per_second"]
        numbers[f"ratio.{group}"] = numbers[f"shoal.{group}"] / numbers[f"jax.{group}"]
    kept = "; ".join(
        f"{_agents(agents)} {forms[group][0]:,.0f} and {forms[group][1]:,.0f} steps/s"
        for group, agents in (("one", 1), ("many", many))
    )
    notes = [
        "The article's code is measured in two forms, with the table of every step kept, as in the article, and with "
        f"the last table only; the faster one counts. {kept}.",
        f"The NumPy loop took {loop['steps']:,} steps for {episodes:,} episodes.",
    ]
    return Measured(numbers, notes=notes, commands=commands, data=forms)


def learning(work: Workspace, *, agents: int, steps: int, snapshots: int) -> Measured:
    """The Q-values that 30 agents learn, the animation of their mean, and the episodes of three rules."""
    article = work.peer("q_learning", "--agents", agents, "--steps", steps, "--last-only", "--repeats", 0)
    theirs = np.array(article["values"])
    numbers: dict[str, float] = {"goals.article": article["goals"]}
    lines: dict[str, tuple[list, list]] = {}
    runs: dict[str, Run] = {}
    size = ("--steps", steps, "--seeds", agents, "--records", snapshots, "--snapshots", snapshots)
    for rule, name in RULES.items():
        runs[rule] = train(work, rule, rule, ENV, *FIELDS, *size)
        curves = runs[rule].result.curves
        numbers[f"goals.{rule}"] = float(curves["episodes"].sum(axis=0).mean())
        lines[name] = curves["env_steps"].tolist(), np.nanmean(curves["train_length"], axis=1).tolist()
    lines["the shortest way"] = [0, steps], [SHORTEST, SHORTEST]
    tables = np.asarray(runs["q-learning"].result.policies.weights.snapshots)  # [M, N, S, A]
    values = tables.max(axis=-1).mean(axis=0).reshape(snapshots, ROWS, COLUMNS)
    at = [steps * (number + 1) // snapshots for number in range(snapshots)]
    titles = [f"Largest Q-value, mean of {_agents(agents)}, step {step:,}" for step in at]
    animate_values(values, titles, work.folder / "values.gif")
    beside = tables[:, -1].max(axis=-1)[:, [1, COLUMNS]].max(axis=-1).mean()  # right of the goal, or below it
    numbers |= {"goal.article": article["beside_goal"], "start.article": float(theirs[-1, -1])}
    numbers |= {"goal.shoal": float(beside), "start.shoal": float(values[-1, -1, -1])}
    return Measured(
        numbers,
        lines={"length": lines},
        notes=[
            "Every action is random with probability 0.1, so episodes stay somewhat longer than the shortest way, "
            f"{SHORTEST} steps.",
            "Cells far from the usual ways are visited seldom, so their values have not converged.",
        ],
        pictures={
            "values.gif": f"The largest Q-value of each cell while {_agents(agents)} learn. The goal is at the top "
            "left, the start at the bottom right."
        },
        commands={name: runs[rule].command for rule, name in RULES.items()},
        data={"values": values[-1].tolist(), "values of the article's update": theirs.tolist()},
    )


def _rate(work: Workspace, agents: int, steps: int, form: tuple[str, ...]) -> float:
    """Steps per second of the article's code."""
    answer = work.peer("q_learning", "--agents", agents, "--steps", steps, *form)
    return answer["steps"] / statistics.median(answer["wall_s"])


def _agents(count: int) -> str:
    return f"{count} agent{'s' * (count > 1)}"


PARTS = (
    Part(
        name="speed",
        title="Steps per second",
        about="The article compares a loop in NumPy with one compiled agent (1 million steps) and with 30 agents "
        "(100,000 steps each). Its numbers are those of its progress bar, which leaves compilation out, as ours do. "
        "Its code stores the table of every step: 4.6 GB for 30 agents. Here it is compiled once, where the article's "
        "notebook compiles again for each call.",
        measure=speed,
        here={"episodes": 1_000, "steps": 200_000, "many": 30, "many_steps": 20_000, "shoal_steps": 30_000_000},
        full={"episodes": 10_000, "steps": 1_000_000, "many_steps": 100_000, "shoal_steps": 120_000_000},
        rows=(
            Row("numpy", "loop in NumPy", 21_680, "steps/s", "one agent", CPU, main=True),
            Row("jax.one", "the article's code in JAX", 1_837_564, "steps/s", "one agent", CPU, main=True),
            Row("shoal.one", "shoal", None, "steps/s", "one agent", main=True),
            Row("ratio.one", "shoal / the article's code", None, "times", "one agent"),
            Row("jax.many", "the article's code in JAX", 1_471_080, "steps/s", "30 agents", CPU, main=True),
            Row("shoal.many", "shoal", None, "steps/s", "30 agents", main=True),
            Row("ratio.many", "shoal / the article's code", None, "times", "30 agents"),
        ),
    ),
    Part(
        name="learning",
        title="What 30 agents learn",
        about="The article shows the largest Q-value of each cell as an animated heatmap, the mean over 30 agents. "
        "Its update bootstraps beyond the end of an episode: after the goal it adds the discounted value of the next "
        "start. So its values converge to 1.177 beside the goal instead of 1, and to 0.1962 at the start instead of "
        "0.1668, which is 0.9 to the power of 17. Its policy is right, because all values are too large by the same "
        "factor. In shoal nothing follows the goal.",
        measure=learning,
        here={"agents": 30, "steps": 100_000, "snapshots": 50},
        full={"snapshots": 100},
        rows=(
            Row("goal.article", "the article's update", 1.177, "", "Q-value beside the goal", "derived"),
            Row("goal.shoal", "shoal", 1.0, "", "Q-value beside the goal", "derived"),
            Row("start.article", "the article's update", 0.1962, "", "Q-value at the start", "derived"),
            Row("start.shoal", "shoal", 0.1668, "", "Q-value at the start", "derived"),
            Row("goals.article", "the article's Q-learning", None, "", "goals reached"),
            Row("goals.q-learning", "shoal, Q-learning", None, "", "goals reached"),
            Row("goals.double-q", "shoal, double Q-learning", 4182, "", "goals reached", "notebook, one agent"),
            Row("goals.expected-sarsa", "shoal, expected Sarsa", 4665, "", "goals reached", "notebook, softmax target"),
        ),
        charts=(Chart("length", "Steps of an episode", "environment steps", "steps of an episode", log_y=True),),
    ),
)

register(
    Reproduction(
        name="gridworld",
        title="Q-learning at the speed of light",
        source=Source(
            "Vectorize and Parallelize RL Environments with JAX: Q-learning at the Speed of Light",
            "Ryan Pégoud, 2023",
            "https://towardsdatascience.com/"
            "vectorize-and-parallelize-rl-environments-with-jax-q-learning-at-the-speed-of-light-49d07373adf5",
        ),
        about="A Q-learning agent finds the way through an empty grid of 8 x 12 cells: as a loop in NumPy, compiled "
        "with JAX, and 30 agents at once. The article reports 1.8 million steps per second.",
        parts=PARTS,
    )
)
