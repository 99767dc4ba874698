"""The network of a policy that is found without gradients: a torso, an optional recurrent cell, and a policy head.

Recurrent cells are those of `nn/memory/`. Weights are nested dicts.
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.distributions import head_size
from shoal.nn.memory import Memory
from shoal.nn.torso_choice import torso_input

Weights = Any


class Controller(NamedTuple):
    """A torso, a recurrent cell (`memory`; None: no cell), and a linear head."""

    torso: Any
    observation_space: Space
    action_space: Space
    memory: Memory | None = None

    def init(self, key: Key, obs: Any) -> Weights:
        """Initial weights, from an example observation. `key` is consumed."""
        k_torso, k_memory, k_head = jax.random.split(key, 3)
        weights = {"torso": self.torso.init(k_torso, self._features(obs))}
        hidden = self._hidden(weights, obs)
        width = hidden.shape[-1]
        if self.memory is not None:
            weights["memory"] = self.memory.init(k_memory, hidden)
            width = self.memory.size
        return {**weights, "policy": init_dense(k_head, width, head_size(self.action_space), scale=0.01)}

    def initial_carry(self) -> Any:
        """The recurrent carry at the start of an episode; None without a recurrent cell."""
        return None if self.memory is None else self.memory.initial_carry()

    def apply(self, weights: Weights, obs: Any, carry: Any) -> tuple[Float[Array, "*axes A"], Any]:
        """(outputs of the head, next carry). `obs` may have leading axes; `carry` must have the same."""
        hidden = self._hidden(weights, obs)
        if self.memory is not None:
            hidden, carry = self.memory.step(weights["memory"], hidden, carry)
        return apply_dense(weights["policy"], hidden), carry

    def _hidden(self, weights: Weights, obs: Any) -> Any:
        return self.torso.apply(weights["torso"], self._features(obs))

    def _features(self, obs: Any) -> Any:
        return torso_input(self.torso, self.observation_space, obs)
