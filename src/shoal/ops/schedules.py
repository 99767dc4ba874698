"""What changes with the age of a member: how far along it is, and numbers that follow."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.struct import Number


def steps_taken(age: Int[Array, ""], steps_per_update: int, within: Any = 0) -> Float[Array, "*axes"]:
    """Environment steps before the update at this age, and `within` it. In float32: exact to 2^24, and never wraps."""
    return age.astype(jnp.float32) * steps_per_update + jnp.asarray(within, jnp.float32)


def progress(age: Int[Array, ""], steps_per_update: int, horizon: Number, within: Any = 0) -> Float[Array, "*axes"]:
    """The share of `horizon` steps that is behind; 0 where no horizon is known (0), so that nothing changes yet."""
    done = steps_taken(age, steps_per_update, within)
    return jnp.where(horizon > 0, done / jnp.maximum(horizon, 1.0), 0.0)


def linear(start: Number, end: Number, progress: Float[Array, "*axes"], over: Number = 1.0) -> Float[Array, "*axes"]:
    """From `start` at progress 0 to `end` at progress `over`, and `end` from then on: at once where `over` is 0."""
    share = jnp.where(over > 0, progress / jnp.maximum(over, 1e-9), 1.0)
    return start + (end - start) * jnp.clip(share, 0, 1)


def whole(number: Number) -> Int[Array, ""]:
    """The nearest whole number of a count, which is traced as a float like any other number. Halves go to even."""
    return jnp.round(number).astype(jnp.int32)


def passed(age: Int[Array, ""], steps_per_update: int, every: Number) -> Int[Array, ""]:
    """How many multiples of `every` the update at this age reaches.

    floor((age + 1) s / e) - floor(age s / e), reduced modulo e first: exact at any age where e times s mod e is below
    2^32, and otherwise for the first 2^32 steps.
    """
    period = jnp.maximum(whole(every), 1)
    wide, surplus = period.astype(jnp.uint32), (steps_per_update % period).astype(jnp.uint32)
    before = (age % period).astype(jnp.uint32) * surplus
    return steps_per_update // period + ((before + surplus) // wide - before // wide).astype(jnp.int32)
