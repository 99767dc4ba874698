"""The whole grid as a picture."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper


@struct
class RGBImgObs(PartWrapper):
    """The image is the grid from above, RGB [H * tile_size, W * tile_size, 3], as `render` paints it.

    What the agent sees is lighter unless the level has `highlight=False`. Raises ValueError for tiles without a pixel.
    Source: MiniGrid 3.2.0, `RGBImgObsWrapper`.
    """

    tile_size: int = static(8, help="pixels to a side of a cell")

    def __post_init__(self) -> None:
        check_tile_size(self.tile_size)

    @property
    def part_space(self) -> Box:
        """A picture: rows first."""
        width, height = self.level.shape
        return Box(0, 255, (height * self.tile_size, width * self.tile_size, 3), "uint8")

    def part(self, state: GridState, seen: dict[str, Any]) -> UInt8[Array, "_ _ 3"]:
        """The picture."""
        del seen
        return self.level.picture(state, self.tile_size)


def check_tile_size(size: int) -> None:
    """Raises ValueError for a size that shows nothing."""
    if size < 1:
        raise ValueError(f"tile_size={size} shows nothing: a cell needs at least 1 pixel. MiniGrid's default is 8.")
