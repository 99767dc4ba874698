"""A ready movement for kinds of objects that a level declares: `NewKind("guard", 13, states=4, every_step=patrol)`."""

import functools
import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, STATE_SHIFT, Kind, is_a, state_of

WAYS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # (dx, dy) of right, down, left, up
TURN_ROUND = np.uint16(2 << STATE_SHIFT)  # an exclusive or with it turns right into left, and down into up


def patrol(state: Any, kind: Kind) -> Any:
    """Move each object of a kind one cell ahead, in the direction that is its state: 0 right, 1 down, 2 left, 3 up.

    An object turns round instead, and stays in its cell, if the cell ahead is not empty or the agent stands there, and
    if another object of the kind wants to go there too.
    """
    grid = state.grid
    movers, direction = is_a(grid, kind), state_of(grid)
    free = (grid == EMPTY) & ~cell_mask(grid.shape, state.x, state.y)
    wants = [_shifted(movers & (direction == way), *step) & free for way, step in enumerate(WAYS)]
    is_single = functools.reduce(operator.add, [want.astype(jnp.int32) for want in wants]) == 1
    arrives = [want & is_single for want in wants]
    leaves = functools.reduce(operator.or_, [_shifted(a, -dx, -dy) for a, (dx, dy) in zip(arrives, WAYS, strict=True)])
    moved = jnp.where(leaves, EMPTY, jnp.where(movers, grid ^ TURN_ROUND, grid))
    for arrived, step in zip(arrives, WAYS, strict=True):
        moved = jnp.where(arrived, _shifted(grid, *step), moved)
    return state.replace(grid=moved)


def _shifted(cells: Array, dx: int, dy: int) -> Array:
    """The cells of a grid, each one further by (dx, dy); zeros where none comes from."""
    width, height = cells.shape
    return jnp.pad(cells, 1)[1 - dx : 1 - dx + width, 1 - dy : 1 - dy + height]
