"""The time as a fraction of the time limit, for observations."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.struct import Number


def elapsed(time: Int[Array, ""], max_steps: Number | None) -> Float[Array, ""]:
    """`time` / `max_steps`, clipped to [0, 1]; 0 without a time limit."""
    if max_steps is None:
        return jnp.zeros((), jnp.float32)
    return jnp.clip(time.astype(jnp.float32) / jnp.asarray(max_steps, jnp.float32), 0.0, 1.0)
