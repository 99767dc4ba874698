"""Random network distillation: how badly a network predicts the features of a random one says how new an input is.

Source: Burda, Edwards, Storkey and Klimov 2018, "Exploration by random network distillation", section 2.2.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Box, Space, leaf_pairs, zeros
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.features import flat_features
from shoal.nn.tiles import is_tiles, sizes_of

Weights = Any
GAIN = 2**0.5  # of the orthogonal initial weights before a relu


class Distillation(NamedTuple):
    """A fixed random target network with one hidden layer, and a predictor with two layers more, as in the paper.

    Both read vectors [..., D] and return `features` numbers. Hidden layers have `width` units and a relu.
    """

    width: int
    features: int

    def init(self, key: Key, size: int) -> tuple[Weights, Weights]:
        """(weights of the target, initial weights of the predictor), for vectors of `size` numbers. `key` is consumed.

        Weights are orthogonal times sqrt(2), as in the authors' code (github.com/openai/random-network-distillation).
        """
        k_target, k_predictor = jax.random.split(key)
        return self._init(k_target, size, hidden=1), self._init(k_predictor, size, hidden=3)

    def error(self, target: Weights, predictor: Weights, x: Float[Array, "*axes D"]) -> Float[Array, "*axes"]:
        """The mean squared difference of the predictor's features and the target's, which get no gradient."""
        wanted = jax.lax.stop_gradient(_apply(target, x))
        return jnp.mean((_apply(predictor, x) - wanted) ** 2, axis=-1)

    def _init(self, key: Key, size: int, hidden: int) -> list[dict[str, Array]]:
        sizes = [size, *[self.width] * hidden, self.features]
        keys = jax.random.split(key, len(sizes) - 1)
        return [init_dense(k, rows, columns, GAIN) for k, rows, columns in zip(keys, sizes, sizes[1:], strict=False)]


def distilled_size(space: Space) -> int:
    """The number D of numbers in `distilled_input`."""
    return jax.eval_shape(lambda: distilled_input(space, zeros(space))).shape[-1]


def distilled_input(space: Space, obs: Any) -> Float[Array, "*axes D"]:
    """An observation as one vector: choices and categories one-hot, arrays flattened, parts concatenated."""
    return jnp.concatenate([_one_hot(leaf, part) for leaf, part in leaf_pairs(space, obs)], axis=-1)


def _apply(layers: Weights, x: Array) -> Array:
    *hidden, last = layers
    for layer in hidden:
        x = jax.nn.relu(apply_dense(layer, x))
    return apply_dense(last, x)


def _one_hot(space: Any, part: Array) -> Array:
    if not (isinstance(space, Box) and is_tiles(space)):
        return flat_features(space, part)
    channels = [jax.nn.one_hot(part[..., i], n, dtype=jnp.float32) for i, n in enumerate(sizes_of(space))]
    joined = jnp.concatenate(channels, axis=-1)
    return joined.reshape(*joined.shape[:-3], math.prod(joined.shape[-3:]))
