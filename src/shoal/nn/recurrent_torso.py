"""A torso and the memory after it, if there is one. Weights are nested dicts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space, zeros
from shoal.nn.memory import Memory
from shoal.nn.torso_choice import hidden_units, torso_input

Weights = Any


class RecurrentTorso(NamedTuple):
    """Computes hidden vectors of observations; with a `memory`, also from the earlier ones of the episode.

    The weights of a network contain those of its torso and of its memory, as "torso" and "memory".
    """

    torso: Any
    observation_space: Space
    memory: Memory | None = None

    def init(self, k_torso: Key, obs: Any, k_memory: Key | None = None) -> tuple[dict[str, Weights], int]:
        """(initial weights, the number of units H), from an example observation with any leading axes.

        Both keys are consumed; `k_memory` is None without a memory.
        """
        features = torso_input(self.torso, self.observation_space, obs)
        weights = {"torso": self.torso.init(k_torso, features)}
        width = hidden_units(self.torso, weights["torso"], features)
        if self.memory is None or k_memory is None:
            return weights, width
        memory = self.memory.init(k_memory, jnp.zeros((width,), jnp.float32))
        return {**weights, "memory": memory}, self.memory.size

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Any:
        """The recurrent carry at the start of an episode, with leading `axes`; None without a memory."""
        return None if self.memory is None else self.memory.initial_carry(axes)

    def first_carry(self, obs: Any) -> Any:
        """The carries of observations that begin an episode, with any leading axes; None without a memory."""
        array, unbatched = (jax.tree.leaves(x)[0] for x in (obs, zeros(self.observation_space)))
        return self.initial_carry(array.shape[: array.ndim - unbatched.ndim])

    def hidden(self, weights: Weights, obs: Any, carry: Any = None) -> tuple[Float[Array, "*axes H"], Any]:
        """(hidden vectors, next carry) for one observation with any leading axes."""
        hidden = self._output(weights, obs)
        return (hidden, carry) if self.memory is None else self.memory.step(weights["memory"], hidden, carry)

    def unroll(
        self, weights: Weights, obs: Any, is_first: Bool[Array, "T E"], carry: Any
    ) -> tuple[Float[Array, "T E H"], Any]:
        """(hidden vectors, carries after each step) of T observations, with a memory."""
        assert self.memory is not None
        return self.memory.unroll(weights["memory"], self._output(weights, obs), is_first, carry)

    def _output(self, weights: Weights, obs: Any) -> Array:
        return self.torso.apply(weights["torso"], torso_input(self.torso, self.observation_space, obs))
