"""GaussianBandit: one arm with reward 0, and uncertain arms that are usually worse.

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
from shoal.envs.meta.bandit import Bandit, check_arm_values


@env("GaussianBandit-v0", aliases=("GaussianBandit-misc",))
@struct
class GaussianBandit(Bandit):
    """Decide whether to explore the uncertain arms or to use the safe arm.

    Action: Discrete(`num_arms`), the arm to pull.

    Observation: Box(`num_arms` + 2), float32

    | part       | quantity                                                    |
    |------------|-------------------------------------------------------------|
    | 1          | the last reward, unbounded; 0 at the start                  |
    | `num_arms` | the last action, one-hot; arm 0 at the start                |
    | 1          | the time, from -1 at the start to 1 after `max_steps` steps |

    Reward: always 0 for arm 0; for another arm its mean plus normal noise of standard deviation `deviation` (0.1).
    Start: the mean of each arm except arm 0 is normal, with mean `prior_mean` (-1) and standard deviation
    `prior_deviation` (1).
    End: never terminated; truncated after `max_steps` (100).
    To choose the task, set `means`, one for each arm except arm 0. They may be traced.
    """

    prior_mean: Number = -1.0
    prior_deviation: Number = 1.0
    deviation: Number = 0.1
    means: Number | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_arm_values(self, "means", self.num_arms - 1)
        check_range(self, "prior_deviation", "deviation", low=0)
        check_range(self, "prior_mean", "means")

    @property
    def observation_space(self) -> Box:
        """The last reward (unbounded), the last action (one-hot), and the time."""
        arms = self.num_arms
        return Box((-math.inf,) + (0.0,) * arms + (-1.0,), (math.inf,) + (1.0,) * (arms + 1), (arms + 2,))

    def sample_means(self, key: Key) -> Float[Array, "A"]:
        """0 for arm 0; for the others the field `means`, or a sample of the prior."""
        if self.means is not None:
            uncertain = jnp.asarray(self.means)
        else:
            uncertain = self.prior_mean + self.prior_deviation * jax.random.normal(key, (self.num_arms - 1,))
        return jnp.concatenate([jnp.zeros((1,), uncertain.dtype), uncertain])

    def noise(self, key: Key) -> Float[Array, ""]:
        """A standard normal number."""
        return jax.random.normal(key, dtype=jnp.float32)

    def arm_reward(self, arm: Int[Array, ""], mean: Float[Array, ""], noise: Float[Array, ""]) -> Float[Array, ""]:
        """The mean plus the scaled noise; 0 for arm 0."""
        return jnp.where(arm == 0, 0.0, mean + self.deviation * noise)
