"""The network of a policy without a value head: a torso and one linear head. Weights are nested dicts."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.torso_choice import hidden_units, torso_input

Weights = Any


class PolicyNetwork(NamedTuple):
    """Maps observations to `outputs` numbers: the parameters of an action distribution, or an action."""

    torso: Any
    observation_space: Space
    outputs: int

    def init(self, key: Key, obs: Any) -> Weights:
        """Initial weights, from an example observation with any leading axes; small for the head. `key` is consumed."""
        k_torso, k_head = jax.random.split(key)
        features = torso_input(self.torso, self.observation_space, obs)
        torso = self.torso.init(k_torso, features)
        width = hidden_units(self.torso, torso, features)
        return {"torso": torso, "head": init_dense(k_head, width, self.outputs, scale=0.01)}

    def __call__(self, weights: Weights, obs: Any) -> Float[Array, "*axes outputs"]:
        """The outputs of the head for observations with any leading axes."""
        features = torso_input(self.torso, self.observation_space, obs)
        return apply_dense(weights["head"], self.torso.apply(weights["torso"], features))
