"""Budgets: the most launches and bytes of some programs, in one table that tests hold and that one command records."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "tests" / "gpu_program" / "budgets.toml"
TOLERANCE = 1.01  # so much more than its budget a program may have
HEADER = """\
# Launches and megabytes of one step, update or batch of resets: the most that each program may have, in the form of a
# GPU. Counted, not measured. `make test-gpu-program` holds them; record them again, after a change that is worth it,
# with: .venv-gpu-program/bin/python benchmarks/gpu_program.py budgets --record
# A key is a command of benchmarks/gpu_program.py, which shows the kernels.
"""


def read(file: Path = FILE) -> dict[str, dict[str, float]]:
    """The budgets by command."""
    return tomllib.loads(file.read_text())


def of(row: Mapping[str, Any]) -> dict[str, float]:
    """The budget that a program just keeps to."""
    return {"launches": round(row["launches"], 2), "megabytes": round(row["bytes"] / 1e6, 4)}


def write(budgets: Mapping[str, Mapping[str, float]], file: Path = FILE) -> None:
    """Write the table."""
    width = max(map(len, budgets)) + 2
    row = "{:{width}} = {{ launches = {:8.2f}, megabytes = {:11.4f} }}\n"
    rows = (row.format(f'"{name}"', *budget.values(), width=width) for name, budget in budgets.items())
    file.write_text(HEADER + "\n" + "".join(rows))


def excess(row: Mapping[str, Any], budget: Mapping[str, float]) -> str:
    """The counts that exceed the budget of a program, in words; empty if none does."""
    return ", ".join(
        f"{value:g} {name}, the budget is {budget[name]:g}"
        for name, value in of(row).items()
        if value > budget[name] * TOLERANCE
    )
