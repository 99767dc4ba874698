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


def gpu_section() -> list[str]:
    """Headings, commands and tables."""
    envs = _read("environments")
    every = [ENVIRONMENTS, _machine(envs["machine"]), _command("environments"), _environments(envs["rows"])]
    newest = [_machine(_read("device")["machine"]), *gpu_parts.parts()]
    return ["## On a GPU", *newest, "### Environment steps of every class, before shoal had a form for GPUs", *every]


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
