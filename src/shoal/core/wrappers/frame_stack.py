"""The last few observations as one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Observation, State
from shoal.core.keys import Key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState


@struct
class FrameStackState(WrapperState):
    """The inner state and the frames, oldest first."""

    frames: Any


@struct
class FrameStack(StatefulWrapper):
    """Observe the last `n` observations, oldest first, on a new axis: the first one, or with `axis=-1` the last.

    An episode begins with `n` copies of its first observation, as Gymnasium's FrameStackObservation does by default.
    The frames are part of the state. Raises ValueError for n < 1 or another axis.
    """

    n: int = static(4)
    axis: int = static(0, choices=(0, -1))

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"FrameStack needs n of at least 1, not {self.n}.")
        if self.axis not in (0, -1):
            raise ValueError(f"FrameStack stacks on axis 0 or -1, not {self.axis}.")

    @property
    def observation_space(self) -> Space:
        """The inner space with the new axis; a Discrete one becomes MultiDiscrete."""
        return _stacked(self.env.observation_space, self.n, self.axis)

    def init(self, key: Key) -> FrameStackState:
        """The first state, seen `n` times."""
        inner = self.env.init(key)
        return FrameStackState(time=inner.time, inner=inner, frames=self._filled(inner))

    def transition(self, state: FrameStackState, action: Any, noise: Any) -> tuple[FrameStackState, Any, Any, Any]:
        """Step, and let the newest frame push the oldest out."""
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        frames = jax.tree.map(self._pushed, state.frames, self.env.observe(inner))
        return FrameStackState(time=inner.time, inner=inner, frames=frames), reward, terminated, info

    def observe(self, state: FrameStackState) -> Observation:
        """The frames."""
        return state.frames

    def carry_over(self, ended: FrameStackState, fresh: FrameStackState) -> FrameStackState:
        """What the environment inside keeps, and frames that show it."""
        inner = self.env.carry_over(ended.inner, fresh.inner)
        return fresh if inner is fresh.inner else fresh.replace(inner=inner, frames=self._filled(inner))

    def _filled(self, inner: State) -> Observation:
        return jax.tree.map(lambda frame: jnp.stack([frame] * self.n, self.axis), self.env.observe(inner))

    def _pushed(self, frames: jax.Array, newest: jax.Array) -> jax.Array:
        axis = self.axis % frames.ndim
        kept = jax.lax.slice_in_dim(frames, 1, self.n, axis=axis)
        return jnp.concatenate([kept, jnp.expand_dims(newest, axis)], axis)


def _stacked(space: Space, n: int, axis: int) -> Space:
    if isinstance(space, Tuple):
        return Tuple(tuple(_stacked(part, n, axis) for part in space.spaces))
    if isinstance(space, Dict):
        return Dict({name: _stacked(part, n, axis) for name, part in space.spaces})
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * n, space.dtype)
    if isinstance(space, MultiDiscrete):
        space = Box(0, np.asarray(space.nvec) - 1, space.shape, space.dtype)
    low, high = (np.stack([side] * n, axis) for side in space.bounds())
    return Box(low, high, low.shape, space.dtype)
