"""The agent's start in the levels with one room: in a cell that the user chooses, or in a random one."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt16

from shoal.core.keys import Key
from shoal.grid.cells import EMPTY
from shoal.grid.layout import choose

CORNER, RIGHT = (1, 1), 0


def check_start(room: UInt16[np.ndarray, "W H"], position: tuple[int, int], direction: int, is_random: bool) -> None:
    """Raise ValueError if the start is not an empty cell of the room, or if it would have no effect."""
    if is_random and (tuple(position), direction) != (CORNER, RIGHT):
        raise ValueError("random_start=True samples the start: leave agent_start_pos and agent_start_dir out.")
    inside = len(position) == 2 and all(0 <= index < size for index, size in zip(position, room.shape, strict=True))
    if not inside or room[tuple(position)] != EMPTY:
        width, height = room.shape
        raise ValueError(
            f"agent_start_pos={position} is not an empty cell of the room: columns 1 to {width - 2}, rows 1 to "
            f"{height - 2}, neither goal nor lava."
        )
    if direction not in range(4):
        raise ValueError(f"agent_start_dir={direction} must be 0 (right), 1 (down), 2 (left) or 3 (up).")


def random_pose(
    k_position: Key, k_direction: Key, room: UInt16[np.ndarray, "W H"]
) -> tuple[Int[Array, ""], Int[Array, ""], Int[Array, ""]]:
    """Sample an empty cell and a direction: (x, y, direction). Both keys are consumed."""
    x, y = choose(k_position, jnp.asarray(room == EMPTY))
    return x, y, jax.random.randint(k_direction, (), 0, 4)
