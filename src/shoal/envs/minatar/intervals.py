"""Checks of settings that count steps."""

from typing import Any

import numpy as np

from shoal.core.struct import is_concrete


def check_intervals(game: Any, *names: str) -> None:
    """Raise ValueError for a field that is known and not a whole number of steps, at least one."""
    for name in names:
        given = getattr(game, name)
        if not is_concrete(given):
            continue
        wrong = [x for x in np.ravel(np.asarray(given)).tolist() if not (x >= 1 and x == int(x))]
        if wrong:
            raise ValueError(
                f"{type(game).__name__}.{name}={wrong[0]} must be a whole number of steps, at least 1; as in MinAtar "
                f"it is {type(game).__dataclass_fields__[name].default}."
            )
