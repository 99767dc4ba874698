"""The returns between which the scores of an environment are normalized: those of random play (0) and a target (1).

Those of shoal's environments are in `envs/references.toml`. A file of the user's own has the same form:

    ["MyEnv"]
    random = -20
    target = 100
"""

import functools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import shoal.envs
from shoal.core.registry import ENVS
from shoal.specs.describe import describe_fields
from shoal.specs.spec import RunSpec, plain

RANGE = "range"  # in the place of a file: the range of the compared scores
TARGETS = ("target", "largest", "solved")  # the first one that an environment has is its target
IN_WORDS = {"target": "the target", "largest": "the largest return", "solved": "the return at which it is solved"}
ADVICE = 'A file of references has, for each environment, ["ENV"], random = NUMBER and target = NUMBER.'


class Reference(NamedTuple):
    """Returns that are normalized to 0 and to 1, and what they are."""

    low: float
    high: float
    about: str

    def normalized(self, returns: Any) -> Any:
        """Return (returns - low) / (high - low)."""
        return (returns - self.low) / (self.high - self.low)


def range_of(scores: Float[np.ndarray, "N"], about: str) -> Reference:
    """Return the reference whose ends are the lowest and the highest finite score: 0 and 1 if there is none.

    `about` is the noun for the scores. Where all are equal, all are normalized to 0.
    """
    known = scores[np.isfinite(scores)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    words = f"the lowest and the highest {about}, {low:.4g} and {high:.4g}"
    return Reference(low, high if high > low else low + 1, words)


def read_references(path: Path | str) -> dict[str, dict[str, float]]:
    """Return the numbers of every environment in a TOML file.

    Raises FileNotFoundError if there is none, and ValueError for one of another form.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist. {ADVICE}") from None
    except (ValueError, OSError) as error:  # of the encoding too
        raise ValueError(f"{path} is no TOML: {error}. {ADVICE}") from error
    check_references(tables, path)
    return tables


def check_references(tables: Mapping[str, Any], path: Path | str) -> None:
    """Raise ValueError unless the tables of the file at `path` have the form of references."""
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ValueError(f"{path}: {name} stands outside of a table. {ADVICE}")
        for key, value in table.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if key not in ("random", *TARGETS) or not is_number:
                raise ValueError(f'{path}: {key} = {value!r} of "{name}" is not known. {ADVICE}')


@functools.cache
def known_references() -> dict[str, dict[str, float]]:
    """Return the numbers of shoal's own environments, by name."""
    return read_references(Path(shoal.envs.__path__[0]) / "references.toml")


def target_of(table: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the kind of the target of an environment, one of `TARGETS`, and its value; None without one."""
    return next(((kind, table[kind]) for kind in TARGETS if kind in table), None)


def reference_for(name: str, spec: RunSpec, own: Mapping[str, Mapping[str, float]]) -> Reference | None:
    """Return the reference of an environment: of the user's `own` by its name in the comparison, or that of shoal.

    None where there is none, and where the environment's fields are not those that shoal's reference is for. Raises
    ValueError for one of the user's that is incomplete, or whose target is not above random play.
    """
    if name in own:
        return _complete(own[name], name)
    table = known_references().get(spec.env_name, {})
    has_both = "random" in table and target_of(table)
    return _complete(table, name) if has_both and _has_default_fields(spec) else None


def _complete(table: Mapping[str, float], name: str) -> Reference:
    target = target_of(table)
    if "random" not in table or target is None or not table["random"] < target[1]:
        raise ValueError(f'the reference of "{name}" needs random and a target that is larger; it has {dict(table)}.')
    kind, high = target
    return Reference(float(table["random"]), float(high), f"random play {table['random']:g}, {IN_WORDS[kind]} {high:g}")


def _has_default_fields(spec: RunSpec) -> bool:
    defaults = describe_fields(ENVS[spec.env].build())
    return all(name in defaults and plain(value) == plain(defaults[name]) for name, value in spec.env_fields.items())
