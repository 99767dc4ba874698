"""Wrappers that apply a function to rewards, clip them or scale them."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.env import State, Transition
from shoal.core.struct import Number, is_concrete, static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class RewardWrapper(Wrapper):
    """The base class of wrappers that change only the reward. Subclasses write `reward`."""

    @abc.abstractmethod
    def reward(self, inner: Float[Array, ""]) -> Float[Array, ""]:
        """Return the reward that replaces the one of the inner environment."""

    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """Apply the inner dynamics and replace the reward."""
        state, reward, terminated, info = self.env.transition(state, action, noise)
        return state, self.reward(reward).astype(reward.dtype), terminated, info


@struct
class TransformReward(RewardWrapper):
    """Replace each reward by `function(reward)`. Define the pure function once: another lambda is another program."""

    function: Callable[[Float[Array, ""]], Float[Array, ""]] = static()

    def reward(self, inner: Float[Array, ""]) -> Float[Array, ""]:
        """Return `function(inner)`."""
        return self.function(inner)


@struct
class ClipReward(RewardWrapper):
    """Clip rewards to [`low`, `high`]; by default to [-1, 1], as Mnih et al. 2015 clip those of Atari games."""

    may_be_infinite: ClassVar[tuple[str, ...]] = ("low", "high")

    low: Number = -1.0
    high: Number = 1.0

    def __post_init__(self) -> None:
        if is_concrete(self.low) and is_concrete(self.high) and not np.all(np.less_equal(self.low, self.high)):
            raise ValueError(f"ClipReward needs low={self.low} to be at most high={self.high}.")

    def reward(self, inner: Float[Array, ""]) -> Float[Array, ""]:
        """Return the reward clipped to [`low`, `high`]."""
        return jnp.clip(inner, self.low, self.high)


@struct
class ScaleReward(RewardWrapper):
    """Multiply rewards by `scale`, a traced number."""

    scale: Number = 1.0

    def reward(self, inner: Float[Array, ""]) -> Float[Array, ""]:
        """Return the reward times `scale`."""
        return inner * self.scale
