"""A wrapper that gives the actions of an environment other bounds.

Source: Gymnasium's `RescaleAction`, whose `min_action` and `max_action` are `low` and `high` here.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Array

from shoal.core.env import State, Transition
from shoal.core.spaces import Box, from_unit, is_bounded, to_unit
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class RescaleAction(Wrapper):
    """Take actions from `low` to `high`, and give them to the inner environment on the scale of its own Box.

        inner = inner_low + (action - low) / (high - low) * (inner_high - inner_low)

    A bound is a number, or a nested tuple of the shape of an action. Agents of shoal need no such wrapper: what they
    learn does not depend on the units of actions. It is for functions and for agents of one's own.

        env = shoal.RescaleAction(shoal.make("Pendulum-v1"), low=0.0, high=1.0)

    Raises TypeError if the inner actions are not real numbers in a Box, and ValueError if a bound of it is infinite, or
    unless `low` < `high` and both are finite.
    """

    low: Any = static(-1.0, help="smallest action")
    high: Any = static(1.0, help="largest action")

    def __post_init__(self) -> None:
        inner = self.env.action_space
        if not isinstance(inner, Box) or not np.issubdtype(inner.dtype, np.floating):
            raise TypeError(f"RescaleAction needs actions in a Box of real numbers, not {inner}.")
        if not is_bounded(inner).all():
            raise ValueError(f"RescaleAction needs finite bounds of the inner actions, not {inner}.")
        try:
            low, high = (np.broadcast_to(np.asarray(x, np.float64), inner.shape) for x in (self.low, self.high))
        except (TypeError, ValueError):
            low = high = np.asarray(np.nan)
        if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError(
                f"RescaleAction needs finite low < high, numbers or tuples of shape {inner.shape}, not "
                f"low={self.low!r}, high={self.high!r}."
            )

    @property
    def action_space(self) -> Box:
        """The box from `low` to `high`."""
        return dataclasses.replace(self.env.action_space, low=self.low, high=self.high)  # type: ignore[type-var]  # it is a Box

    def transition(self, state: State, action: Array, noise: Any) -> Transition[State]:
        """Apply the inner dynamics to the rescaled action."""
        inner = from_unit(self.env.action_space, to_unit(self.action_space, action))  # type: ignore[arg-type]  # a Box
        return self.env.transition(state, inner, noise)
