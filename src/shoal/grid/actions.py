"""What an agent does to the grid: turn, step forward, pick up, drop, toggle.

Everything is masked arithmetic over the one cell in front, because a `switch` under vmap runs every branch. Source:
MiniGrid 3.2.0 `minigrid_env.py`, `MiniGridEnv.step`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.grid.cells import (
    CLOSED,
    EMPTY,
    LOCKED,
    OPEN,
    STATE_BITS,
    STATE_SHIFT,
    Cell,
    color_of,
    inside_of,
    is_a,
    is_portable,
    state_of,
)

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(len(ACTIONS))


def heading(direction: Int[Array, "*n"]) -> tuple[Int[Array, "*n"], Int[Array, "*n"]]:
    """One step in a direction, as (dx, dy); y grows downwards."""
    dx = (direction == 0).astype(jnp.int32) - (direction == 2).astype(jnp.int32)
    dy = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    return dx, dy


def turned(direction: Int[Array, ""], action: Int[Array, ""]) -> Int[Array, ""]:
    """The direction after an action."""
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    return (direction + turn) & 3


def handled(
    front: UInt16[Array, ""], carrying: UInt16[Array, ""], action: Int[Array, ""]
) -> tuple[UInt16[Array, ""], UInt16[Array, ""]]:
    """The cell in front and the hand after an action: (front, carrying).

    Picking up needs an empty hand, dropping an empty cell; neither swaps.
    """
    picks = (action == PICKUP) & is_portable(front) & (carrying == EMPTY)
    drops = (action == DROP) & (front == EMPTY)  # with an empty hand, nothing is dropped onto nothing
    after = jnp.where(action == TOGGLE, toggled(front, carrying), front)
    after = jnp.where(picks, EMPTY, jnp.where(drops, carrying, after))
    return after, jnp.where(picks, front, jnp.where(drops, EMPTY, carrying))


def toggled(front: UInt16[Array, ""], carrying: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """What toggling makes of a cell: doors open and close, boxes give up what they hold.

    A locked door opens to a key of its color, which stays in the hand, and is not locked again.
    """
    is_door, was = is_a(front, "door"), state_of(front)
    has_key = is_a(carrying, "key") & (color_of(carrying) == color_of(front))
    turned_over = jnp.where(was == OPEN, CLOSED, OPEN)
    now = jnp.where(was == LOCKED, jnp.where(has_key, OPEN, LOCKED), turned_over)
    door = front & ~(STATE_BITS << STATE_SHIFT) | now << STATE_SHIFT
    return jnp.where(is_door, door, jnp.where(is_a(front, "box"), inside_of(front), front))


def cell_at(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""], outside: Cell) -> UInt16[Array, ""]:
    """The cell at a position, which may lie outside."""
    width, height = grid.shape
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    found = grid.reshape(-1).at[jnp.where(is_inside, x * height + y, 0)].get(mode="promise_in_bounds")
    return jnp.where(is_inside, found, outside)


def with_cell(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""], new: Cell) -> UInt16[Array, "W H"]:
    """The grid with one cell replaced; a position outside changes nothing."""
    width, height = grid.shape
    return jnp.where(at((width, height), x, y), new, grid)


def at(shape: tuple[int, int], x: Int[Array, ""] | int, y: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """Where a position is."""
    width, height = shape
    columns, rows = np.arange(width, dtype=np.int32)[:, None], np.arange(height, dtype=np.int32)[None, :]
    return jnp.asarray((columns == x) & (rows == y))
