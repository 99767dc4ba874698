"""`SymbolicObs`: the whole grid as positions and objects."""

from typing import Any

from jaxtyping import Array, Int32

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.level import GridState
from shoal.grid.views import positions_and_objects, positions_space
from shoal.grid.wrappers.base import PartWrapper


@struct
class SymbolicObs(PartWrapper):
    """The image holds (x, y, object) of every cell; object is -1 for an empty cell and 10 for the agent.

    Colors and states are not shown. Source: MiniGrid 3.2.0, `SymbolicObsWrapper`, whose int64 is int32 here.
    """

    @property
    def part_space(self) -> Box:
        """[W, H, (x, y, object)]."""
        return positions_space(self.level)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> Int32[Array, "W H 3"]:
        """Positions and objects."""
        del inner_obs
        return positions_and_objects(state)
