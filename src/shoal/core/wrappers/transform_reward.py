"""Rewards passed through a function; clipped and scaled ones."""

import abc
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.core.env import State
from shoal.core.struct import Number, is_concrete, static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class RewardWrapper(Wrapper):
    """A wrapper that changes the reward alone. Subclasses write `reward`."""

    @abc.abstractmethod
    def reward(self, given: Float[Array, ""]) -> Float[Array, ""]:
        """The reward in place of the one that the environment gave."""

    def transition(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """The inner dynamics with another reward."""
        state, reward, terminated, info = self.env.transition(state, action, noise)
        return state, self.reward(reward).astype(reward.dtype), terminated, info


@struct
class TransformReward(RewardWrapper):
    """`function(reward)`, pure and defined once: it is part of the program, so a new lambda compiles anew."""

    function: Callable[[Float[Array, ""]], Float[Array, ""]] = static()

    def reward(self, given: Float[Array, ""]) -> Float[Array, ""]:
        """What the function makes of it."""
        return self.function(given)


@struct
class ClipReward(RewardWrapper):
    """The reward, at least `low` and at most `high`; by default as Mnih et al. 2015 clip Atari's."""

    low: Number = -1.0
    high: Number = 1.0

    def __post_init__(self) -> None:
        if is_concrete(self.low) and is_concrete(self.high) and not np.all(np.less_equal(self.low, self.high)):
            raise ValueError(f"ClipReward needs low={self.low} to be at most high={self.high}.")

    def reward(self, given: Float[Array, ""]) -> Float[Array, ""]:
        """Clipped."""
        return jnp.clip(given, self.low, self.high)


@struct
class ScaleReward(RewardWrapper):
    """The reward times `scale`, a traced number."""

    scale: Number = 1.0

    def reward(self, given: Float[Array, ""]) -> Float[Array, ""]:
        """Scaled."""
        return given * self.scale
