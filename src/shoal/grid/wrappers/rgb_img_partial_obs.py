"""`RGBImgPartialObs`: the agent's view as a picture."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.picture import view_picture
from shoal.grid.views import picture_space
from shoal.grid.wrappers.base import PartWrapper, check_view
from shoal.grid.wrappers.rgb_img_obs import check_tile_size


@struct
class RGBImgPartialObs(PartWrapper):
    """The image is the agent's view, RGB [V * tile_size, V * tile_size, 3]; cells that it cannot see are dark.

    Around `ViewSize` the picture shows that view; MiniGrid declares a space of that size, but draws the level's own
    view. Raises ValueError for `tile_size` < 1, and if the image of the inner environment is not the agent's view.
    Source: MiniGrid 3.2.0, `RGBImgPartialObsWrapper`.
    """

    tile_size: int = static(8, help="side of a cell, in pixels")

    def __post_init__(self) -> None:
        check_tile_size(self.tile_size)
        check_view(self)

    @property
    def part_space(self) -> Box:
        """[V * tile_size, V * tile_size, 3]."""
        return picture_space(check_view(self).shape, self.tile_size)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "_ _ 3"]:
        """The picture."""
        del state
        return view_picture(inner_obs["image"], self.tile_size, self.level.kinds)
