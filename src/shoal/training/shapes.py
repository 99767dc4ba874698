"""The structure of the JSON files in a run folder: which names they must have, and values of which types.

A structure is called a shape here. It is a type or a union of types; a dict of shapes by name (data may have more
names); a list with one shape for all items; a tuple with a shape for each item of a list; or one of

    Each(shape)    a dict with any names, and values of this shape
    Maybe(shape)   a value of a dict that may be absent
"""

from types import UnionType
from typing import Any, NamedTuple, get_args

import numpy as np

from shoal.specs.options import OPTIONS


class Each(NamedTuple):
    """A dict of any names with values of one shape."""

    shape: Any


class Maybe(NamedTuple):
    """A value of a dict that may be absent."""

    shape: Any


def misfit(data: Any, shape: Any, at: str = "") -> str | None:
    """Return the first difference of JSON data to a shape, as in `settings[0].members is a string, not an integer`.

    None where there is none. `at` is the path of the data, for messages.
    """
    if isinstance(shape, (type, UnionType)):
        is_one = isinstance(data, shape) and (type(data) is not bool or shape in (bool, object))
        return None if is_one else f"{at or 'it'} is {_kind(data)}, not {_words(shape)}"
    if isinstance(shape, dict):
        return misfit(data, dict, at) or _first(_at_name(data, name, part, at) for name, part in shape.items())
    if isinstance(shape, Each):
        return misfit(data, dict, at) or _first(misfit(x, shape.shape, _under(at, name)) for name, x in data.items())
    if wrong := misfit(data, list, at):
        return wrong
    if isinstance(shape, tuple) and len(data) != len(shape):
        return f"{at or 'it'} has {len(data)} items, not {len(shape)}"
    shapes = shape if isinstance(shape, tuple) else shape * len(data)
    return _first(misfit(x, part, f"{at}[{i}]") for i, (x, part) in enumerate(zip(data, shapes, strict=True)))


def misfit_of_curves(curves: dict[str, np.ndarray], members: int) -> str | None:
    """Return what is wrong with the curves of a run of M members; None where nothing is.

    `env_steps` and `wall_seconds` must be [records], all others [records, M]; all must be numbers.
    """
    for name, kinds in CURVES.items():
        if name not in curves:
            return f"it has no {name}"
        if curves[name].dtype.kind not in kinds:
            return f"{name} is of {curves[name].dtype}"
    records = curves["env_steps"].shape[:1]
    for name, column in curves.items():
        expected = records if name in ("env_steps", "wall_seconds") else (*records, members)
        if column.shape != expected or column.ndim == 0:
            return f"{name} has the shape {list(column.shape)}, not {list(expected)}"
        if column.dtype.kind not in "biuf":
            return f"{name} is of {column.dtype}, which is no number"
    return None


def _at_name(data: dict, name: str, shape: Any, at: str) -> str | None:
    is_optional = isinstance(shape, Maybe)
    if name not in data:
        return None if is_optional else f"{at or 'it'} has no {name}"
    return misfit(data[name], shape.shape if is_optional else shape, _under(at, name))


def _first(reasons: Any) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _under(at: str, name: str) -> str:
    return f"{at}.{name}" if at else str(name)


def _kind(data: Any) -> str:
    return WORDS.get(type(data), type(data).__name__)


def _words(shape: Any) -> str:
    kinds = get_args(shape) or (shape,)
    return " or ".join(WORDS.get(kind, str(kind)) for kind in kinds)


WORDS: dict[Any, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}

# The shapes of the files, by name.

NUMBER = int | float
UNKNOWN = int | float | None  # numbers that are not finite are null
SCORE = {"members": int, **{name: Maybe(UNKNOWN) for name in ("mean", "min", "max", "percentile_5", "iqm")}}
SECONDS = ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds", "total_seconds")

FILES: dict[str, Any] = {
    "spec.json": {
        "agent": str,
        "env": str,
        **{name: Maybe(dict) for name in ("fields", "env_fields")},
        **{name: Maybe(Each([object])) for name in ("sweep", "env_sweep", "points")},
        **{name: Maybe(UNKNOWN if field.type == float | None else field.type) for name, field in OPTIONS.items()},
        "init": Maybe({"run": str, "member": int | str, "which": str, "spec": str}),
        "branch": Maybe({"run": str, "record": int, "spec": str, "twins": int, "seeds": Maybe(int)}),
        "sources": Maybe(Each(str)),
    },
    "provenance.json": {
        "argv": [str],
        "packages": Each(str),
        "cpu": str,
        "devices": [str],
        "xla_flags": str,
        "threads": Maybe(str),
        "cores": Maybe(int),
        "form": Maybe(dict),
        "env_revision": Maybe(int),
        "resumed": Maybe([{"updates": int, "changes": [str]}]),
        "exported": Maybe({"run": str, "member": int, "name": str, "weights": str, "half": Maybe(bool)}),
    },
    "summary.json": {
        "agent": str,
        "env": str,
        "steps_per_member": int,
        "members": int,
        "episodes_per_evaluation": int,
        **{name: Maybe(int) for name in ("longest_evaluation_episode", "evaluation_episodes_cut_off")},
        "last": SCORE,
        "best": SCORE,
        "settings": [{"setting": dict, **SCORE}],
        "per_member": [{"member": int, "name": str, "last": UNKNOWN, "best": UNKNOWN, "alive": bool}],
        "best_members": Maybe(
            [{"member": int, "occupant": int, "score": UNKNOWN, "hyperparameters": dict, "lineage": [int]}]
        ),
        **{name: Maybe(NUMBER) for name in ("steps_per_second", *SECONDS)},
        "transfer": Maybe([{"env": str, "held_out": bool, "metric": str, "seeds": int, "about": str}]),
        "checked": Maybe({"command": str, "episodes": int, "mean": NUMBER, "min": NUMBER}),
    },
    "verified.json": {"outcome": str, "share": NUMBER, "time": str, "cpu": str, "hashes": Each(str)},
    "tracking.json": {
        "key": str,
        "to": [str],
        "uri": str,
        "experiment": str,
        "children": str,
        "tags": Each(str),
        "group": str,
        "depth": int,
        "started": Maybe(NUMBER),  # only of a study
        "sent": Each(dict),
    },
    "bsuite.json": {
        "agent": str,
        "fields": dict,
        "experiments": [str],
        "episodes_scale": NUMBER,
        "quick": bool,
        "seed": int,
    },
    "race.json": {
        "contestants": [{"name": str, "folder": str, "spec": dict}],
        "options": {"at_most": int, "batch": int, "alpha": NUMBER, "margin": NUMBER, "fitness": str},
        "assumption": str,
        "looks": [{"look": int, "seeds": int, "first": str, "second": str, "outcome": str, "p": NUMBER}],
        "pairs": [{"first": str, "second": str, "outcome": str, "seeds": int, "sentence": str}],
        "scores": Each([UNKNOWN]),
        "over": bool,
    },
    "evolution.json": {"evolved": Each(dict), "transfer": Each(dict)},
    "scores.json": {
        "experiments": Each(
            {
                "score": UNKNOWN,
                "finished": bool,
                "ids": int,
                "ids_of_bsuite": int,
                "episodes": int,
                "episodes_of_bsuite": int,
                "steps": int,
                "seconds": NUMBER,
            }
        ),
        "tags": Each(UNKNOWN),
    },
    "suite.json": {
        "suite": str,
        "agent": str,
        "runs": Each({"folder": str, "spec": dict}),
        "left_out": Each(str),
        "references": Each(Each(NUMBER)),
    },
    "manifest.json": {
        "format": int,
        "sha256": str,
        "spec": str,
        "parts": Each({"sha256": str, "bytes": int, "leaves": Each(([int], str))}),
        "about": dict,
    },
}
CURVES = {"env_steps": "iu", "wall_seconds": "f", "train_return": "f", "eval_return": "f"}
