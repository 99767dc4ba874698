"""Arithmetic on the gradient of all weights as one flat vector: a few fused kernels instead of ten for every layer."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.struct import Number


def clip_norm(gradient: Float[Array, "P"], largest: Number) -> Float[Array, "P"]:
    """A gradient of all weights, scaled down to norm `largest` where it is longer.

    One scalar factor, which XLA fuses into Adam; optax's own divides every number in a pass of its own.
    """
    return gradient * jnp.minimum(1.0, largest / jnp.maximum(jnp.linalg.norm(gradient), 1e-12))
