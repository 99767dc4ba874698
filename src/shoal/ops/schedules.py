"""Schedules that agents have themselves: quantities that change with the age of a member (the number of its updates).

Those that a user writes for any hyperparameter are in `core.schedules`.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.schedules import steps_taken
from shoal.core.struct import Number


def progress(age: Int[Array, ""], steps_per_update: int, horizon: Number, within: Any = 0) -> Float[Array, "*axes"]:
    """The fraction of `horizon` steps that are done. It is 0 if `horizon` is 0 (unknown): schedules then stay constant.

    `within` counts the steps done in the current update.
    """
    steps = steps_taken(age, steps_per_update, within)
    return jnp.where(horizon > 0, steps / jnp.maximum(horizon, 1.0), 0.0)


def linear(start: Number, end: Number, progress: Float[Array, "*axes"], over: Number = 1.0) -> Float[Array, "*axes"]:
    """Linear interpolation from `start` at progress 0 to `end` at progress `over`, then constant.

    If `over` is 0, it is `end` from the beginning.
    """
    fraction = jnp.where(over > 0, progress / jnp.maximum(over, 1e-9), 1.0)
    return start + (end - start) * jnp.clip(fraction, 0, 1)


def whole(number: Number) -> Int[Array, ""]:
    """A count rounded to the nearest integer (halves to even). Traced hyperparameters are floats, also counts."""
    return jnp.round(number).astype(jnp.int32)


def passed(age: Int[Array, ""], steps_per_update: int, every: Number) -> Int[Array, ""]:
    """The number of multiples of `every` steps that the update at this age passes.

        floor((age + 1) s / e) - floor(age s / e)    with s = steps_per_update, e = every (rounded)

    To avoid overflow, age and s are reduced modulo e first. The result is exact at any age if e * (s mod e) is below
    2^32, and otherwise for the first 2^32 steps.
    """
    period = jnp.maximum(whole(every), 1)
    unsigned, remainder = period.astype(jnp.uint32), (steps_per_update % period).astype(jnp.uint32)
    before = (age % period).astype(jnp.uint32) * remainder
    return steps_per_update // period + ((before + remainder) // unsigned - before // unsigned).astype(jnp.int32)
