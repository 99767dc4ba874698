"""Numbers and values of hyperparameters as texts of figures and reports."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.specs.describe import Described, in_words, inside

NONE = "–"  # stands for a number that is not known


def number(value: Any) -> str:
    """Return a number with four significant digits, and thousands separated by commas: `0.00025`, `487.3`, `12,345`."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return NONE
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if not isinstance(value, int | float | np.number):
        return str(value)
    size = abs(float(value))
    if math.isinf(size):
        return "infinite" if value > 0 else "-infinite"
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{float(value):.4g}"
    if float(value).is_integer() or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def exact(value: Any) -> str:
    """Return the value of a hyperparameter as it would be written on a command line; of weights, how many there are."""
    if parts := [part for _, part in inside(value) if part.kind == "dict"]:
        arrays = [part for _, part in inside(value) if part.kind == "array"]
        if arrays:
            return f"{sum(np.size(part.fields.get('values', ())) for part in arrays):,} numbers"
        return ", ".join(f"{k} {exact(v)}" for p in parts for k, v in p.fields.items())
    if isinstance(value, Described):
        return array_in_words(value) if value.kind == "array" else in_words(value) or value.kind
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, tuple | list):
        return ",".join(map(exact, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def array_in_words(described: Described) -> str:
    """Return the dtype and the shape of a described array."""
    shape = list(np.shape(described.fields.get("values", ())))
    return f"{described.name}{shape}"


def setting_in_words(setting: Mapping[str, Any]) -> str:
    """Return a setting as a text: `learning_rate 0.001, env.gravity 5`."""
    return ", ".join(f"{path} {rounded(value)}" for path, value in setting.items())


def rounded(value: Any) -> str:
    """Return the value of a hyperparameter as `exact` does, but of a number at most four digits."""
    return number(value) if isinstance(value, float) else exact(value)
