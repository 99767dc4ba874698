"""Weight initialisers that run anywhere, named as in the papers.

The orthogonal one avoids LAPACK: batched QR factorisations can deadlock jaxlib 0.10 on CPU, and a population sets up
thousands of matrices at once.
"""

import jax
import jax.numpy as jnp
from flax.linen import initializers as flax_initializers
from jaxtyping import Array, Float

from shoal.core.keys import Key


def orthogonal(scale: float = 1.0):
    """An initialiser whose matrices have orthonormal rows or columns, times `scale` (Saxe et al. 2014).

    Takes (key, shape, dtype) like flax's; a kernel of more than two axes is treated as [everything else, out].
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
    """Orthonormal columns that span those of a tall matrix, to float32 accuracy.

    Each column is projected twice: "twice is enough" (Giraud, Langou and Rozloznik 2005).
    """
    n, k = matrix.shape

    def add_column(i, q):
        # Columns from i on are still zero in q, so they project nothing.
        column = jax.lax.dynamic_slice_in_dim(matrix, i, 1, axis=1)
        column = column - q @ (q.T @ column)
        column = column - q @ (q.T @ column)
        column = column / jnp.sqrt(jnp.sum(column**2))
        return jax.lax.dynamic_update_slice_in_dim(q, column, i, axis=1)

    return jax.lax.fori_loop(0, k, add_column, jnp.zeros((n, k), matrix.dtype))


INITIALIZERS = {
    "orthogonal": orthogonal(2**0.5),  # Saxe et al. 2014; the gain is that of rectified units
    "glorot_uniform": flax_initializers.glorot_uniform(),  # Glorot and Bengio 2010
    "he_normal": flax_initializers.he_normal(),  # He et al. 2015
    "lecun_normal": flax_initializers.lecun_normal(),  # LeCun et al. 1998
}
