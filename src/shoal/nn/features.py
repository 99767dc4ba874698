"""Convert observations of any space to the float arrays that networks read.

Observations keep their dtype everywhere else, so that rollouts and replay buffers stay small.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple, leaf_pairs


def is_image(space: Space) -> bool:
    """Whether the space is a Box of shape [H, W, C], whose elements count as one image."""
    return isinstance(space, Box) and len(space.shape) == 3


def image_features(space: Box, obs: Array) -> Float[Array, "... H W C"]:
    """An image as floats: uint8 is scaled to [0, 1]; booleans and normalized images keep their values."""
    return _scaled(space, obs)


def flat_features(space: Space, obs: Any) -> Float[Array, "... D"]:
    """An observation as one vector [D]: discrete components one-hot, arrays flattened, parts concatenated."""
    if isinstance(space, Discrete):
        return jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
    if isinstance(space, MultiDiscrete):
        if space.is_uniform:  # one operation instead of one per component
            return jax.nn.one_hot(obs, space.nvec[0], dtype=jnp.float32).reshape(*obs.shape[:-1], sum(space.nvec))
        vectors = [jax.nn.one_hot(obs[..., i], n, dtype=jnp.float32) for i, n in enumerate(space.nvec)]
        return jnp.concatenate(vectors, axis=-1)
    if isinstance(space, (Tuple, Dict)):
        return jnp.concatenate([flat_features(*part) for part in leaf_pairs(space, obs)], axis=-1)
    values = _scaled(space, obs)
    return values.reshape(*values.shape[: values.ndim - len(space.shape)], math.prod(space.shape))


def _scaled(space: Box, obs: Array) -> Array:
    values = obs.astype(jnp.float32)
    if np.dtype(obs.dtype) != np.uint8:
        return values
    return values * jnp.float32(1 / max(np.max(space.bounds()[1]), 1))
