"""The agent's view as a picture."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.picture import view_picture
from shoal.grid.wrappers.base import PartWrapper, check_view
from shoal.grid.wrappers.rgb_img_obs import check_tile_size


@struct
class RGBImgPartialObs(PartWrapper):
    """The image is what the agent sees, RGB [V * tile_size, V * tile_size, 3]; cells that it cannot see are dark.

    Around `ViewSize` it paints that view, where the reference announces its size and paints the level's own. Raises
    ValueError for tiles without a pixel, and around anything that shows another image than the agent's view.
    Source: MiniGrid 3.2.0, `RGBImgPartialObsWrapper`.
    """

    tile_size: int = static(8, help="pixels to a side of a cell")

    def __post_init__(self) -> None:
        check_tile_size(self.tile_size)
        check_view(self)

    @property
    def part_space(self) -> Box:
        """A picture as large as the view."""
        side = check_view(self).shape[0] * self.tile_size
        return Box(0, 255, (side, side, 3), "uint8")

    def part(self, state: GridState, seen: dict[str, Any]) -> UInt8[Array, "_ _ 3"]:
        """The picture."""
        del state
        return view_picture(seen["image"], self.tile_size)
