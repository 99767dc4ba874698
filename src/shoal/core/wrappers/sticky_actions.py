"""A wrapper that repeats the last action with a probability."""

from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.env import Transition
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
    """With `probability`, execute the action of the last step again instead of the new one.

    The first action of an episode is never replaced. A repeated action may be one that the action mask of the present
    state forbids. The probability is a traced number: changing it does not recompile.
    Source: Machado et al. 2018, "Revisiting the Arcade Learning Environment", section 5.2 (there, 0.25).
    """

    probability: Number = hyper(0.25, valid=(0.0, 1.0))

    def init(self, key: Key) -> StickyActionsState:
        """Return the first state. Its `action` is zero, since none was executed."""
        inner = self.env.init(key)
        return StickyActionsState(time=inner.time, inner=inner, action=zeros(self.action_space))

    def noise(self, key: Key) -> tuple[jax.Array, Any]:
        """Sample (the uniform number that decides whether the last action is repeated, the inner noise)."""
        k_sticky, k_inner = jax.random.split(key)
        return jax.random.uniform(k_sticky), self.env.noise(k_inner)

    def transition(
        self, state: StickyActionsState, action: Any, noise: tuple[jax.Array, Any]
    ) -> Transition[StickyActionsState]:
        """Step with the new action, or with the last one."""
        uniform, inner_noise = noise
        repeats = (uniform < self.probability) & (state.time > 1)
        executed = jax.tree.map(lambda last, new: jnp.where(repeats, last, new), state.action, action)
        inner, reward, terminated, info = self.inner_transition(state, executed, inner_noise)
        return StickyActionsState(time=inner.time, inner=inner, action=executed), reward, terminated, info
