"""The section of measurements.md about a GPU, from what `benchmarks/gpu.py` wrote."""

import json
from typing import Any

import gpu_parts
from gpu_parts import machine_line, millions
from page_parts import table
from results_page import RESULTS

ENVIRONMENTS = (
    "Of the environments that are not in the table above. Random actions and automatic resets; every observation is "
    "computed and summed. The time ran out before other classes were compiled: their programs are counted below. "
    "`GoTo`, `GoToImpUnlock` and `Open` reject half of their levels, and each attempt was made for all environments "
    "then. Now it is made for an eighth of them at a time (`grid/retry.py`), which was not measured on a GPU."
)


def gpu_section() -> list[str]:
    """Headings, commands and tables."""
    envs = _read("environments")
    every = [ENVIRONMENTS, machine_line(envs["machine"]), _command("environments"), _environments(envs["rows"])]
    newest = _read("device")["machine"]
    parts = gpu_parts.parts(newest)
    return ["## On a GPU", machine_line(newest), *parts, "### Environment steps of other classes", *every]


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"gpu-{name}.json").read_text())


def _command(arguments: str) -> str:
    return f"```sh\npython benchmarks/gpu.py {arguments}\n```"


def _environments(rows: list[dict[str, Any]]) -> str:
    rates: dict[str, dict[int, float]] = {}
    for row in rows:
        rates.setdefault(row["env"], {})[row["num_envs"]] = row["steps_per_second"]
    sizes = sorted({row["num_envs"] for row in rows})
    cells = [[name, *(millions(of.get(size)) for size in sizes)] for name, of in sorted(rates.items())]
    return table(("million steps per second", *(f"{size:,} environments" for size in sizes)), cells)
