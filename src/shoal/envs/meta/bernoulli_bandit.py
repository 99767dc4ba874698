"""BernoulliBandit: arms that pay 1 or nothing.

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
from shoal.envs.meta.bandit import Bandit, given_arms


@env("BernoulliBandit-v0", aliases=("BernoulliBandit-misc",))
@struct
class BernoulliBandit(Bandit):
    """Find out which arm pays most often, and pull it.

    Actions, observation and end: see `Bandit`; rewards lie in {0, 1}.

    Reward: 1 with the probability of the arm, else 0.
    Start: with `arms="one-good"` one arm, any of them, pays with probability 1 - `reward_prob` (0.9) and the others
    with `reward_prob`; with `arms="independent"` each probability is uniform in [0, 1].
    A task of your own: give `probabilities`, one for each arm. They may be traced.
    """

    reward_prob: Number = 0.1
    probabilities: Number | tuple[float, ...] | None = None
    arms: str = static("one-good", choices=("one-good", "independent"))

    def __post_init__(self) -> None:
        if self.arms not in ("one-good", "independent"):
            raise ValueError(f"arms={self.arms!r} is unknown. Choose 'one-good' or 'independent'.")
        given_arms(self, "probabilities", self.num_arms)
        check_range(self, "reward_prob", "probabilities", low=0.0, high=1.0)

    @property
    def observation_space(self) -> Box:
        """Rewards of 0 and 1, the arm, the time."""
        return Box((0.0,) * (self.num_arms + 1) + (-1.0,), 1.0, (self.num_arms + 2,))

    def draw_means(self, key: Key) -> Float[Array, "A"]:
        """The probabilities given, or those of the chosen distribution."""
        if self.probabilities is not None:
            return jnp.asarray(self.probabilities)
        if self.arms == "independent":
            return jax.random.uniform(key, (self.num_arms,))
        good = np.arange(self.num_arms) == jax.random.randint(key, (), 0, self.num_arms)
        return jnp.where(good, 1 - self.reward_prob, self.reward_prob)

    def noise(self, key: Key) -> Float[Array, ""]:
        """Uniform: the arm pays where this is below its probability."""
        return jax.random.uniform(key, dtype=jnp.float32)

    def pay(self, arm: Int[Array, ""], mean: Float[Array, ""], noise: Float[Array, ""]) -> Float[Array, ""]:
        """1 or 0."""
        del arm
        return (noise < mean).astype(jnp.float32)
