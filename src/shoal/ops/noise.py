"""Noise that is correlated over time, for exploration that continues in one direction for several steps."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.struct import Number
from shoal.ops.returns import discounted_sum


def correlated(noise: Float[Array, "T E n"], correlation: Number) -> Float[Array, "T E n"]:
    """Turn independent unit noise e into a first-order autoregressive process x of unit variance.

        x_0 = e_0,  x_t = correlation x_{t-1} + sqrt(1 - correlation^2) e_t

    Every call starts a new process. It ignores the ends of episodes: the correlation continues into the next one.

    Source: Hollenstein et al. 2024, for exploration.
    """
    innovation = noise * jnp.sqrt(1 - correlation**2)
    innovation = innovation.at[0].set(noise[0])
    decay = jnp.full((noise.shape[0],), correlation, noise.dtype)
    summed = jax.vmap(jax.vmap(discounted_sum, (1, None), 1), (2, None), 2)(innovation[::-1], decay)
    return summed[::-1]
