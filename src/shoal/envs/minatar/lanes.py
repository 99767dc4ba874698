"""Maps of a board on which rows 1 to 8 are lanes, each with at most one thing whose column is kept in four bits."""

import numpy as np

from shoal.envs.minatar.game import COLUMNS, ROWS, Map
from shoal.envs.minatar.nibbles import BITS, COUNT, FULL, Word

# For each cell the place of its lane's column in the word. Beside the lanes a column that does not exist is expected.
IS_LANE = (ROWS >= 1) & (ROWS <= COUNT)
SHIFT = np.where(IS_LANE, BITS * (ROWS - 1), 0).astype(np.uint32)
EXPECTED = np.where(IS_LANE, COLUMNS, 14).astype(np.uint32)


def in_lanes(columns: Word) -> Map:
    """The map of what is in these columns of the eight lanes; columns of 15 are not on the board."""
    return (columns >> SHIFT & FULL) == EXPECTED
