"""DistShift: the same goal behind the same lava, but for one strip that lies elsewhere.

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

    Train with the second strip of lava in one row and test with it in another. Start: in the first corner, facing
    right, or where the fields say; with `random_start` in any empty cell, facing anywhere. Time limit: 4 width height.
    Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "get to the green goal square"

    see_through_walls: bool = static(True, choices=(False, True), help="whether walls hide nothing from the agent")
    width: int = static(9, help="cells from left to right, walls included: at least 7")
    height: int = static(7, help="cells from top to bottom, walls included: at least 5")
    strip_row: int = static(2, help="row of the second strip of lava; the first lies in row 1")
    random_start: bool = static(False, choices=(False, True))
    agent_start_pos: tuple[int, int] = static(CORNER, help="column and row where the agent starts")
    agent_start_dir: int = static(RIGHT, help="where it looks then: 0 right, 1 down, 2 left, 3 up")

    def __post_init__(self) -> None:
        if self.width < 7 or self.height < 5:
            raise ValueError(f"{self.width} x {self.height} leaves no way around the lava: at least 7 x 5.")
        if not 1 <= self.strip_row <= self.height - 2:
            raise ValueError(f"strip_row={self.strip_row} is no row between the walls: 1 to {self.height - 2}.")
        check_start(self._room(), self.agent_start_pos, self.agent_start_dir, self.random_start)

    @property
    def shape(self) -> tuple[int, int]:
        """As wide and high as asked for."""
        return self.width, self.height

    @property
    def time_limit(self) -> int:
        """Enough to see the room four times."""
        return 4 * self.width * self.height

    def init(self, key: Key) -> GridState:
        """The one room there is, and where the agent starts."""
        room = self._room()
        pose = (*self.agent_start_pos, self.agent_start_dir)
        if self.random_start:
            k_place, k_direction = jax.random.split(key)
            pose = random_pose(k_place, k_direction, room)
        return GridState(**begin(room, *pose))

    def _room(self) -> UInt16[np.ndarray, "W H"]:
        room = empty_room(*self.shape)
        room[-2, 1] = GOAL
        room[3:-3, [1, self.strip_row]] = LAVA
        return room
