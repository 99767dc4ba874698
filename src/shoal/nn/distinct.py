"""A function of rows, computed once for each distinct row.

Instructions repeat: all steps of an episode have the same one, and a level has few. With the 512 samples of a minibatch
and 12 instructions of 18 words, a gradient of the encoder takes an eleventh of the time if each is encoded once, with
64 instructions a sixth; if all 512 differ, it takes 1.4 times as long, because the backward pass computes the forward
pass again (`python benchmarks/instructions.py`).

Axes: N rows, K rows at a time, L integers of a row, H numbers of a result.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

AT_ONCE = 32  # K
Rows = Integer[Array, "N L"]
Function = Callable[[Any, Integer[Array, "K L"]], Float[Array, "K H"]]


class Groups(NamedTuple):
    """The equal rows of an array. Rows are padded to a multiple of `AT_ONCE`."""

    rows: Integer[Array, "padded L"]  # one of each group, those of the first `count` groups
    count: Int[Array, ""]
    group: Int[Array, "N"]  # of each row


def of_distinct(function: Function, weights: Any, rows: Rows) -> Float[Array, "N H"]:
    """function(weights, rows), where each row of the result depends on the same row of `rows` alone.

    It can be differentiated once with respect to `weights`, in reverse mode.
    """
    result: Any = _of_distinct(function, weights, rows)
    return result


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _of_distinct(function: Function, weights: Any, rows: Rows) -> Array:
    return _forward(function, weights, rows)[0]


def _forward(function: Function, weights: Any, rows: Rows) -> tuple[Array, Any]:
    groups = _groups(rows)
    result = jax.eval_shape(function, weights, groups.rows)

    def more(trip: Array, results: Array) -> Array:
        piece = function(weights, _piece(groups.rows, trip))
        return jax.lax.dynamic_update_slice_in_dim(results, piece, trip * AT_ONCE, axis=0)

    results = _trips(groups.count, more, jnp.zeros(result.shape, result.dtype))
    return results[groups.group], (weights, groups)


def _backward(function: Function, kept: tuple[Any, Groups], gradient: Float[Array, "N H"]) -> tuple[Any, None]:
    weights, groups = kept
    of_groups = jax.ops.segment_sum(gradient, groups.group, len(groups.rows))

    def more(trip: Array, total: Any) -> Any:
        pull = jax.vjp(lambda weights: function(weights, _piece(groups.rows, trip)), weights)[1]
        return jax.tree.map(jnp.add, total, pull(_piece(of_groups, trip))[0])

    return _trips(groups.count, more, jax.tree.map(jnp.zeros_like, weights)), None


_of_distinct.defvjp(_forward, _backward)


def _trips(count: Array, more: Callable[[Array, Any], Any], first: Any) -> Any:
    """more(trip, result so far) for as many trips as `count` groups need."""

    def step(state: tuple[Array, Any]) -> tuple[Array, Any]:
        return state[0] + 1, more(*state)

    return jax.lax.while_loop(lambda state: state[0] * AT_ONCE < count, step, (jnp.int32(0), first))[1]


def _piece(array: Array, trip: Array) -> Array:
    return jax.lax.dynamic_slice_in_dim(array, trip * AT_ONCE, AT_ONCE)


def _groups(rows: Rows) -> Groups:
    """Find equal rows by sorting one number for each; if two different rows have the same one, all are groups."""
    n = len(rows)
    number, order = jax.lax.sort_key_val(_number(rows), jnp.arange(n))
    place = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), number[1:] != number[:-1]]), dtype=jnp.int32)
    group = jnp.zeros(n, jnp.int32).at[order].set(place)
    member = jnp.zeros(n, jnp.int32).at[place].set(order.astype(jnp.int32))
    is_found = (rows[member[group]] == rows).all()
    each = jnp.arange(n, dtype=jnp.int32)
    member, group = jnp.where(is_found, member, each), jnp.where(is_found, group, each)
    return Groups(rows[jnp.pad(member, (0, -n % AT_ONCE))], jnp.where(is_found, place[-1] + 1, n), group)


def _number(rows: Rows) -> Array:
    """A number [N] of 32 bits for each row, which different rows seldom share."""
    factors = np.random.default_rng(0).integers(2**32, size=(1, rows.shape[-1]), dtype=np.uint32) | 1
    return (rows.astype(jnp.uint32) * factors).sum(axis=-1, dtype=jnp.uint32)
