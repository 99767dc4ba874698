"""Choose actions from Q-values: greedily, or epsilon-greedily."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import Key
from shoal.core.struct import Number


def greedy(q_values: Float[Array, "*axes A"], mask: Bool[Array, "*axes A"] | None = None) -> Int[Array, "*axes"]:
    """The allowed action with the largest Q-value; the first of equals."""
    return jnp.argmax(allowed(q_values, mask), axis=-1).astype(jnp.int32)


def allowed(q_values: Float[Array, "*axes A"], mask: Bool[Array, "*axes A"] | None) -> Float[Array, "*axes A"]:
    """The Q-values, with minus infinity for forbidden actions. `mask=None` allows all."""
    return q_values if mask is None else jnp.where(mask, q_values, -jnp.inf)


def sample_uniforms(key: Key, shape: tuple[int, ...], actions: int) -> Float[Array, "*axes uniforms"]:
    """The uniform random numbers for `shape` calls of `epsilon_greedy`. `key` is consumed.

    The first of the 1 + A numbers decides whether to explore; the others choose a random action.
    """
    return jax.random.uniform(key, (*shape, 1 + actions), jnp.float32)


def epsilon_greedy(
    q_values: Float[Array, "*axes A"],
    epsilon: Number,
    uniforms: Float[Array, "*axes uniforms"],
    mask: Array | None = None,
) -> Int[Array, "*axes"]:
    """The best allowed action, or with probability `epsilon` a uniformly random allowed one.

    `uniforms` comes from `sample_uniforms`.
    """
    return jnp.where(uniforms[..., 0] < epsilon, greedy(uniforms[..., 1:], mask), greedy(q_values, mask))
