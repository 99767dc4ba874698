"""The section of measurements.md about a GPU, from what `benchmarks/gpu.py` wrote."""

import json
from typing import Any

import gpu_parts
from page_parts import table
from results_page import RESULTS

ENVIRONMENTS = (
    "With random actions and automatic resets; every observation is computed and summed. There is a row for each "
    "class of environments, without the probes. Where a cell is empty, the program was not measured (the time ran "
    "out), or the GPU's 80 GB of memory were too small for it while fifteen processes compiled."
)
KERNELS = (
    "PPO with its default sizes (4 environments x 128 steps, 16 gradient steps) on CartPole, timed over ten updates "
    "after the compilation. A launch starts one kernel. A single agent is limited by the number of launches, not by "
    "arithmetic: a kernel takes 1.2 µs on average. With 2,048 agents 77 % of the time goes into kernels that run once "
    "or twice in each gradient step; matrix products are less than a third of that, the rest reads and writes arrays."
)
DQN = (
    "10 environments, a gradient step of 128 transitions after every 10 steps, 100,000 steps for each agent, one "
    "round. Here shoal is slower than PureJaxRL's recipe (flashbax, one `jit`); the reason is not known yet. PPO was "
    "not measured beside PureJaxRL's recipe: the time on the machine ended before."
)


def gpu_section() -> list[str]:
    """Headings, commands and tables."""
    envs, newest = _read("environments"), gpu_parts.parts()
    every = ["### Environment steps on a GPU", ENVIRONMENTS, _command("environments"), _environments(envs["rows"])]
    if newest:
        machine = _machine(_read("device")["machine"])
        return ["## On a GPU", machine, *newest, every[0], _machine(envs["machine"]), *every[1:]]
    parts = ["## On a GPU", _machine(envs["machine"]), *every]
    parts += ["### An update of PPO on a GPU", KERNELS, _command("training"), _kernels(_read("kernels")["rows"])]
    return [*parts, "### DQN on a GPU", DQN, _command("training"), _dqn(_read("dqn")["rows"])]


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"gpu-{name}.json").read_text())


def _machine(machine: dict[str, Any]) -> str:
    return (
        f"{machine['gpu']}, driver {machine['driver']}, {machine['cores']} CPU cores; JAX 0.11.2; commit "
        f"{machine['commit']}; {machine['time'][:10]}."
    )


def _command(arguments: str) -> str:
    return f"```sh\npython benchmarks/gpu.py {arguments}\n```"


def _environments(rows: list[dict[str, Any]]) -> str:
    rates: dict[str, dict[int, float]] = {}
    for row in rows:
        if not row["env"].startswith("Probe-"):
            rates.setdefault(row["env"], {})[row["num_envs"]] = row.get("steps_per_second")
    sizes = sorted({row["num_envs"] for row in rows})
    cells = [[name, *(_millions(of.get(size)) for size in sizes)] for name, of in rates.items()]
    return table(("million steps per second", *(f"{size:,} environments" for size in sizes)), cells)


def _millions(rate: float | None) -> str:
    return f"{float(f'{rate / 1e6:.3g}'):,g}" if rate else ""


def _kernels(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        seconds, steps = row["seconds_per_update"], 512 * row["agents"]
        cells.append(
            [
                f"{row['agents']:,}",
                f"{seconds * 1e3:.1f} ms",
                f"{row['busy_s_per_update'] / seconds:.0%}",
                f"{row['launches_per_update']:,.0f}",
                _millions(steps / seconds),
            ]
        )
    head = ("agents", "time of an update", "kernels at work", "launches", "million steps per second")
    return table(head, cells)


def _dqn(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            f"{r['agents']:,}",
            r["side"],
            f"{r['train_s']:.1f} s",
            f"{r['compile_s']:.1f} s",
            _millions(r["steps_per_second"]),
        ]
        for r in rows
    ]
    return table(("agents", "program", "training", "compilation", "million steps per second"), cells)
