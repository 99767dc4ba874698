"""Loops of a few trips, such as those inside environments, in the form that suits the device (`core/form.py`).

On a CPU they are compiled loops, because XLA would otherwise compute the values of a trip again for each value that
depends on them. On an accelerator each trip of a loop costs kernel launches, and straight-line code is faster.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core import form

MOST_TRIPS = 32  # straight-line code of so many trips; a longer loop stays a loop, each trip of which does so many


def short_scan(
    body: Callable[[Any, Any], tuple[Any, Any]], start: Any, xs: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """`jax.lax.scan(body, start, xs)`; straight-line code if the form unrolls short loops."""
    trips = jax.tree.leaves(xs)[0].shape[0]
    unroll = min(trips, MOST_TRIPS) if form.current().unroll_short_loops else 1
    return jax.lax.scan(body, start, xs, reverse=reverse, unroll=max(unroll, 1))


def short_repeat(trips: int, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """`jax.lax.fori_loop(0, trips, body, start)`; straight-line code if the form unrolls short loops."""
    unroll = min(trips, MOST_TRIPS) if form.current().unroll_short_loops and trips > 0 else None
    return jax.lax.fori_loop(0, trips, body, start, unroll=unroll)


def short_map(body: Callable[[Any], Any], xs: Any) -> Any:
    """The results of `body` for each entry of `xs`, stacked; one batched call if the form unrolls short loops."""
    return jax.vmap(body)(xs) if form.current().unroll_short_loops else jax.lax.map(body, xs)


def short_sum(numbers: Int[Array, "n"]) -> Int[Array, ""]:
    """The sum of a few integers; one expression, which needs no kernel of its own, if the form unrolls short loops."""
    if form.current().unroll_short_loops:
        return functools.reduce(operator.add, numbers)
    return jnp.sum(numbers, dtype=numbers.dtype)
