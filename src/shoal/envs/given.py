"""Checks of the numbers that a user gives: they look only at what can be looked at, never at a tracer."""

from typing import Any

import numpy as np

from shoal.core.struct import is_concrete


def check_range(owner: Any, name: str, low: float, high: float, advice: str) -> None:
    """Raise ValueError when a field, or a part of it, is known and outside [low, high]. NaN is outside."""
    value = getattr(owner, name)
    if value is None or not is_concrete(value):
        return
    numbers = np.asarray(value)
    wrong = numbers[~((numbers >= low) & (numbers <= high))]
    if wrong.size:
        raise ValueError(f"{type(owner).__name__}.{name}={wrong.ravel()[0]} is out of range: {advice}")


def check_both_or_none(owner: Any, first: str, second: str) -> None:
    """Raise ValueError when only one of two fields that belong together is given."""
    if (getattr(owner, first) is None) != (getattr(owner, second) is None):
        raise ValueError(f"{type(owner).__name__} needs both {first} and {second}, or neither of them.")


def concrete_cells(*numbers: Any) -> list[tuple[float, ...]]:
    """Cells (or pairs of cells) made of several fields, one for each member; none while a field is being traced."""
    if any(number is None or not is_concrete(number) for number in numbers):
        return []
    columns = np.broadcast_arrays(*(np.asarray(number) for number in numbers))
    return [tuple(cell) for cell in np.stack([column.ravel() for column in columns], axis=1).tolist()]
