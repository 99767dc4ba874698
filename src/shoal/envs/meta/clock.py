"""How much of an episode has passed, for worlds that show it."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.struct import Number


def elapsed(time: Int[Array, ""], max_steps: Number | None) -> Float[Array, ""]:
    """The share of the time limit that is used up, from 0 to 1; 0 where there is no limit."""
    if max_steps is None:
        return jnp.zeros((), jnp.float32)
    return jnp.clip(time.astype(jnp.float32) / jnp.asarray(max_steps, jnp.float32), 0.0, 1.0)
