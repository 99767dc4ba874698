"""bsuite's noise experiments: a wrapper that adds normal noise to the reward."""

from typing import Any

import jax
from jaxtyping import Array, Float

from shoal.core.env import State, Transition
from shoal.core.keys import Key
from shoal.core.struct import Number, struct
from shoal.envs.bsuite.experiments import wrapped_experiment
from shoal.envs.bsuite.task_wrapper import TaskWrapper
from shoal.envs.checks import check_range


@wrapped_experiment("bandit_noise", "bandit")
@wrapped_experiment("cartpole_noise", "cartpole")
@wrapped_experiment("catch_noise", "catch")
@wrapped_experiment("mnist_noise", "mnist")
@wrapped_experiment("mountain_car_noise", "mountain_car")
@struct
class RewardNoise(TaskWrapper):
    """The environment `env` with normal noise of standard deviation `noise_scale` added to the reward.

    `env` is an environment or a registered id. bsuite's counters are those of the inner environment: without the noise.
    Noise: (a standard normal number, the noise of the inner environment).
    Source: bsuite 0.3.6 `utils/wrappers.py`, RewardNoise.
    """

    noise_scale: Number = 1.0

    def __post_init__(self) -> None:
        check_range(self, "noise_scale", low=0)

    def noise(self, key: Key) -> tuple[Float[Array, ""], Any]:
        """(A standard normal number, the noise of the inner environment)."""
        k_own, k_inner = jax.random.split(key)
        return jax.random.normal(k_own), self.env.noise(k_inner)

    def transition(self, state: State, action: Any, noise: tuple[Float[Array, ""], Any]) -> Transition[State]:
        """One step of the inner environment, with noise added to the reward."""
        own, inner = noise
        state, reward, terminated, info = self.env.transition(state, action, inner)
        return state, (reward + self.noise_scale * own).astype(reward.dtype), terminated, info
