"""Actions that are not always obeyed."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.env import State
from shoal.core.keys import Key
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, hyper, static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class StochasticAction(Wrapper):
    """Executes the given action with a probability, and otherwise `random_action`, or any action where that is None.

    Any action may also be the given one. Raises ValueError for a `random_action` that is no action, and TypeError
    around an environment whose actions are not numbered. Source: MiniGrid 3.2.0, `StochasticActionWrapper`.
    """

    probability: Number = hyper(0.9, valid=(0.0, 1.0), help="how often the given action is executed")
    random_action: int | None = static(None, help="executed otherwise; any action where it is None")

    def __post_init__(self) -> None:
        space = self.env.action_space
        if not isinstance(space, Discrete):
            raise TypeError(f"StochasticAction draws from numbered actions; {type(self.env).__name__} has {space}.")
        if self.random_action is not None and not 0 <= self.random_action < space.n:
            raise ValueError(f"random_action={self.random_action} is no action: choose 0 to {space.n - 1}, or None.")

    def noise(self, key: Key) -> tuple[tuple[Array, Array], Any]:
        """A uniform number that decides, the random action, and the inner noise."""
        k_chance, k_action, k_inner = jax.random.split(key, 3)
        drawn: Any = self.action_space.sample(k_action)
        return (jax.random.uniform(k_chance), drawn), self.env.noise(k_inner)

    def transition(
        self, state: State, action: Any, noise: tuple[tuple[Array, Array], Any]
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Step with the action given, or with another."""
        (chance, drawn), inner_noise = noise
        other = drawn if self.random_action is None else jnp.asarray(self.random_action, drawn.dtype)
        return self.env.transition(state, jnp.where(chance < self.probability, action, other), inner_noise)
