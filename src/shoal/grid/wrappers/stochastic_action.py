"""`StochasticAction`: the chosen action is not always executed."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from shoal.core.env import State, Transition
from shoal.core.keys import Key
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, hyper, static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class StochasticAction(Wrapper):
    """Executes the chosen action with `probability`; otherwise `random_action`, or a random one if that is None.

    The random action is uniform over all actions, the chosen one included. Raises ValueError for a `random_action`
    outside the action space, and TypeError around an environment whose action space is not Discrete.
    Source: MiniGrid 3.2.0, `StochasticActionWrapper`.
    """

    probability: Number = hyper(0.9, valid=(0.0, 1.0), help="probability that the chosen action is executed")
    random_action: int | None = static(None, help="the action that is executed otherwise; None: a random one")

    def __post_init__(self) -> None:
        space = self.env.action_space
        if not isinstance(space, Discrete):
            raise TypeError(f"StochasticAction needs a Discrete action space; {type(self.env).__name__} has {space}.")
        if self.random_action is not None and not 0 <= self.random_action < space.n:
            raise ValueError(
                f"random_action={self.random_action} is not an action: choose 0 to {space.n - 1}, or None."
            )

    def noise(self, key: Key) -> tuple[tuple[Array, Array], Any]:
        """((the uniform number that decides, the random action), the inner noise)."""
        k_uniform, k_action, k_inner = jax.random.split(key, 3)
        random_action: Any = self.action_space.sample(k_action)
        return (jax.random.uniform(k_uniform), random_action), self.env.noise(k_inner)

    def transition(self, state: State, action: Any, noise: tuple[tuple[Array, Array], Any]) -> Transition[State]:
        """Take one step with the chosen action, or with another one."""
        (uniform, random_action), inner_noise = noise
        other = random_action if self.random_action is None else jnp.asarray(self.random_action, random_action.dtype)
        return self.env.transition(state, jnp.where(uniform < self.probability, action, other), inner_noise)
