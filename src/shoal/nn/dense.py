"""Dense layers as plain dicts of arrays: the heads of agents."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.nn.initializers import orthogonal

Dense = dict[str, Array]


def init_dense(key: Key, rows: int, columns: int, scale: float) -> Dense:
    """Orthogonal weights times `scale`, zero biases. `key` is consumed."""
    return {"kernel": orthogonal(scale)(key, (rows, columns)), "bias": jnp.zeros((columns,), jnp.float32)}


def apply_dense(layer: Dense, x: Float[Array, "*axes n"]) -> Float[Array, "*axes m"]:
    """x W + b."""
    y = x @ layer["kernel"]
    return y + layer["bias"].reshape((1,) * (y.ndim - 1) + (-1,))
