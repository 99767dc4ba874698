"""`FullyObs`: the whole grid instead of the agent's view."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import AGENT, HIGHEST
from shoal.grid.level import GridState
from shoal.grid.view import channels
from shoal.grid.wrappers.base import PartWrapper


@struct
class FullyObs(PartWrapper):
    """The image holds all cells, [x, y, (object, color, state)], and the agent as (10, 0, direction).

    The object under the agent and the carried object are not shown. Source: MiniGrid 3.2.0, `FullyObsWrapper`.
    """

    @property
    def part_space(self) -> Box:
        """[W, H, 3]; in the agent's cell the last channel is its direction, up to 3."""
        return Box(0, (HIGHEST[0], HIGHEST[1], 3), (*self.level.shape, 3), "uint8")

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "W H 3"]:
        """The grid with the agent in it."""
        del inner_obs
        cells = channels(state.grid)
        agent = jnp.zeros_like(cells).at[..., 0].set(int(AGENT)).at[..., 2].set(state.direction.astype(jnp.uint8))
        return jnp.where(cell_mask(self.level.shape, state.x, state.y)[..., None], agent, cells)
