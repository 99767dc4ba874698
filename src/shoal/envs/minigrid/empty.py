"""Empty: walk across a bare room to the goal.

Source: MiniGrid 3.2.0 `envs/empty.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.cells import EMPTY, GOAL
from shoal.grid.layout import choose, empty_room
from shoal.grid.level import GridState, SquareLevel, begin


@env("MiniGrid-Empty-5x5-v0", size=5)
@env("MiniGrid-Empty-6x6-v0", size=6)
@env("MiniGrid-Empty-8x8-v0", size=8)
@env("MiniGrid-Empty-16x16-v0", size=16)
@env("MiniGrid-Empty-Random-5x5-v0", size=5, random_start=True)
@env("MiniGrid-Empty-Random-6x6-v0", size=6, random_start=True)
@struct
class Empty(SquareLevel):
    """Reach the goal in the corner of an empty room.

    Start: in the corner opposite to the goal, facing right; with `random_start` anywhere else, facing anywhere.
    Time limit: 4 size^2. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    changes: ClassVar[bool] = False
    task: ClassVar[str] = "get to the green goal square"
    see_through_walls: ClassVar[bool] = True

    size: int = static(8, help="cells to a side, walls included: at least 4")
    random_start: bool = static(False, choices=(False, True))

    def __post_init__(self) -> None:
        if self.size < 4:
            raise ValueError(f"size={self.size} leaves no room for agent and goal between the walls: at least 4.")

    @property
    def time_limit(self) -> int:
        """Enough to see the room four times."""
        return 4 * self.size**2

    def init(self, key: Key) -> GridState:
        """The room, its goal, and where the agent starts."""
        grid = empty_room(*self.shape)
        grid[-2, -2] = GOAL
        if not self.random_start:
            return GridState(**begin(grid, 1, 1, 0))
        k_place, k_direction = jax.random.split(key)
        x, y = choose(k_place, jnp.asarray(grid == EMPTY))
        return GridState(**begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)))
