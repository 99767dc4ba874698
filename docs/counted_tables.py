"""The section of measurements.md about the CUDA programs that `benchmarks/gpu_program.py` counted."""

import json
import re
from typing import Any, NamedTuple

from page_parts import table
from results_page import RESULTS

Row = dict[str, Any]
ABOUT = (
    "The launches and bytes below are counted and the times estimated; nothing was measured. XLA compiles each program "
    "for an H100 on a machine that has no GPU, and `benchmarks/gpu_program.py` counts its kernels, and the bytes that "
    "they read and write ([how it is fast](how-it-is-fast.md#on-a-gpu-other-loops-and-other-layouts) explains both). "
    "*Before* is the program of commit da899f6, which had the form of a CPU on every device; *now* is the form of a "
    "GPU. *Least* is the fewest bytes that a program needs that changes no array in place. After `>`, the program has "
    "kernels of shoal's own, of which only the bytes are known: it takes longer. An empty cell was not counted. "
    "`benchmarks/results/gpu-program.json` and `gpu-program-before.json` also have the probes, and the commit of each "
    "row."
)
COMMANDS = """```sh
make gpu-program
git worktree add OLD da899f6
.venv-gpu-program/bin/python benchmarks/gpu_program.py table --source OLD/src --form cpu --out before.json
```"""
TARGETS_ABOUT = (
    "Targets that were set before the work began, for one step of all environments or one update of all members. The "
    "first column is a command of `benchmarks/gpu_program.py`; with `--json` it prints the row of the file."
)
STEPS = (
    "One step of all environments together, in a program of 100 steps with random actions and automatic resets that "
    "sums every observation. KB are those of one environment. Each class of environments has one row."
)
RESETS = (
    "First states of 1,024 environments in one batch. KB are those of one environment. A class without a row was not "
    "counted."
)
UPDATES = (
    "One update of all members together, with the default fields, on CartPole-v1, or on Pendulum-v1, CliffWalking-v1 "
    "or BernoulliBandit-v0 where the agent needs it; DQN has 10 environments. MB are those of one member. At least, "
    "each gradient step reads and writes the weights and Adam's moments once and reads its minibatch once, and each "
    "step of the rollout writes its sample once."
)


class Target(NamedTuple):
    """The most launches and bytes that a program should have, all its environments or members together."""

    launches: float | None = None
    bytes: float | None = None
    why_missed: str = ""  # the kernels that remain


TARGETS = {
    "env Acrobot-v1 --envs 1024": Target(2.5),
    "env CartPole-v1 --envs 1024": Target(2.5),
    "env MountainCar-v0 --envs 1024": Target(2.5),
    "env MountainCarContinuous-v0 --envs 1024": Target(2.5),
    "env Pendulum-v1 --envs 1024": Target(2.5),
    "env FrozenLake-v1 --envs 1024": Target(2.5),
    "env MinAtar/Breakout-v0 --envs 1024": Target(6),
    "env MiniGrid-Empty-8x8-v0 --envs 1024": Target(4, 1024 * 0.8e3),
    "env MiniGrid-DoorKey-8x8-v0 --envs 1024": Target(8, 1024 * 1.0e3),
    "env MiniGrid-KeyCorridorS3R1-v0 --envs 1024": Target(8, 1024 * 1.0e3),
    "env MiniGrid-FourRooms-v0 --envs 32768": Target(16, 32_768 * 1.5e3),
    "env MiniGrid-Dynamic-Obstacles-8x8-v0 --envs 1024": Target(10),
    "env BabyAI-GoToLocal-v0 --envs 1024": Target(20),
    "env BabyAI-BossLevel-v0 --envs 1024": Target(20),
    "agent ppo --members 1": Target(1000),
    "agent ppo --members 2048": Target(bytes=15e9),
    "agent ppo --members 2048 --fields kernels=off": Target(
        bytes=45e9,
        why_missed="this is XLA alone, in float32. A gradient step moves 2.98 GB, sixteen of them 47.6 GB. Adam moves "
        "0.53 GB of it; the rest are mostly twelve products and sums of the layers with 64 x 64 weights (168 to 202 "
        "MB each), because XLA writes the activations of 128 samples after each layer. Each step of the rollout reads "
        "the weights, 6.3 GB in all. The kernels of the row above keep both in registers.",
    ),
    "agent dqn --members 2048": Target(
        bytes=3.5e9,
        why_missed="0.27 GB are the copy of the target network, which is counted in every update, although its loop "
        "runs in one of 50 only; without it 3.51 GB remain. The largest kernels are Adam's (0.58 GB) and the products "
        "of the layer with 120 x 84 weights and their sums (eight kernels, 2.1 GB), which write and read activations "
        "of 128 samples (`nn/torsos.py`). The kernel of the next row keeps them in registers.",
    ),
    "agent dqn --members 2048 --fields kernels=on": Target(bytes=3.5e9),
    "agent pqn --members 2048 --fields kernels=on": Target(),
}
WHY_MORE = {  # agents -> why their 2,048 members move more than four times the least
    "bc": "as PPO without kernels of our own: the products of the layer with 64 x 64 weights write and read the "
    "activations of 128 samples, 1.2 of 1.6 GB in a gradient step; Adam moves 0.24 GB.",
    "c51": "of the 5.8 GB in a gradient step Adam moves 1.1 GB and the layer with 120 x 84 weights 2.1 GB, as in DQN; "
    "the last layer has 51 numbers for each action and sample, and it, its softmax and the projection move most of "
    "the rest.",
    "ddpg, td3, sac": "a gradient step changes actor, critics and their targets, each with a layer of 256 x 256 "
    "weights. A product of this layer for 2,048 members moves 1.6 GB, 3.2 GB for two critics: the activations of 256 "
    "samples are as large as the weights, and are written and read. XLA also changes the order of weights: nine "
    "copies of 1.07 GB and four kernels that transpose, in a gradient step of DDPG. The step of TD3's actor is "
    "counted in every gradient step, although it is made in every second one only.",
    "crossq, tqc, redq": "as SAC, with more rows or critics. CrossQ normalizes 512 rows for two critics (arrays of 2.1 "
    "GB, written and read by each part of the normalization, 134 GB in a gradient step); TQC has five critics with 25 "
    "quantiles each, and compares 125 with 115 of them for each of 256 samples (195 GB); REDQ has ten critics and 80 "
    "gradient steps in an update (361 GB each).",
    "dqn": "see the targets.",
    "iqn": "the network is computed for 64 fractions of each of 128 samples. An array of 2,048 x 128 x 64 x 84 numbers "
    "has 5.8 GB; the products with the embedding of fractions, the layer above and their gradients write and read such "
    "arrays, 130 GB in a gradient step. The least has the weights only.",
    "rainbow": "as C51, with two heads of 51 numbers whose weights have noise: 15.8 GB in a gradient step.",
    "pqn": "each step of the rollout computes the network, which reads the weights again: 1.1 GB for eight steps, 17 "
    "GB for all. In a gradient step (5 GB) the sums of layer normalization write and read the activations again. "
    "`kernels=on` does both in kernels of our own (see the targets), which no GPU has timed yet.",
    "q-learning, double-q, sarsa, expected-sarsa": "five kernels for a step of all members, each at the shortest time "
    "that a launch takes. They read and write the states, the change of the table and the record of the step; the "
    "least has only the samples and one pass over the table.",
    "es": "an episode has up to 500 steps, and each writes and reads the activations of 64 candidates of 2,048 "
    "members (92 MB). The least reads the candidates once, which only a kernel for whole episodes could do.",
    "rl2": "the GRU is computed step by step, 100 steps in each of 32 gradient steps, forward and backward, and each "
    "step reads the weights again.",
}


def counted_section() -> list[str]:
    """Headings, words and tables."""
    now, before = _read("gpu-program"), _read("gpu-program-before")
    missed = [f"- `{command}`: {target.why_missed}" for command, target in TARGETS.items() if target.why_missed]
    more = [f"- `{names.replace(', ', '`, `')}`: {why}" for names, why in WHY_MORE.items()]
    return [
        "## CUDA programs, counted without a GPU",
        ABOUT,
        COMMANDS,
        "### Targets",
        TARGETS_ABOUT,
        _targets(now, before),
        "Missed, with the kernels that remain:\n\n" + "\n".join(missed),
        "### Steps of 1,024 environments",
        STEPS,
        _environments(now, before, r"env (\S+) --envs 1024"),
        "### Steps of 32,768 environments",
        "As above, for one class of each family.",
        _environments(now, before, r"env (\S+) --envs 32768"),
        "### Resets",
        RESETS,
        _environments(now, before, r"reset (\S+) --envs 1024"),
        "### Updates of every agent",
        UPDATES,
        _agents(now, before),
        "More than four times the least, of 2,048 members:\n\n" + "\n".join(more),
    ]


def _read(name: str) -> dict[str, Row]:
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return {command: row for command, row in rows.items() if "error" not in row and " Probe-" not in command}


def is_missed(row: Row, target: Target) -> bool:
    """Whether a program has more launches or bytes than it should."""
    limits = ((row["launches"], target.launches), (row["bytes"], target.bytes))
    return any(limit is not None and number > limit for number, limit in limits)


def _targets(now: dict[str, Row], before: dict[str, Row]) -> str:
    cells = []
    for command, target in TARGETS.items():
        old = before.get(command.partition(" --fields")[0])  # da899f6 had no such field
        sides = (old, now.get(command))
        cells.append(
            [
                f"`{command}`",
                *(_count(row and row["launches"]) for row in sides),
                _count(target.launches),
                *(_size(row and row["bytes"]) for row in sides),
                _size(target.bytes),
            ]
        )
    return table(("program", "launches, before", "now", "target", "bytes, before", "now", "target"), cells)


def _environments(now: dict[str, Row], before: dict[str, Row], pattern: str) -> str:
    cells = []
    for command, row in sorted(now.items(), key=lambda item: item[0].lower()):
        if found := re.fullmatch(pattern, command):
            sides, parts = (before.get(command), row), row["parts"]
            cells.append(
                [
                    f"`{found[1]}`",
                    *(_count(side and side["launches"]) for side in sides),
                    *(_thousands(side and side["bytes"] / parts) for side in sides),
                    _thousands(row["least_bytes"] / parts),
                    *(_microseconds(side) for side in sides),
                ]
            )
    head = ("environment", "launches, before", "now", "KB, before", "now", "least", "µs, before", "now")
    return table(head, cells)


def _agents(now: dict[str, Row], before: dict[str, Row]) -> str:
    cells = []
    for command, row in sorted(now.items()):
        if found := re.fullmatch(r"agent (\S+) --members (\d+)", command):
            sides = (before.get(command), row)
            cells.append(
                [
                    f"`{found[1]}`",
                    f"{int(found[2]):,}",
                    *(_count(side and side["launches"]) for side in sides),
                    _count(row["launches_of_a_gradient_step"] or None),
                    *(_thousands(side and side["bytes"] / row["parts"] / 1e3) for side in sides),
                    _thousands(row["least_bytes"] / row["parts"] / 1e3),
                    *(_microseconds(side) for side in sides),
                ]
            )
    head = ("agent", "members", "launches, before", "now", "of a gradient step", "MB, before", "now", "least")
    return table((*head, "µs, before", "now"), cells)


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}" if number >= 100 else f"{number:,.3g}"


def _thousands(number: float | None) -> str:
    return "" if number is None else f"{float(f'{number / 1e3:.3g}'):,g}"


def _size(number: float | None) -> str:
    if number is None:
        return ""
    unit, name = next((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")) if number >= unit)
    return f"{number / unit:.3g} {name}"


def _time(row: Row) -> float:
    """The estimated microseconds of a unit: kernels, or the host that launches them, whichever takes longer."""
    return max(row["kernel_microseconds"], row["host_microseconds"])


def _microseconds(row: Row | None) -> str:
    if not row or "kernel_microseconds" not in row:  # only launches and bytes were kept of the first programs
        return ""
    return "> " * bool(row["opaque_launches"]) + _count(_time(row))
