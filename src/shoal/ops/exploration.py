"""Choosing among valued actions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import Key
from shoal.core.struct import Number


def greedy(q_values: Float[Array, "*axes A"], mask: Bool[Array, "*axes A"] | None = None) -> Int[Array, "*axes"]:
    """The best action that is allowed; the first of equals."""
    return jnp.argmax(allowed(q_values, mask), axis=-1).astype(jnp.int32)


def allowed(q_values: Float[Array, "*axes A"], mask: Bool[Array, "*axes A"] | None) -> Float[Array, "*axes A"]:
    """Values with those of forbidden actions at minus infinity."""
    return q_values if mask is None else jnp.where(mask, q_values, -jnp.inf)


def draw_dice(key: Key, shape: tuple[int, ...], actions: int) -> Float[Array, "*axes dice"]:
    """The chance in `shape` choices of `epsilon_greedy`: a coin, and a throw for each action. `key` is consumed."""
    return jax.random.uniform(key, (*shape, 1 + actions), jnp.float32)


def epsilon_greedy(
    q_values: Float[Array, "*axes A"], epsilon: Number, dice: Float[Array, "*axes dice"], mask: Array | None = None
) -> Int[Array, "*axes"]:
    """The best action, or with probability `epsilon` a uniform one among those allowed."""
    return jnp.where(dice[..., 0] < epsilon, greedy(dice[..., 1:], mask), greedy(q_values, mask))
