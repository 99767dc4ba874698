"""Rows 1 to 8 of a board as lanes, each with at most one thing, whose column is kept in four bits (see `nibbles`)."""

import jax.numpy as jnp
import numpy as np

from shoal.envs.minatar.game import FULL_ROW, LINE, Rows
from shoal.envs.minatar.nibbles import BITS, COUNT, FULL, Word

IS_LANE = (LINE >= 1) & (LINE <= COUNT)
SHIFT = np.where(IS_LANE, BITS * (LINE - 1), 0).astype(np.uint32)


def in_lanes(columns: Word) -> Rows:
    """What is in these columns of the eight lanes; columns of 10 and above are not on the board."""
    return jnp.where(IS_LANE, jnp.uint32(1) << (columns >> SHIFT & FULL) & FULL_ROW, jnp.uint32(0))
