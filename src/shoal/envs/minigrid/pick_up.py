"""The task that several worlds share: pick up one particular thing."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt16

from shoal.core.struct import struct
from shoal.grid.actions import PICKUP
from shoal.grid.cells import color_of, object_of
from shoal.grid.level import GridState, Level
from shoal.grid.words import color_word, fill, object_word


@struct
class PickUpState(GridState):
    """What to pick up, as a cell."""

    target: UInt16[Array, ""]


@struct
class PickUp(Level):
    """A level that is solved by picking up its target. A generator must not make a second thing like it."""

    task: ClassVar[str] = "pick up the {} {}"

    def mission(self, state: PickUpState) -> UInt8[Array, "L"]:
        """Names the target's color and kind."""
        color, number = (jnp.asarray(part(state.target)) for part in (color_of, object_of))
        return fill(self.task, color_word(color), object_word(number))

    def judge(
        self, before: PickUpState, after: PickUpState, action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Ends with the target in the hand."""
        del before
        has_it = (action == PICKUP) & (after.carrying == after.target)
        return jnp.where(has_it, self.success(after), 0), has_it
