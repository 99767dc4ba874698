"""`SymbolicObs`: the whole grid as positions and objects."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import AGENT, EMPTY, OBJECTS, object_of
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper

EMPTY_CELL = -1


@struct
class SymbolicObs(PartWrapper):
    """The image holds (x, y, object) of every cell; object is -1 for an empty cell and 10 for the agent.

    Colors and states are not shown. Source: MiniGrid 3.2.0, `SymbolicObsWrapper`, whose int64 is int32 here.
    """

    @property
    def part_space(self) -> Box:
        """[W, H, (x, y, object)]."""
        width, height = self.level.shape
        return Box((0, 0, EMPTY_CELL), (width - 1, height - 1, len(OBJECTS) - 1), (width, height, 3), "int32")

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> Int32[Array, "W H 3"]:
        """Positions and objects."""
        del inner_obs
        shape = self.level.shape
        objects = jnp.where(state.grid == EMPTY, EMPTY_CELL, object_of(state.grid).astype(jnp.int32))
        objects = jnp.where(cell_mask(shape, state.x, state.y), int(AGENT), objects)
        positions = np.indices(shape).astype(np.int32).transpose(1, 2, 0)
        return jnp.concatenate([positions, objects[..., None]], axis=-1)
