"""`ViewSize`: a view of another size."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.view import check_view_size
from shoal.grid.wrappers.base import PartWrapper


@struct
class ViewSize(PartWrapper):
    """The image holds the `view_size` x `view_size` cells in front of the agent.

    Pictures still highlight the level's own view. Raises ValueError for a size that is even, below 3 or above 31.
    Source: MiniGrid 3.2.0, `ViewSizeWrapper`.
    """

    view_size: int = static(7, help="side of the agent's view in cells: odd, from 3 to 31")

    def __post_init__(self) -> None:
        check_view_size(self.view_size)

    @property
    def part_space(self) -> Box:
        """[view_size, view_size, 3]."""
        return Box(0, self.level.highest, (self.view_size, self.view_size, 3), "uint8")

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "V V 3"]:
        """The cells in front of the agent."""
        del inner_obs
        return self.level.agent_view(state, self.view_size)
