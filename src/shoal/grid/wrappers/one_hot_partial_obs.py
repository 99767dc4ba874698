"""`OneHotPartialObs`: the agent's view, one-hot."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.grid.cells import COLORS, OBJECTS, STATES
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper, check_view

OFFSETS = (0, len(OBJECTS), len(OBJECTS) + len(COLORS))
DEPTH = len(OBJECTS) + len(COLORS) + len(STATES)


@struct
class OneHotPartialObs(PartWrapper):
    """Each cell of the image is three one-hot vectors: 11 entries for its object, 6 for its color, 3 for its state.

    Raises ValueError if the image of the inner environment is not the agent's view.
    Source: MiniGrid 3.2.0, `OneHotPartialObsWrapper`.
    """

    def __post_init__(self) -> None:
        check_view(self)

    @property
    def part_space(self) -> Box:
        """[V, V, 20], 0 or 1."""
        return Box(0, 1, (*check_view(self).shape[:2], DEPTH), "uint8")

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "V V 20"]:
        """The one-hot view."""
        del state
        ones = inner_obs["image"].astype(jnp.int32) + np.array(OFFSETS, np.int32)[None, None]
        channels = np.arange(DEPTH, dtype=np.int32)[None, None, None]
        return (ones[..., None] == channels).any(axis=2).astype(jnp.uint8)
