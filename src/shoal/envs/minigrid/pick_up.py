"""The task of several levels: pick up one particular object."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int, UInt8, UInt16

from shoal.core.struct import struct
from shoal.grid.actions import PICKUP
from shoal.grid.cells import color_of, object_of
from shoal.grid.level import GridState, Judgement, Level
from shoal.grid.words import color_word, fill, object_word


@struct
class PickUpState(GridState):
    """A grid, and the object to pick up."""

    target: UInt16[Array, ""]  # the object to pick up, as a cell


@struct
class PickUp(Level):
    """A level whose task is to pick up the target. No other object may have the target's kind and color."""

    task: ClassVar[str] = "pick up the {} {}"

    def mission(self, state: PickUpState) -> UInt8[Array, "L"]:
        """Names the target's color and kind."""
        color, number = (jnp.asarray(part(state.target)) for part in (color_of, object_of))
        return fill(self.task, color_word(color), object_word(number))

    def judge(self, before: PickUpState, after: PickUpState, action: Int[Array, ""]) -> Judgement:
        """Success, and the end, when the agent picks up the target."""
        del before
        has_it = (action == PICKUP) & (after.carrying == after.target)
        return jnp.where(has_it, self.success(after), 0), has_it
