"""What small grids share: a step that borders stop, and checks of sizes and cells."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt8

from shoal.core.env import Env
from shoal.core.struct import is_concrete

LONGEST = 255  # rows or columns: positions are bytes


def moved(place: UInt8[Array, ""], onward: Bool[Array, ""], back: Bool[Array, ""], size: int) -> UInt8[Array, ""]:
    """One cell on, one back, or neither, within 0 to size - 1."""
    forth = (onward & (place < size - 1)).astype(jnp.uint8)
    return place + forth - (back & (place > 0)).astype(jnp.uint8)


def check_size(env: Env, name: str, least: int) -> None:
    """Raise ValueError for a number of rows or columns that no grid of this kind has."""
    given = getattr(env, name)
    if not (isinstance(given, int) and least <= given <= LONGEST):
        raise ValueError(f"{type(env).__name__}.{name}={given!r} is no size of its grid: {least} to {LONGEST}.")


def check_inside(env: Env, name: str, size: int) -> None:
    """Raise ValueError for a row or column that is known and not in the grid."""
    given = getattr(env, name)
    if given is None or not is_concrete(given):
        return
    wrong = [x for x in np.ravel(given).tolist() if not (math.isfinite(x) and x == int(x) and 0 <= x < size)]
    if wrong:
        raise ValueError(
            f"{type(env).__name__}.{name}={wrong[0]} lies outside of the grid: a whole number from 0 to {size - 1}."
        )
