"""Weight initialisers, named as in the papers.

The orthogonal one does not use LAPACK: batched QR factorisations can deadlock jaxlib 0.10 on CPU, and a population
initializes thousands of matrices at once.
"""

import jax
import jax.numpy as jnp
from flax.linen import initializers as flax_initializers
from jaxtyping import Array, Float

from shoal.core.keys import Key


def orthogonal(scale: float = 1.0):
    """An initialiser of matrices with orthonormal rows or columns, times `scale` (Saxe et al. 2014).

    Like those of flax it takes (key, shape, dtype). A kernel with more than two axes is treated as a matrix
    [product of the other axes, last axis].
    """

    def init(key: Key, shape: tuple[int, ...], dtype=jnp.float32) -> Array:
        columns = shape[-1]
        rows = 1
        for size in shape[:-1]:
            rows *= size
        tall = jax.random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        q = gram_schmidt(tall)
        return (scale * (q if rows >= columns else q.T)).reshape(shape).astype(dtype)

    return init


def gram_schmidt(matrix: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Orthonormal columns that span the same space as the columns of a tall matrix, to float32 accuracy.

    Each column is orthogonalized twice: "twice is enough" (Giraud, Langou and Rozloznik 2005).
    """
    n, k = matrix.shape

    def add_column(i, q):
        # Columns of q from i on are still zero, so that the projection uses only the finished columns.
        column = jax.lax.dynamic_slice_in_dim(matrix, i, 1, axis=1)
        column = column - q @ (q.T @ column)
        column = column - q @ (q.T @ column)
        column = column / jnp.sqrt(jnp.sum(column**2))
        return jax.lax.dynamic_update_slice_in_dim(q, column, i, axis=1)

    return jax.lax.fori_loop(0, k, add_column, jnp.zeros((n, k), matrix.dtype))


INITIALIZERS = {
    "orthogonal": orthogonal(2**0.5),  # Saxe et al. 2014, with the gain for rectified units
    "glorot_uniform": flax_initializers.glorot_uniform(),  # Glorot and Bengio 2010
    "he_normal": flax_initializers.he_normal(),  # He et al. 2015
    "lecun_normal": flax_initializers.lecun_normal(),  # LeCun et al. 1998
}
