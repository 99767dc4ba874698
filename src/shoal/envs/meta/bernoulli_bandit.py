"""BernoulliBandit: arms with rewards of 1 or 0.

Source: Wang et al. 2016, "Learning to reinforcement learn", section 3.1 (dependent arms, and independent ones); Duan et
al. 2016, "RL^2", section 3.1 (independent arms).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.envs.meta.bandit import Bandit, check_arm_values


@env("BernoulliBandit-v0", aliases=("BernoulliBandit-misc",))
@struct
class BernoulliBandit(Bandit):
    """Find the arm with the largest probability of reward, and pull it.

    Action: Discrete(`num_arms`), the arm to pull.

    Observation: Box(`num_arms` + 2), float32

    | part       | quantity                                                    |
    |------------|-------------------------------------------------------------|
    | 1          | the last reward, 0 or 1; 0 at the start                     |
    | `num_arms` | the last action, one-hot; arm 0 at the start                |
    | 1          | the time, from -1 at the start to 1 after `max_steps` steps |

    Reward: 1 with the probability of the arm, else 0.
    Start: with `arms="one-good"` one random arm has the probability 1 - `reward_prob` (0.9), all others `reward_prob`;
    with `arms="independent"` each probability is uniform in [0, 1].
    End: never terminated; truncated after `max_steps` (100).
    To choose the task, set `probabilities`, one for each arm. They may be traced.
    """

    reward_prob: Number = 0.1
    probabilities: Number | tuple[float, ...] | None = None
    arms: str = static("one-good", choices=("one-good", "independent"))

    def __post_init__(self) -> None:
        if self.arms not in ("one-good", "independent"):
            raise ValueError(f"arms={self.arms!r} is unknown. Choose 'one-good' or 'independent'.")
        check_arm_values(self, "probabilities", self.num_arms)
        check_range(self, "reward_prob", "probabilities", low=0.0, high=1.0)

    @property
    def observation_space(self) -> Box:
        """The last reward (0 or 1), the last action (one-hot), and the time."""
        return Box((0.0,) * (self.num_arms + 1) + (-1.0,), 1.0, (self.num_arms + 2,))

    def sample_means(self, key: Key) -> Float[Array, "A"]:
        """The field `probabilities`, or a sample of the distribution `arms`."""
        if self.probabilities is not None:
            return jnp.asarray(self.probabilities)
        if self.arms == "independent":
            return jax.random.uniform(key, (self.num_arms,))
        good = np.arange(self.num_arms) == jax.random.randint(key, (), 0, self.num_arms)
        return jnp.where(good, 1 - self.reward_prob, self.reward_prob)

    def noise(self, key: Key) -> Float[Array, ""]:
        """A uniform number in [0, 1); the reward is 1 if it is below the probability of the arm."""
        return jax.random.uniform(key, dtype=jnp.float32)

    def arm_reward(self, arm: Int[Array, ""], mean: Float[Array, ""], noise: Float[Array, ""]) -> Float[Array, ""]:
        """1 if `noise` < `mean`, else 0."""
        del arm
        return (noise < mean).astype(jnp.float32)
