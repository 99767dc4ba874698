"""DistShift: the same goal behind the same lava, but for one strip that lies elsewhere.

Source: MiniGrid 3.2.0 `envs/distshift.py`, step for step.
"""

from typing import ClassVar

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.cells import GOAL, LAVA
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, Level, begin


@env("MiniGrid-DistShift1-v0", strip_row=2)
@env("MiniGrid-DistShift2-v0", strip_row=5)
@struct
class DistShift(Level):
    """Walk around the lava to the goal at the other end of the first row.

    Train with the second strip of lava in one row and test with it in another. Start: in the first corner, facing
    right. Time limit: 4 width height. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    changes: ClassVar[bool] = False
    task: ClassVar[str] = "get to the green goal square"
    see_through_walls: ClassVar[bool] = True

    width: int = static(9, help="cells from left to right, walls included: at least 7")
    height: int = static(7, help="cells from top to bottom, walls included: at least 5")
    strip_row: int = static(2, help="row of the second strip of lava; the first lies in row 1")

    def __post_init__(self) -> None:
        if self.width < 7 or self.height < 5:
            raise ValueError(f"{self.width} x {self.height} leaves no way around the lava: at least 7 x 5.")
        if not 1 <= self.strip_row <= self.height - 2:
            raise ValueError(f"strip_row={self.strip_row} is no row between the walls: 1 to {self.height - 2}.")

    @property
    def shape(self) -> tuple[int, int]:
        """As wide and high as asked for."""
        return self.width, self.height

    @property
    def time_limit(self) -> int:
        """Enough to see the room four times."""
        return 4 * self.width * self.height

    def init(self, key: Key) -> GridState:
        """The one layout there is."""
        del key
        grid = empty_room(*self.shape)
        grid[-2, 1] = GOAL
        grid[3:-3, [1, self.strip_row]] = LAVA
        return GridState(**begin(grid, 1, 1, 0))
