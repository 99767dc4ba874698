"""The agent's view as zeros and ones."""

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
    """The image shows of each cell 20 zeros and ones: 11 for its object, 6 for its color, 3 for its state.

    Raises ValueError around anything that shows another image than the agent's view.
    Source: MiniGrid 3.2.0, `OneHotPartialObsWrapper`.
    """

    def __post_init__(self) -> None:
        check_view(self)

    @property
    def part_space(self) -> Box:
        """As large as the view, in zeros and ones."""
        return Box(0, 1, (*check_view(self).shape[:2], DEPTH), "uint8")

    def part(self, state: GridState, seen: dict[str, Any]) -> UInt8[Array, "V V 20"]:
        """Three ones a cell."""
        del state
        ones = seen["image"].astype(jnp.int32) + np.array(OFFSETS, np.int32)[None, None]
        places = np.arange(DEPTH, dtype=np.int32)[None, None, None]
        return (ones[..., None] == places).any(axis=2).astype(jnp.uint8)
