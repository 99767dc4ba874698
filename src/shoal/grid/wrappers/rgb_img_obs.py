"""`RGBImgObs`: the whole grid as a picture."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.views import picture_space
from shoal.grid.wrappers.base import PartWrapper


@struct
class RGBImgObs(PartWrapper):
    """The image is the grid from above, RGB [H * tile_size, W * tile_size, 3], as `render` draws it.

    Cells that the agent sees are lighter unless the level has `highlight=False`. Raises ValueError for `tile_size` < 1.
    Source: MiniGrid 3.2.0, `RGBImgObsWrapper`.
    """

    tile_size: int = static(8, help="side of a cell, in pixels")

    def __post_init__(self) -> None:
        check_tile_size(self.tile_size)

    @property
    def part_space(self) -> Box:
        """[rows, columns, RGB]."""
        return picture_space(self.level.shape, self.tile_size)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "_ _ 3"]:
        """The picture."""
        del inner_obs
        return self.level.picture(state, self.tile_size)


def check_tile_size(size: int) -> None:
    """Raise ValueError for a size below 1."""
    if size < 1:
        raise ValueError(f"tile_size={size} shows nothing: a cell needs at least 1 pixel. MiniGrid's default is 8.")
