"""An actor and a critic on torsos: shared or separate. Weights are plain nested dicts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.spaces import Box, Space
from shoal.nn.distributions import Distribution, distribution, head_size
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.initializers import orthogonal
from shoal.nn.tiles import TileNet, has_tiles
from shoal.nn.torsos import CNN, MLP

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
            "policy": _dense(k_policy, width, head_size(self.action_space), scale=0.01),
            "value": _dense(k_value, width, 1, scale=1.0),
        }
        if isinstance(self.action_space, Box):
            weights["log_std"] = jnp.zeros(self.action_space.shape)
        return weights

    def features(self, obs: Any) -> Any:
        """What the torso reads of an observation."""
        space = self.observation_space
        if isinstance(self.torso, TileNet):
            return obs
        if is_image(space) and not isinstance(self.torso, MLP):
            return image_features(space, obs)  # type: ignore[arg-type]  # is_image means a Box
        return flat_features(space, obs)

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
        head = _apply(weights["policy"], hidden)
        return distribution(self.action_space, head, weights.get("log_std"))

    def _value_head(self, weights: Weights, hidden: Array) -> Array:
        return _apply(weights["value"], hidden)[..., 0]


def default_torso(observation_space: Space, hidden: tuple[int, ...], activation: str) -> Any:
    """A TileNet where there are images of categories, a CNN for other images, an MLP for everything else."""
    if has_tiles(observation_space):
        return TileNet(observation_space, hidden, activation)
    return CNN() if is_image(observation_space) else MLP(hidden, activation)


def _dense(key: Key, rows: int, columns: int, scale: float) -> dict[str, Array]:
    return {"kernel": orthogonal(scale)(key, (rows, columns)), "bias": jnp.zeros((columns,))}


def _apply(layer: dict[str, Array], x: Array) -> Array:
    y = x @ layer["kernel"]
    return y + layer["bias"].reshape((1,) * (y.ndim - 1) + (-1,))
