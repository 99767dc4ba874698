"""Noise that lasts: exploration that goes on in one direction for a while."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.struct import Number
from shoal.ops.returns import discounted_sum


def correlated(noise: Float[Array, "T E n"], correlation: Number) -> Float[Array, "T E n"]:
    """Independent unit noise made to resemble the step before: first-order autoregression of unit variance.

        x_0 = e_0,  x_t = correlation x_{t-1} + sqrt(1 - correlation^2) e_t

    Every call begins anew, and nothing is known here of episodes: noise goes on from the end of one into the next.

    Source: Hollenstein et al. 2024, for exploration.
    """
    fresh = noise * jnp.sqrt(1 - correlation**2)
    fresh = fresh.at[0].set(noise[0])
    decay = jnp.full((noise.shape[0],), correlation, noise.dtype)
    summed = jax.vmap(jax.vmap(discounted_sum, (1, None), 1), (2, None), 2)(fresh[::-1], decay)
    return summed[::-1]
