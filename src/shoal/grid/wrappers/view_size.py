"""A view of another size."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.cells import HIGHEST
from shoal.grid.level import GridState
from shoal.grid.view import check_view_size
from shoal.grid.wrappers.base import PartWrapper


@struct
class ViewSize(PartWrapper):
    """The image shows `view_size` x `view_size` cells in front of the agent; pictures highlight the level's own view.

    Raises ValueError for an even size, or one below 3. Source: MiniGrid 3.2.0, `ViewSizeWrapper`.
    """

    view_size: int = static(7, help="cells to a side of what the agent sees: odd, from 3 to 31")

    def __post_init__(self) -> None:
        check_view_size(self.view_size)

    @property
    def part_space(self) -> Box:
        """Cells."""
        return Box(0, HIGHEST, (self.view_size, self.view_size, 3), "uint8")

    def part(self, state: GridState, seen: dict[str, Any]) -> UInt8[Array, "V V 3"]:
        """The cells in front of the agent."""
        del seen
        return self.level.view(state, self.view_size)
