"""The effect of each action on the agent and on the cell in front of it.

The effects of all actions are computed and one is selected by masks, because a `switch` under `vmap` would run every
branch too. Source: MiniGrid 3.2.0 `minigrid_env.py`, `MiniGridEnv.step`.
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
    Kinds,
    color_of,
    inside_of,
    is_a,
    is_portable,
    state_of,
)

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(len(ACTIONS))


def heading(direction: Int[Array, "*n"]) -> tuple[Int[Array, "*n"], Int[Array, "*n"]]:
    """The change of position (dx, dy) of one step in a direction (0 right, 1 down, 2 left, 3 up); y grows downwards."""
    dx = (direction == 0).astype(jnp.int32) - (direction == 2).astype(jnp.int32)
    dy = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    return dx, dy


def turned(direction: Int[Array, ""], action: Int[Array, ""]) -> Int[Array, ""]:
    """The direction after an action: only "left" and "right" change it."""
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    return (direction + turn) & 3


def interact(
    front: UInt16[Array, ""], carrying: UInt16[Array, ""], action: Int[Array, ""], kinds: Kinds = ()
) -> tuple[UInt16[Array, ""], UInt16[Array, ""]]:
    """Apply pickup, drop or toggle: (the cell in front, the carried object) after the action.

    The agent can pick something up only if it carries nothing, and drop only into an empty cell. `kinds` are those that
    the level declares; toggling does nothing to them.
    """
    picks = (action == PICKUP) & is_portable(front, kinds) & (carrying == EMPTY)
    drops = (action == DROP) & (front == EMPTY)  # if the agent carries nothing, EMPTY replaces EMPTY
    after = jnp.where(action == TOGGLE, toggled(front, carrying), front)
    after = jnp.where(picks, EMPTY, jnp.where(drops, carrying, after))
    return after, jnp.where(picks, front, jnp.where(drops, EMPTY, carrying))


def toggled(front: UInt16[Array, ""], carrying: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """The cell in front after it was toggled: a door opens or closes; a box is replaced by its content.

    A locked door opens if the agent carries a key of the door's color. The agent keeps the key, and the door can not be
    locked again.
    """
    is_door, state = is_a(front, "door"), state_of(front)
    has_key = is_a(carrying, "key") & (color_of(carrying) == color_of(front))
    opposite = jnp.where(state == OPEN, CLOSED, OPEN)
    new_state = jnp.where(state == LOCKED, jnp.where(has_key, OPEN, LOCKED), opposite)
    door = front & ~(STATE_BITS << STATE_SHIFT) | new_state << STATE_SHIFT
    return jnp.where(is_door, door, jnp.where(is_a(front, "box"), inside_of(front), front))


def cell_at(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""], outside: Cell) -> UInt16[Array, ""]:
    """The cell at position (x, y); `outside` if the position is not in the grid."""
    width, height = grid.shape
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    found = grid.reshape(-1).at[jnp.where(is_inside, x * height + y, 0)].get(mode="promise_in_bounds")
    return jnp.where(is_inside, found, outside)


def with_cell(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""], new: Cell) -> UInt16[Array, "W H"]:
    """The grid with the cell at (x, y) replaced; unchanged if the position is not in the grid."""
    width, height = grid.shape
    return jnp.where(cell_mask((width, height), x, y), new, grid)


def cell_mask(shape: tuple[int, int], x: Int[Array, ""] | int, y: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """The mask that is True only at position (x, y); nowhere if the position is not in the grid."""
    width, height = shape
    columns, rows = np.arange(width, dtype=np.int32)[:, None], np.arange(height, dtype=np.int32)[None, :]
    return jnp.asarray((columns == x) & (rows == y))
