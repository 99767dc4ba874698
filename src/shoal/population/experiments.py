"""Experiments: evolutions that were published or measured, by name, from `experiments.toml`."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.kinds import with_tuples

SIZES = ("generations", "candidates", "seeds", "steps", "records")


class Experiment(NamedTuple):
    """The arguments of `shoal.evolve`, and where they come from."""

    name: str
    about: str  # one line
    evidence: str  # what was measured, or which publication has these settings
    agent: str
    env: str
    vary: dict[str, Any]  # by path: the name of a struct to start from, a range, or () for the declared range
    sizes: dict[str, int]  # by name of `SIZES`
    fields: dict[str, Any] = {}
    env_fields: dict[str, Any] = {}
    options: dict[str, Any] = {}  # fields of `Evolve`


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    with open(Path(__file__).with_name("experiments.toml"), "rb") as file:
        tables = tomllib.load(file)
    return {name: _experiment(name, with_tuples(table)) for name, table in tables.items()}


def _experiment(name: str, table: dict[str, Any]) -> Experiment:
    sizes = {size: table.pop(size) for size in SIZES if size in table}
    return Experiment(name=name, sizes=sizes, **table)
