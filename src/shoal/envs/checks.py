"""Checks of fields that a user sets. Values that JAX is tracing are not known, so they are not checked."""

from typing import Any

import numpy as np

from shoal.core.kinds import python_number
from shoal.core.struct import is_concrete

LARGEST = float(np.finfo(np.float32).max)  # larger values become infinite in float32 states
LARGEST_INT = 2**31 - 1  # the largest int32


def check_range(
    owner: Any,
    *names: str,
    low: float = -LARGEST,
    high: float = LARGEST,
    above: float | None = None,
    whole: bool = False,
    advice: str = "",
) -> None:
    """Raise ValueError for fields `names` of `owner` with a value outside [low, high].

    With `above` a value must also be larger than `above`; with `whole` it must be a whole number. A field may be an
    array: then every entry is checked. NaN and infinities always raise; None and traced values never do. `advice`
    replaces the end of the message.
    """
    high = min(high, LARGEST_INT) if whole else high
    for name in names:
        value = getattr(owner, name)
        if value is None or not is_concrete(value):
            continue
        numbers = np.ravel(value)
        valid = (numbers >= low) & (numbers <= high) & (above is None or numbers > above)
        valid &= (not whole) | (numbers == np.round(numbers))
        if not valid.all():
            wrong = numbers[~valid][0].item()
            requirement = advice or f"give {_requirement(low, high, above, whole)}."
            raise ValueError(f"{type(owner).__name__}.{name}={wrong} is out of range: {requirement}")


def _requirement(low: float, high: float, above: float | None, whole: bool) -> str:
    kind = "a whole number" if whole else "a finite number"
    if above is not None:
        return f"{kind} above {above:g}"
    if low > -LARGEST:
        return f"{kind} from {low:g} to {high:g}" if high < LARGEST_INT else f"{kind} of at least {low:g}"
    return kind if high >= LARGEST_INT else f"{kind} of at most {high:g}"


def check_both_or_none(owner: Any, first: str, second: str) -> None:
    """Raise ValueError when one of two fields is None and the other is not."""
    if (getattr(owner, first) is None) != (getattr(owner, second) is None):
        raise ValueError(f"{type(owner).__name__} needs both {first} and {second}, or neither of them.")


def concrete_cells(*numbers: Any) -> list[tuple[float, ...]]:
    """Tuples of several fields' values, such as (row, column), one per member; [] if a field is None or traced."""
    if any(number is None or not is_concrete(number) for number in numbers):
        return []
    columns = np.broadcast_arrays(*(np.asarray(python_number(number)) for number in numbers))
    return [tuple(cell) for cell in np.stack([column.ravel() for column in columns], axis=1).tolist()]
