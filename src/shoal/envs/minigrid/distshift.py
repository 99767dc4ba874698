"""DistShift: reach the goal around two strips of lava; the second strip is in another row in each variant.

Source: MiniGrid 3.2.0 `envs/distshift.py`, step for step.
"""

from typing import ClassVar

import jax
import numpy as np
from jaxtyping import UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.start import CORNER, RIGHT, check_start, random_pose
from shoal.grid.cells import GOAL, LAVA
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, Level, begin


@env("MiniGrid-DistShift1-v0", strip_row=2)
@env("MiniGrid-DistShift2-v0", strip_row=5)
@struct
class DistShift(Level):
    """Walk around the lava to the goal at the other end of the first row.

    The two ids differ in the row of the second strip of lava, to train on one and test on the other.
    Start: the agent is in the upper left corner, facing right, or as `agent_start_pos` and `agent_start_dir` say; with
    `random_start` in a random empty cell, with a random direction.
    Time limit: 4 width height steps. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "get to the green goal square"

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")
    width: int = static(9, help="cells from left to right, walls included: at least 7")
    height: int = static(7, help="cells from top to bottom, walls included: at least 5")
    strip_row: int = static(2, help="row of the second strip of lava; the first is in row 1")
    random_start: bool = static(
        False, choices=(False, True), help="whether the agent starts in a random cell, with a random direction"
    )
    agent_start_pos: tuple[int, int] = static(CORNER, help="column and row where the agent starts")
    agent_start_dir: int = static(RIGHT, help="direction of the agent at the start: 0 right, 1 down, 2 left, 3 up")

    def __post_init__(self) -> None:
        if self.width < 7 or self.height < 5:
            raise ValueError(f"{self.width} x {self.height} leaves no way around the lava: at least 7 x 5.")
        if not 1 <= self.strip_row <= self.height - 2:
            raise ValueError(f"strip_row={self.strip_row} is no row between the walls: 1 to {self.height - 2}.")
        check_start(self._room(), self.agent_start_pos, self.agent_start_dir, self.random_start)

    @property
    def shape(self) -> tuple[int, int]:
        """(width, height)."""
        return self.width, self.height

    @property
    def time_limit(self) -> int:
        """4 width height steps."""
        return 4 * self.width * self.height

    def init(self, key: Key) -> GridState:
        """The room, which is always the same, and the agent's start."""
        room = self._room()
        pose = (*self.agent_start_pos, self.agent_start_dir)
        if self.random_start:
            k_position, k_direction = jax.random.split(key)
            pose = random_pose(k_position, k_direction, room)
        return GridState(**begin(room, *pose))

    def _room(self) -> UInt16[np.ndarray, "W H"]:
        room = empty_room(*self.shape)
        room[-2, 1] = GOAL
        room[3:-3, [1, self.strip_row]] = LAVA
        return room
