"""The network of a policy without a value head: torso, memory if any, and a linear head. Weights are nested dicts."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.memory import Memory
from shoal.nn.recurrent_torso import RecurrentTorso

Weights = Any


class PolicyNetwork(NamedTuple):
    """Maps observations to `outputs` numbers: the parameters of an action distribution, or an action.

    With a `memory` after the torso it maps hidden vectors, which `recurrent_torso` computes from observations.
    """

    torso: Any
    observation_space: Space
    outputs: int
    memory: Memory | None = None

    def init(self, key: Key, obs: Any) -> Weights:
        """Initial weights, from an example observation with any leading axes; small for the head. `key` is consumed."""
        k_torso, k_head, *k_memory = jax.random.split(key, 2 if self.memory is None else 3)
        weights, width = self.recurrent_torso.init(k_torso, obs, *k_memory)
        return {**weights, "head": init_dense(k_head, width, self.outputs, scale=0.01)}

    def __call__(self, weights: Weights, seen: Any) -> Float[Array, "*axes outputs"]:
        """The outputs of the head for observations, or with a memory for hidden vectors, with any leading axes."""
        hidden = seen if self.memory is not None else self.recurrent_torso.hidden(weights, seen)[0]
        return apply_dense(weights["head"], hidden)

    @property
    def recurrent_torso(self) -> RecurrentTorso:
        """The torso and the memory."""
        return RecurrentTorso(self.torso, self.observation_space, self.memory)
