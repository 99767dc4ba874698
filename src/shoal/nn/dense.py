"""Dense layers as dicts of arrays, used for the heads of agents."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from shoal.core.keys import Key
from shoal.nn.initializers import orthogonal

Dense = dict[str, Array]


def init_dense(key: Key, rows: int, columns: int, scale: float) -> Dense:
    """Initial weights of a layer from `rows` inputs to `columns` outputs. `key` is consumed.

    The kernel is orthogonal times `scale`, the bias 0.
    """
    return {"kernel": orthogonal(scale)(key, (rows, columns)), "bias": jnp.zeros((columns,), jnp.float32)}


def apply_dense(layer: Dense, x: Float[Array, "*axes n"]) -> Float[Array, "*axes m"]:
    """x @ kernel + bias, with any leading axes."""
    y = x @ layer["kernel"]
    return y + along_last_axis(layer["bias"], y.ndim)


def along_last_axis(vector: Float[Array, "n"], axes: int) -> Float[Array, "*ones n"]:
    """A vector with so many axes, all but the last of size 1."""
    return vector.reshape((1,) * (axes - 1) + (-1,))


def look_up(table: Float[Array, "n m"], numbers: Integer[Array, "*axes"]) -> Float[Array, "*axes m"]:
    """The rows of a table with these numbers, which must exist: the product of one-hot numbers and the table."""
    return table.at[numbers.astype(jnp.int32)].get(mode="promise_in_bounds")
