"""Empty: walk across an empty room to the goal.

Source: MiniGrid 3.2.0 `envs/empty.py`, step for step.
"""

from typing import ClassVar

import jax
import numpy as np
from jaxtyping import UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.start import CORNER, RIGHT, check_start, random_pose
from shoal.grid.cells import GOAL
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, SquareLevel, begin


@env("MiniGrid-Empty-5x5-v0", size=5)
@env("MiniGrid-Empty-6x6-v0", size=6)
@env("MiniGrid-Empty-8x8-v0", size=8)
@env("MiniGrid-Empty-16x16-v0", size=16)
@env("MiniGrid-Empty-Random-5x5-v0", size=5, random_start=True)
@env("MiniGrid-Empty-Random-6x6-v0", size=6, random_start=True)
@struct
class Empty(SquareLevel):
    """Reach the goal in the lower right corner of an empty room.

    Start: the agent is in the upper left corner, facing right, or as `agent_start_pos` and `agent_start_dir` say; with
    `random_start` in a random cell except the goal, with a random direction.
    Time limit: 4 size^2 steps. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "get to the green goal square"

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")
    size: int = static(8, help="side of the grid in cells, walls included: at least 4")
    random_start: bool = static(
        False, choices=(False, True), help="whether the agent starts in a random cell, with a random direction"
    )
    agent_start_pos: tuple[int, int] = static(CORNER, help="column and row where the agent starts")
    agent_start_dir: int = static(RIGHT, help="direction of the agent at the start: 0 right, 1 down, 2 left, 3 up")

    def __post_init__(self) -> None:
        if self.size < 4:
            raise ValueError(f"size={self.size} leaves no room for agent and goal between the walls: at least 4.")
        check_start(self._room(), self.agent_start_pos, self.agent_start_dir, self.random_start)

    @property
    def time_limit(self) -> int:
        """4 size^2 steps."""
        return 4 * self.size**2

    def init(self, key: Key) -> GridState:
        """The room with its goal, and the agent's start."""
        room = self._room()
        pose = (*self.agent_start_pos, self.agent_start_dir)
        if self.random_start:
            k_position, k_direction = jax.random.split(key)
            pose = random_pose(k_position, k_direction, room)
        return GridState(**begin(room, *pose))

    def _room(self) -> UInt16[np.ndarray, "S S"]:
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        return room
