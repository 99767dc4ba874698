"""An actor and a critic on torsos: shared or separate. Weights are plain nested dicts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.spaces import Box, Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.distributions import Distribution, distribution, head_size
from shoal.nn.torso_choice import torso_input

Key = jax.Array
Weights = Any


class ActorCritic(NamedTuple):
    """The networks of a policy-gradient agent: torsos, a policy head of small weights, a value head."""

    torso: Any
    observation_space: Space
    action_space: Space
    shared: bool = False

    def init(self, key: Key, obs: Any) -> Weights:
        """Fresh weights, from one observation (any leading axes). `key` is consumed."""
        k_torsos, k_policy, k_value = jax.random.split(key, 3)
        features = self.features(obs)
        names = ("actor",) if self.shared else ("actor", "critic")
        # Drawn together: half the program for the compiler to read.
        torsos = jax.vmap(lambda k: self.torso.init(k, features))(jax.random.split(k_torsos, len(names)))
        torsos = {name: jax.tree.map(lambda x, i=i: x[i], torsos) for i, name in enumerate(names)}
        width = jax.eval_shape(self.torso.apply, torsos["actor"], features).shape[-1]
        weights = {
            **torsos,
            "policy": init_dense(k_policy, width, head_size(self.action_space), scale=0.01),
            "value": init_dense(k_value, width, 1, scale=1.0),
        }
        if isinstance(self.action_space, Box):
            weights["log_std"] = jnp.zeros(self.action_space.shape)
        return weights

    def features(self, obs: Any) -> Any:
        """What the torso reads of an observation."""
        return torso_input(self.torso, self.observation_space, obs)

    def policy(self, weights: Weights, obs: Any) -> Distribution:
        """The action distribution."""
        return self._policy_head(weights, self.torso.apply(weights["actor"], self.features(obs)))

    def value(self, weights: Weights, obs: Any) -> Float[Array, "..."]:
        """The state value."""
        torso = weights["actor"] if self.shared else weights["critic"]
        return self._value_head(weights, self.torso.apply(torso, self.features(obs)))

    def both(self, weights: Weights, obs: Any) -> tuple[Distribution, Float[Array, "..."]]:
        """Policy and value; a shared torso runs once."""
        hidden = self.torso.apply(weights["actor"], self.features(obs))
        value = self._value_head(weights, hidden) if self.shared else self.value(weights, obs)
        return self._policy_head(weights, hidden), value

    def _policy_head(self, weights: Weights, hidden: Array) -> Distribution:
        head = apply_dense(weights["policy"], hidden)
        return distribution(self.action_space, head, weights.get("log_std"))

    def _value_head(self, weights: Weights, hidden: Array) -> Array:
        return apply_dense(weights["value"], hidden)[..., 0]
