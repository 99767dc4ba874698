"""Actions that sometimes stick."""

from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.keys import Key
from shoal.core.spaces import zeros
from shoal.core.struct import Number, hyper, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState


@struct
class StickyActionsState(WrapperState):
    """The inner state and the action that was executed last."""

    action: Any


@struct
class StickyActions(StatefulWrapper):
    """With a probability, execute the action that was executed last instead of the one that is given.

    The first action of an episode is always executed as given. An action that sticks may be one that the mask has
    forbidden since. The probability is a traced number: changing it does not recompile.
    Source: Machado et al. 2018, "Revisiting the Arcade Learning Environment", section 5.2 (there, 0.25).
    """

    probability: Number = hyper(0.25, valid=(0.0, 1.0))

    def init(self, key: Key) -> StickyActionsState:
        """The first state; no action has been executed."""
        inner = self.env.init(key)
        return StickyActionsState(time=inner.time, inner=inner, action=zeros(self.action_space))

    def noise(self, key: Key) -> tuple[jax.Array, Any]:
        """A uniform number that decides whether the action sticks, and the inner noise."""
        k_sticky, k_inner = jax.random.split(key)
        return jax.random.uniform(k_sticky), self.env.noise(k_inner)

    def transition(
        self, state: StickyActionsState, action: Any, noise: tuple[jax.Array, Any]
    ) -> tuple[StickyActionsState, Any, Any, Any]:
        """Step with the action given, or with the last one."""
        chance, inner_noise = noise
        sticks = (chance < self.probability) & (state.time > 1)
        executed = jax.tree.map(lambda last, given: jnp.where(sticks, last, given), state.action, action)
        inner, reward, terminated, info = self.inner_transition(state, executed, inner_noise)
        return StickyActionsState(time=inner.time, inner=inner, action=executed), reward, terminated, info
