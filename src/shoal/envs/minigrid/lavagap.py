"""LavaGap: pass through the gap in a strip of lava between the agent and the goal.

Source: MiniGrid 3.2.0 `envs/lavagap.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, GOAL, LAVA, WALL
from shoal.grid.layout import column, empty_room
from shoal.grid.level import GridState, SquareLevel, begin

# The kinds of obstacle, and the task for each.
OBSTACLES = {"lava": LAVA, "wall": WALL}
TASKS = {
    "lava": "avoid the lava and get to the green goal square",
    "wall": "find the opening and get to the green goal square",
}


@env("MiniGrid-LavaGapS5-v0", size=5)
@env("MiniGrid-LavaGapS6-v0", size=6)
@env("MiniGrid-LavaGapS7-v0", size=7)
@struct
class LavaGap(SquareLevel):
    """Pass through the gap in the strip and reach the goal in the lower right corner.

    Start: the agent is in the upper left corner, facing right. The strip is in a random column between agent and goal,
    and the gap in a random row of it.
    Time limit: 4 size^2 steps. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 12
    grid_changes: ClassVar[bool] = False

    size: int = static(7, help="side of the grid in cells, walls included: at least 5")
    obstacle: str = static("lava", choices=tuple(OBSTACLES), help="whether the strip is lava or a wall")

    def __post_init__(self) -> None:
        if self.size < 5:
            raise ValueError(f"size={self.size} leaves no room on both sides of the strip: at least 5.")
        check_obstacle(self.obstacle)

    @property
    def time_limit(self) -> int:
        """4 size^2 steps."""
        return 4 * self.size**2

    @property
    def task(self) -> str:  # type: ignore[override]  # follows from a field
        """The task, which names the obstacle."""
        return TASKS[self.obstacle]

    def init(self, key: Key) -> GridState:
        """Sample the strip and its gap."""
        k_column, k_row = jax.random.split(key)
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        x = jax.random.randint(k_column, (), 2, self.size - 2)
        y = jax.random.randint(k_row, (), 1, self.size - 1)
        grid = jnp.where(column(self.shape, x) & (room == EMPTY), OBSTACLES[self.obstacle], room)
        return GridState(**begin(jnp.where(cell_mask(self.shape, x, y), EMPTY, grid), 1, 1, 0))


def check_obstacle(obstacle: str) -> None:
    """Raise ValueError for an unknown obstacle."""
    if obstacle not in OBSTACLES:
        raise ValueError(f"obstacle={obstacle!r} is unknown. Choose one of: {', '.join(OBSTACLES)}.")
