"""PureJaxRL: training inside one compiled program, one agent to 2,048 at once, and a value loss found by evolution.

Published numbers: the figures in the README of luchris429/purejaxrl (commit 31756b1), read by eye, and what its
notebook examples/walkthrough.ipynb prints.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from reproductions.beside import Peer, Run, measure_peer, run, train
from reproductions.reproduction import PEERS, Chart, Measured, Need, Part, Reproduction, Row, Source, register
from reproductions.workspace import Workspace
from shoal.training.generations import fitness_of_generations
from shoal.training.result import Result
from shoal.viz.evolution import ERROR_LABEL, SLOPE_LABEL, value_loss_slopes

# With a thread on each of two cores, PureJaxRL's PPO for 8 seeds never ends (jaxlib 0.10); more do not slow it down.
PUREJAXRL = Peer("PureJaxRL", "ppo_gymnax", (Need("gymnax", PEERS), Need("distrax", PEERS)), ("jax",), threads=16)
CLEANRL = Peer("CleanRL's recipe", "ppo_torch", (Need("torch", PEERS), Need("gymnasium", PEERS)))
MINATAR = Need("minatar", PEERS)
WHO = {"shoal": "shoal", "purejaxrl": "PureJaxRL", "cleanrl": "CleanRL"}
POINTS = 50  # of a learning curve in a chart
HELD_OUT = 1_000_000  # the seed of runs with an evolved loss; that of the search is 0
LAST = 0.1  # the part of the training whose returns are the last ones


class Game(NamedTuple):
    """An environment under the names of the libraries, with the fields of shoal that PureJaxRL's figure has."""

    shoal: str
    fields: tuple[Any, ...]
    purejaxrl: tuple[str, ...]
    cleanrl: tuple[str, ...]


GAMES = {
    "CartPole-v1": Game("CartPole-v1", (), ("--env", "CartPole-v1"), ("--env", "CartPole-v1")),
    "Breakout-MinAtar": Game(
        "MinAtar/Breakout-v1",
        (
            *("--num-envs", 64, "--num-minibatches", 8, "--learning-rate", 5e-3, "--torso", "mlp"),
            *("--activation", "relu", "--env.sticky-action-prob", 0, "--env.max-steps", 1000),
        ),
        ("--env", "Breakout-MinAtar", "--minatar"),
        ("--env", "MinAtar/Breakout-v1", "--minatar"),
    ),
}


def learning(work: Workspace, *, game: str, steps: int, seeds: int, cleanrl_steps: int) -> Measured:
    """Learning curves and speeds of one agent and of several, beside PureJaxRL and CleanRL's recipe."""
    names = GAMES[game]
    notes: list[str] = []
    size = ("--steps", steps, "--records", POINTS, *names.fields)
    one = train(work, "one", "ppo", names.shoal, *size)
    many = train(work, "many", "ppo", names.shoal, *size, "--seeds", seeds)
    numbers, frames, seconds = {}, {}, {}
    for key, trained, agents in (("shoal", one, 1), ("shoal.many", many, seeds)):
        numbers |= _speed(key, trained.result.summary["train_seconds"], trained.seconds, agents * steps, steps)
    frames[f"shoal, mean of {seeds} agents"] = _curve(many.result)
    seconds["shoal"] = _over_seconds(_curve(one.result), one.result.summary["train_seconds"])
    numbers |= _returns("shoal", frames[f"shoal, mean of {seeds} agents"])
    theirs = ("--total-steps", steps)
    for key, count in (("purejaxrl", 1), ("purejaxrl.many", seeds)):
        if found := measure_peer(work, PUREJAXRL, notes, *names.purejaxrl, *theirs, "--seeds", count):
            numbers |= _speed(key, found["run_s"], found["seconds"], found["steps"], steps)
            curve = _binned([point[0] for point in found["curve"]], [point[2] for point in found["curve"]])
            if count == 1:
                seconds["PureJaxRL"] = _over_seconds(curve, found["run_s"])
            if count == seeds:
                frames[f"PureJaxRL, mean of {seeds} agents"] = curve
                numbers |= _returns("purejaxrl", curve)
    peer = CLEANRL if game == "CartPole-v1" else CLEANRL._replace(needs=(*CLEANRL.needs, MINATAR))
    if found := measure_peer(work, peer, notes, *names.cleanrl, "--total-steps", cleanrl_steps):
        numbers |= _speed("cleanrl", found["run_s"], found["seconds"], found["steps"], cleanrl_steps)
        curve = _binned([point[0] for point in found["curve"]], [point[2] for point in found["curve"]])
        frames["CleanRL's recipe, one agent"] = curve
        seconds["CleanRL's recipe"] = _over_seconds(curve, found["run_s"])
        numbers |= _returns("cleanrl", curve)
    lines = {"frames": frames, "seconds": seconds}
    numbers = {f"{game}.{key}": number for key, number in numbers.items()}
    return Measured(numbers, lines, notes, commands={"one agent": one.command, f"{seeds} agents": many.command})


def populations(work: Workspace, *, agents: Sequence[int], steps: int, many: int, many_steps: int) -> Measured:
    """Seconds to train populations of several sizes on CartPole, each in a process of its own."""
    numbers: dict[str, Any] = {}
    runs: dict[int, Run] = {}
    for count in agents:
        words = ("--steps", steps, "--seeds", count, "--records", 1)
        runs[count] = train(work, f"agents-{count}", "ppo", "CartPole-v1", *words)
        numbers[f"agents.{count}"] = runs[count].seconds
    words = ("--steps", many_steps, "--seeds", many, "--records", 1)
    largest = train(work, "largest", "ppo", "CartPole-v1", *words)
    numbers["largest.rate"] = largest.result.summary["steps_per_second"]
    numbers["largest.process"] = f"{largest.seconds:.0f} s for {many:,} agents x {many_steps:,} steps"
    commands = {f"{count} agents": run.command for count, run in runs.items()}
    return Measured(
        numbers,
        {"seconds": {"shoal": (list(runs), [run.seconds for run in runs.values()])}},
        [f"At this rate, {many:,} agents x {steps:,} steps take {many * steps / numbers['largest.rate']:,.0f} s."],
        commands={**commands, f"{many} agents": largest.command},
    )


def evolved_loss(
    work: Workspace, *, generations: int, candidates: int, seeds: int, steps: int, held_out: int
) -> Measured:
    """Evolve PPO's value loss on CartPole, and train with it and with the squared error on other seeds."""
    sizes = {"generations": generations, "candidates": candidates, "seeds": seeds, "steps": steps}
    size = [word for name, value in sizes.items() for word in (f"--{name}", value)]
    search = run(work, "search", "evolve", "value-loss-article", *size, "--records", 10)
    commands = {"the search": search.command}
    loss, fitness = search.result.found["value_loss"], fitness_of_generations(search.result)
    mean, best = np.nanmean(fitness, axis=1), np.nanmax(fitness, axis=1)
    generation = np.arange(1, len(mean) + 1).tolist()
    error, slopes = value_loss_slopes(loss)
    numbers: dict[str, Any] = {}
    curves = {}
    for name, words in (("evolved", ("--found", "runs/search")), ("squared", ("--num-envs", 4, "--num-steps", 64))):
        held = ("--steps", steps, "--seeds", held_out, "--seed", HELD_OUT)
        trained = train(work, name, "ppo", "CartPole-v1", *words, *held)
        curves[f"{name} loss"] = _curve(trained.result)
        numbers[f"whole.{name}"] = float(np.nanmean(trained.result.curves["train_return"]))
        commands[f"the {name} loss on other seeds"] = trained.command
    numbers |= {
        "weights": sum(np.size(array) for array in jax.tree.leaves(loss.layers)),
        "first": float(mean[0]),
        "last": float(mean[-1]),
        "best": float(best.max()),
        "evaluations": generations * candidates * seeds,
        "zero": float(slopes["evolved"][len(error) // 2]),
    }
    evenly = slice(None, None, 6)  # of 601 errors
    lines = {
        "fitness": {
            "mean of the candidates": (generation, mean.tolist()),
            "best of the candidates": (generation, best.tolist()),
        },
        "loss": {name: (error[evenly].tolist(), slope[evenly].tolist()) for name, slope in slopes.items()},
        "curves": curves,
    }
    return Measured(numbers, lines, commands=commands)


def _speed(key: str, run_s: float, process_s: float, steps: int, of_each: int) -> dict[str, Any]:
    return {f"{key}.rate": steps / run_s, f"{key}.process": f"{process_s:.1f} s for {of_each:,} steps"}


def _returns(key: str, curve: tuple[list, list]) -> dict[str, float]:
    """The mean return in the last part of the training, and the steps at which it first reaches 475."""
    steps, returns = np.asarray(curve[0]), np.asarray(curve[1])
    found = {f"{key}.last": float(returns[steps > (1 - LAST) * steps[-1]].mean())}
    reached = np.flatnonzero(returns >= 475)
    return found | ({f"{key}.solved": float(steps[reached[0]])} if len(reached) else {})


def _curve(result: Result) -> tuple[list, list]:
    """Environment steps, and the mean return over members, of the records in which an episode ended."""
    steps, returns = result.curves["env_steps"], result.curves["train_return"]
    some = np.isfinite(returns).any(axis=1)
    return steps[some].tolist(), np.nanmean(returns[some], axis=1).tolist()


def _binned(steps: Sequence[float], returns: Sequence[float]) -> tuple[list, list]:
    """At most `POINTS` points of a curve: means over equal parts of it."""
    parts = [part for part in np.array_split(np.arange(len(steps)), POINTS) if len(part)]
    return [float(steps[part[-1]]) for part in parts], [float(np.mean(np.asarray(returns)[part])) for part in parts]


def _over_seconds(curve: tuple[list, list], run_s: float) -> tuple[list, list]:
    """The curve of a run against the seconds of its training: every step takes equally long."""
    return [run_s * steps / curve[0][-1] for steps in curve[0]], curve[1]


def _learning_part(name: str, game: str, about: str, published: dict[str, Any], here: dict, full: dict) -> Part:
    steps, a40, cleanrl, last, solved = (published[key] for key in ("steps", "A40", "CleanRL", "last", "solved"))
    one, several, whole = (
        f"{game}, one agent: steps per second",
        "several agents: steps per second",
        "one agent: whole process",
    )
    reached = "environment steps until the mean return first reaches 475"
    of_figure = "read from the figure"
    rows = [
        Row(f"{game}.shoal.rate", "shoal", None, "", one, main=True),
        Row(f"{game}.purejaxrl.rate", "PureJaxRL", steps / a40, "", one, f"A40: {a40} s for {steps:,} steps", True),
        Row(f"{game}.cleanrl.rate", "CleanRL", steps / cleanrl, "", one, f"{cleanrl} s for {steps:,} steps", True),
        Row(f"{game}.shoal.process", "shoal", None, "", whole),
        Row(f"{game}.purejaxrl.process", "PureJaxRL", f"{a40} s for {steps:,} steps", "", whole, "A40"),
        Row(f"{game}.cleanrl.process", "CleanRL", f"{cleanrl} s for {steps:,} steps", "", whole, "hardware not named"),
        Row(f"{game}.shoal.many.rate", "shoal", None, "", several),
        Row(f"{game}.purejaxrl.many.rate", "PureJaxRL", None, "", several),
    ]
    for key, group, numbers in (("last", "mean return in the last tenth", last), ("solved", reached, solved)):
        for (who, what), number in zip(WHO.items(), numbers, strict=False):
            rows.append(Row(f"{game}.{who}.{key}", what, number, "", group, of_figure * bool(number)))
    lines = published["lines"]
    in_frames = {name: ([steps * x / line[0][-1] for x in line[0]], line[1]) for name, line in lines.items()}
    charts = (
        Chart("frames", "Return against environment steps", "environment steps", "mean return", published=in_frames),
        Chart("seconds", "Return against seconds of training", "seconds", "mean return", True, published=lines),
    )
    return Part(name, f"{game}: learning curves", about, learning, here, full, rows, charts)


CARTPOLE = {
    "steps": 500_000,
    "A40": 17,
    "CleanRL": 188,
    "last": (None, 500, 490),
    "solved": (None, 220_000, 210_000),
    "lines": {
        "PureJaxRL, A40": ([0.5, 2, 4, 6, 7.5, 12, 17], [200, 290, 380, 450, 490, 495, 500]),
        "CleanRL": (
            [2, 8, 15, 25, 35, 47, 60, 64, 77, 90, 100, 125, 150, 185],
            [20, 200, 235, 250, 330, 370, 450, 320, 485, 430, 475, 475, 490, 490],
        ),
    },
}
BREAKOUT = {
    "steps": 10_000_000,
    "A40": 34,
    "CleanRL": 485,
    "last": (None, 40, 38),
    "solved": (),
    "lines": {
        "PureJaxRL, A40": ([1, 3, 10, 20, 28, 34], [14, 20, 25, 30, 36, 40]),
        "CleanRL": ([5, 20, 50, 100, 200, 300, 400, 485], [3, 9, 14, 17, 22, 27, 31, 38]),
    },
}
PEOPLE = ((1, "17 s (A40), 24 s (A100)"), (64, "19 s (A40)"), (256, "32 s (A40), 29 s (A100)"), (2048, "98 s (A100)"))
NOTEBOOK = [167.74, 61.5, 284.49, 328.83, 331.41, 337.72, 324.01, 315.01, 341.02, 325.21, 323.6]

PARTS = (
    _learning_part(
        "cartpole",
        "CartPole-v1",
        "PPO with CleanRL's hyperparameters, which are shoal's defaults, with 4 environments. PureJaxRL and CleanRL "
        "treat the time limit as a failure; shoal does not. PureJaxRL's code is adapted to gymnax 1.0. CleanRL's "
        "recipe is a script with torch that does the same work without its logging. The published curves are read "
        "from a figure.",
        CARTPOLE,
        {"game": "CartPole-v1", "steps": 500_000, "seeds": 8, "cleanrl_steps": 500_000},
        {"seeds": 64},
    ),
    _learning_part(
        "breakout",
        "Breakout-MinAtar",
        "PPO with the hyperparameters of PureJaxRL's figure: 64 environments, a network of 64 x 64 units on the "
        "flattened image. As in gymnax, there are no sticky actions, and an episode has at most 1,000 steps. The "
        "figure is about 10 million steps, in which the learning rate falls to 0; with fewer steps it falls faster, "
        "so the returns of a shorter training are not those at the same step of the figure.",
        BREAKOUT,
        {"game": "Breakout-MinAtar", "steps": 1_000_000, "seeds": 4, "cleanrl_steps": 500_000},
        {"steps": 10_000_000, "seeds": 8, "cleanrl_steps": 10_000_000},
    ),
    Part(
        "populations",
        "One agent, many agents, 2,048 agents",
        "Seconds until a population is trained on CartPole-v1, with 500,000 steps for each agent: the whole process, "
        "with imports and compilation. A GPU is nearly idle with one agent, so the published times hardly grow up to "
        "128 agents. Two CPU cores are busy with 8 agents, and from there the time grows with their number.",
        populations,
        here={"agents": [1, 8, 64], "steps": 500_000, "many": 2048, "many_steps": 10_240},
        full={"agents": [1, 8, 64, 256, 2048], "many_steps": 500_000},
        rows=(
            *(
                Row(f"agents.{n}", f"{n:,} agent{'s' * (n > 1)}", words, "", "seconds until all are trained")
                for n, words in ((1, PEOPLE[0][1]), (8, None), *PEOPLE[1:])
            ),
            Row("largest.rate", "steps per second", 2048 * 500_000 / 98, "", "2,048 agents", "A100: from 98 s", True),
            Row("largest.process", "whole process", "98 s for 2,048 agents x 500,000 steps", "", "2,048 agents"),
        ),
        charts=(
            Chart(
                "seconds",
                "Seconds until all agents are trained",
                "agents",
                "seconds",
                log_x=True,
                log_y=True,
                published={
                    "PureJaxRL, A40": ([1, 64, 128, 256, 512, 1024], [17, 19, 23, 32, 54, 93]),
                    "PureJaxRL, A100": ([1, 128, 256, 512, 1024, 2048], [24, 27, 29, 38, 61, 98]),
                    "CleanRL, one agent": ([1], [188]),
                },
            ),
        ),
    ),
    Part(
        "evolved-loss",
        "A value loss found by evolution",
        "Part 4 of the notebook: a network of 4,353 weights replaces the squared error of PPO's critic, and an "
        "evolution strategy (OpenES) searches for weights with which PPO learns CartPole fast. Fitness is the mean "
        "return over the whole training. The notebook asks for 512 generations and prints 11; its strategy begins at "
        "random weights, and so does ours. It does not compare its loss with the squared error on other seeds: here "
        "both are trained on seeds that the search has not used. The sizes on a small machine are far from the "
        "notebook's 128 candidates with 500,000 steps each.",
        evolved_loss,
        here={"generations": 24, "candidates": 16, "seeds": 2, "steps": 51_200, "held_out": 16},
        full={"generations": 512, "candidates": 128, "steps": 500_000, "held_out": 64},
        rows=(
            Row("weights", "weights of the loss", 4353, "", "the search"),
            Row(
                "evaluations",
                "training runs",
                512 * 128 * 2,
                "",
                "the search",
                "asked for; the notebook prints 11 generations",
            ),
            Row("first", "mean fitness of the first generation", 167.74, "", "the search"),
            Row("last", "mean fitness of the last generation", 323.6, "", "the search", "generation 11"),
            Row("best", "best candidate", 430.73, "", "the search"),
            Row("zero", "slope of the evolved loss at error 0", "not 0", "", "the loss", "its figure"),
            Row("whole.evolved", "evolved loss", None, "", "mean return over the whole training, other seeds"),
            Row("whole.squared", "squared error", None, "", "mean return over the whole training, other seeds"),
        ),
        charts=(
            Chart(
                "fitness",
                "Fitness over the generations",
                "generation",
                "mean return in training",
                published={"the notebook's mean": (list(range(1, 12)), NOTEBOOK)},
            ),
            Chart("loss", "Slope of the evolved loss", ERROR_LABEL, SLOPE_LABEL),
            Chart("curves", "Learning curves on other seeds", "environment steps", "mean return"),
        ),
    ),
)

register(
    Reproduction(
        name="purejaxrl",
        title="PureJaxRL: thousands of agents in one program",
        source=Source("PureJaxRL", "Chris Lu, 2023", "https://github.com/luchris429/purejaxrl"),
        about="PureJaxRL compiles the whole training, environments included, into one JAX program. Its README "
        "compares one agent with CleanRL, and trains up to 2,048 agents at once. Its notebook evolves a value loss "
        "for PPO.",
        parts=PARTS,
    )
)
