"""`FullyObs`: the whole grid instead of the agent's view."""

from typing import Any

from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.level import GridState
from shoal.grid.views import whole_grid, whole_space
from shoal.grid.wrappers.base import PartWrapper


@struct
class FullyObs(PartWrapper):
    """The image holds all cells, [x, y, (object, color, state)], and the agent as (10, 0, direction).

    The object under the agent and the carried object are not shown. Source: MiniGrid 3.2.0, `FullyObsWrapper`.
    """

    @property
    def part_space(self) -> Box:
        """[W, H, 3]; in the agent's cell the last channel is its direction, up to 3."""
        return whole_space(self.level)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "W H 3"]:
        """The grid with the agent in it."""
        del inner_obs
        return whole_grid(state)
