"""The section of measurements.md about a GPU, from what `benchmarks/gpu.py` wrote."""

import json
from typing import Any

import gpu_parts
from gpu_parts import machine_line, millions
from page_parts import table
from results_page import RESULTS

ENVIRONMENTS = (
    "Of the environments that are not in the table above. Random actions and automatic resets; every observation is "
    "computed and summed. Where a number is missing, the time ran out before the program was compiled. Those of "
    "1,048,576 environments, with few exceptions, and some others were measured at commit 29cc6f4. 1,024 environments "
    "are too few for a GPU: the time is that of launching kernels, and 32,768 take hardly longer. Levels that are made "
    "anew until they can be solved, or until they differ from others (`Open`, `GoTo`, `Pickup`, `Unlock`, the "
    "wave-function collapse), have loops whose number of trips only the GPU knows, and the host waits for each trip."
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
