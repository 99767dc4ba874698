"""Where the agent starts in the open rooms: in a cell that can be chosen, or anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt16

from shoal.core.keys import Key
from shoal.grid.cells import EMPTY
from shoal.grid.layout import choose

CORNER, RIGHT = (1, 1), 0


def check_start(room: UInt16[np.ndarray, "W H"], position: tuple[int, int], direction: int, is_random: bool) -> None:
    """Raise ValueError for a start that is no empty cell of the room, and for one that would not be looked at."""
    if is_random and (tuple(position), direction) != (CORNER, RIGHT):
        raise ValueError("random_start=True draws the start: leave agent_start_pos and agent_start_dir out.")
    inside = len(position) == 2 and all(0 <= at < size for at, size in zip(position, room.shape, strict=True))
    if not inside or room[tuple(position)] != EMPTY:
        width, height = room.shape
        raise ValueError(
            f"agent_start_pos={position} is no empty cell of the room: columns 1 to {width - 2}, rows 1 to "
            f"{height - 2}, neither goal nor lava."
        )
    if direction not in range(4):
        raise ValueError(f"agent_start_dir={direction} must be 0 (right), 1 (down), 2 (left) or 3 (up).")


def random_pose(
    k_place: Key, k_direction: Key, room: UInt16[np.ndarray, "W H"]
) -> tuple[Int[Array, ""], Int[Array, ""], Int[Array, ""]]:
    """Any empty cell (x, y), and any direction. Both keys are consumed."""
    x, y = choose(k_place, jnp.asarray(room == EMPTY))
    return x, y, jax.random.randint(k_direction, (), 0, 4)
