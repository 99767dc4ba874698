"""GaussianBandit: one safe arm, and others that are mostly worse.

Source: Lange and Sprekeler 2022, "Learning not to learn: nature versus nurture in silico", section 3.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, struct
from shoal.envs.checks import check_range
from shoal.envs.meta.bandit import Bandit, given_arms


@env("GaussianBandit-v0", aliases=("GaussianBandit-misc",))
@struct
class GaussianBandit(Bandit):
    """Decide whether it is worth finding out what the uncertain arms pay.

    Actions, observation and end: see `Bandit`; rewards are unbounded.

    Reward: of arm 0 always 0; of another arm its mean plus noise, normal with deviation `deviation` (0.1).
    Start: the mean of each arm but the first is normal, with mean `prior_mean` (-1) and deviation `prior_deviation`
    (1).
    A task of your own: give `means`, one for each arm but the first. They may be traced.
    """

    prior_mean: Number = -1.0
    prior_deviation: Number = 1.0
    deviation: Number = 0.1
    means: Number | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        given_arms(self, "means", self.num_arms - 1)
        check_range(self, "prior_deviation", "deviation", low=0)
        check_range(self, "prior_mean", "means")

    @property
    def observation_space(self) -> Box:
        """Any reward, the arm, the time."""
        arms = self.num_arms
        return Box((-math.inf,) + (0.0,) * arms + (-1.0,), (math.inf,) + (1.0,) * (arms + 1), (arms + 2,))

    def draw_means(self, key: Key) -> Float[Array, "A"]:
        """0 for the safe arm; for the others what is given, or drawn."""
        if self.means is not None:
            uncertain = jnp.asarray(self.means)
        else:
            uncertain = self.prior_mean + self.prior_deviation * jax.random.normal(key, (self.num_arms - 1,))
        return jnp.concatenate([jnp.zeros((1,), uncertain.dtype), uncertain])

    def noise(self, key: Key) -> Float[Array, ""]:
        """Standard normal."""
        return jax.random.normal(key, dtype=jnp.float32)

    def pay(self, arm: Int[Array, ""], mean: Float[Array, ""], noise: Float[Array, ""]) -> Float[Array, ""]:
        """The mean and the noise; the safe arm has neither."""
        return jnp.where(arm == 0, 0.0, mean + self.deviation * noise)
