"""A torso with one linear head: the network of a policy that stands by itself. Weights are plain nested dicts."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.torso_choice import torso_input

Weights = Any


class PolicyNetwork(NamedTuple):
    """Observations to `outputs` numbers, which an agent reads as the parameters of its policy."""

    torso: Any
    observation_space: Space
    outputs: int

    def init(self, key: Key, obs: Any) -> Weights:
        """Fresh weights, from observations with any leading axes; those of the head are small. `key` is consumed."""
        k_torso, k_head = jax.random.split(key)
        features = torso_input(self.torso, self.observation_space, obs)
        torso = self.torso.init(k_torso, features)
        width = jax.eval_shape(self.torso.apply, torso, features).shape[-1]
        return {"torso": torso, "head": init_dense(k_head, width, self.outputs, scale=0.01)}

    def __call__(self, weights: Weights, obs: Any) -> Float[Array, "*axes outputs"]:
        """What the head says."""
        features = torso_input(self.torso, self.observation_space, obs)
        return apply_dense(weights["head"], self.torso.apply(weights["torso"], features))
