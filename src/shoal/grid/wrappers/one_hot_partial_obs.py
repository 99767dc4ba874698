"""`OneHotPartialObs`: the agent's view, one-hot."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.level import GridState
from shoal.grid.views import one_hot, one_hot_space
from shoal.grid.wrappers.base import PartWrapper, check_view


@struct
class OneHotPartialObs(PartWrapper):
    """Each cell of the image is three one-hot vectors: 11 entries for its object, 6 for its color, 3 for its state.

    Kinds that the level declares have entries after the 11; with more states than 3 there are more entries for these.
    Raises ValueError if the image of the inner environment is not the agent's view.
    Source: MiniGrid 3.2.0, `OneHotPartialObsWrapper`.
    """

    def __post_init__(self) -> None:
        check_view(self)

    @property
    def part_space(self) -> Box:
        """[V, V, 20], 0 or 1."""
        return one_hot_space(self.level, check_view(self).shape)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "V V D"]:
        """The one-hot view."""
        del state
        return one_hot(inner_obs["image"], self.level.highest)
