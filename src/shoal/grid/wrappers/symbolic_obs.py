"""The whole grid as places and objects."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.actions import at
from shoal.grid.cells import AGENT, EMPTY, OBJECTS, object_of
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper

NOTHING = -1


@struct
class SymbolicObs(PartWrapper):
    """The image shows (x, y, object) of every cell, with -1 for nothing and 10 for the agent; no colors, no states.

    Source: MiniGrid 3.2.0, `SymbolicObsWrapper`, whose int64 is int32 here.
    """

    @property
    def part_space(self) -> Box:
        """As many cells as the grid has."""
        width, height = self.level.shape
        return Box((0, 0, NOTHING), (width - 1, height - 1, len(OBJECTS) - 1), (width, height, 3), "int32")

    def part(self, state: GridState, seen: dict[str, Any]) -> Int32[Array, "W H 3"]:
        """Places and objects."""
        del seen
        shape = self.level.shape
        objects = jnp.where(state.grid == EMPTY, NOTHING, object_of(state.grid).astype(jnp.int32))
        objects = jnp.where(at(shape, state.x, state.y), int(AGENT), objects)
        places = np.indices(shape).astype(np.int32).transpose(1, 2, 0)
        return jnp.concatenate([places, objects[..., None]], axis=-1)
