"""DoorKey: find the key, unlock the door, reach the goal behind it.

Source: MiniGrid 3.2.0 `envs/doorkey.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, GOAL, WALL, cell
from shoal.grid.layout import choose, column, empty_room, place, rectangle
from shoal.grid.level import GridState, SquareLevel, begin


@env("MiniGrid-DoorKey-5x5-v0", size=5)
@env("MiniGrid-DoorKey-6x6-v0", size=6)
@env("MiniGrid-DoorKey-8x8-v0", size=8)
@env("MiniGrid-DoorKey-16x16-v0", size=16)
@struct
class DoorKey(SquareLevel):
    """Pick up the yellow key, open the locked door in the wall, and walk to the goal in the far corner.

    Start: the wall is in a random column, and the door in a random row of it. The agent and the key are in random cells
    to the left of the wall; the agent's direction is random.
    Time limit: 10 size^2 steps. Actions, observation, reward and end: see `Level`.
    """

    task: ClassVar[str] = "use the key to open the door and then get to the goal"

    size: int = static(8, help="side of the grid in cells, walls included: at least 5")

    def __post_init__(self) -> None:
        if self.size < 5:
            raise ValueError(f"size={self.size} leaves no room on both sides of the wall: at least 5.")

    @property
    def time_limit(self) -> int:
        """10 size^2 steps."""
        return 10 * self.size**2

    def init(self, key: Key) -> GridState:
        """Sample wall, agent, door and key, in MiniGrid's order."""
        k_wall, k_agent, k_direction, k_door, k_key = jax.random.split(key, 5)
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        wall = jax.random.randint(k_wall, (), 2, self.size - 2)
        grid = jnp.where(column(self.shape, wall), WALL, room)
        near = rectangle(self.shape, 0, 0, wall, self.size)
        x, y = choose(k_agent, near & (grid == EMPTY))
        door = jax.random.randint(k_door, (), 1, self.size - 2)
        grid = jnp.where(cell_mask(self.shape, wall, door), cell("door", "yellow", "locked"), grid)
        grid, _, _ = place(k_key, grid, cell("key", "yellow"), near & ~cell_mask(self.shape, x, y))
        return GridState(**begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)))
