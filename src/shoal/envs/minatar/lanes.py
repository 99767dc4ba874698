"""Draw objects in eight lanes: rows 1 to 8 of the board, at most one object in each, its column in four bits.

The layout of these bits is explained in the docstring of the package (`envs/minatar/__init__.py`, part 2).
"""

import jax.numpy as jnp
import numpy as np

from shoal.envs.minatar.game import FULL_ROW, INDICES, RowBits
from shoal.envs.minatar.nibbles import BITS, COUNT, FULL, Word

IS_LANE = (INDICES >= 1) & (INDICES <= COUNT)
SHIFT = np.where(IS_LANE, BITS * (INDICES - 1), 0).astype(np.uint32)


def lanes_to_rows(columns: Word) -> RowBits:
    """The board with one object in each lane, in these columns; an object in column 10 or above is not drawn."""
    return jnp.where(IS_LANE, jnp.uint32(1) << (columns >> SHIFT & FULL) & FULL_ROW, jnp.uint32(0))
