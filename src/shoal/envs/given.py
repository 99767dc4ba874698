"""Checks of the numbers that a user gives: they look only at what can be looked at, never at a tracer."""

from typing import Any

import numpy as np

from shoal.core.struct import is_concrete

LARGEST = float(np.finfo(np.float32).max)  # what is larger is infinite in most states
MOST = 2**31 - 1  # what is more does not fit into a whole number of 32 bits


def check_range(
    owner: Any,
    *names: str,
    low: float = -LARGEST,
    high: float = LARGEST,
    above: float | None = None,
    whole: bool = False,
    advice: str = "",
) -> None:
    """Raise ValueError when a field, or a part of it, is known and outside [low, high], not above `above`, or no whole
    number where it must be one. NaN and infinities are always outside, None never is.
    """
    high = min(high, MOST) if whole else high
    for name in names:
        given = getattr(owner, name)
        if given is None or not is_concrete(given):
            continue
        numbers = np.ravel(given)
        fine = (numbers >= low) & (numbers <= high) & (above is None or numbers > above)
        fine &= (not whole) | (numbers == np.round(numbers))
        if not fine.all():
            wrong = numbers[~fine][0].item()
            wanted = advice or f"give {_wanted(low, high, above, whole)}."
            raise ValueError(f"{type(owner).__name__}.{name}={wrong} is out of range: {wanted}")


def _wanted(low: float, high: float, above: float | None, whole: bool) -> str:
    kind = "a whole number" if whole else "a finite number"
    if above is not None:
        return f"{kind} above {above:g}"
    if low > -LARGEST:
        return f"{kind} from {low:g} to {high:g}" if high < MOST else f"{kind} of at least {low:g}"
    return kind if high >= MOST else f"{kind} of at most {high:g}"


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
