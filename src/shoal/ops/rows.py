"""Arithmetic on the Q-values of all actions in one state, given as a list of scalars (a row) instead of an array.

For small numbers of actions in a hot loop on a CPU: under `vmap` each scalar becomes a vector over the members. With an
array, XLA would reduce over a short last axis, which is a slow loop.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Scalar = Float[Array, ""]
Row = Sequence[Scalar]  # -inf where an action is not allowed


def epsilon_greedy(row: Row, explores: Bool[Array, ""], uniform: Scalar) -> Int[Array, ""]:
    """A uniformly random one of the best actions; when exploring, of all allowed actions.

    `uniform`, in [0, 1) with 24 random bits, selects the action; 0 selects the first candidate.
    """
    best, count, counts = best_of(row), jnp.int32(0), []  # counts: candidates among the actions up to each
    for value in row:
        count = count + ((value == best) | (explores & (value > -jnp.inf))).astype(jnp.int32)
        counts.append(count)
    rank = (uniform * count.astype(jnp.float32)).astype(jnp.int32)  # less than `count`: uniform <= 1 - 2^-24
    return sum((n <= rank).astype(jnp.int32) for n in counts[:-1]) + jnp.int32(0)


def pick(row: Row, action: Int[Array, ""]) -> Scalar:
    """The Q-value of one action."""
    return functools.reduce(lambda found, a: jnp.where(action == a, row[a], found), range(1, len(row)), row[0])


def best_of(row: Row) -> Scalar:
    """The largest Q-value."""
    return functools.reduce(jnp.maximum, row)


def mean_of(row: Row) -> Scalar:
    """The mean Q-value of the allowed actions."""
    return _mean_where([value > -jnp.inf for value in row], row)


def mean_where_best(row: Row, other: Row) -> Scalar:
    """The mean of the Q-values in `other` over the actions that are best in `row`."""
    best = best_of(row)
    return _mean_where([value == best for value in row], other)


def allowed(row: Row, mask: Bool[Array, "A"] | None) -> Row:
    """The Q-values of the allowed actions, -inf for the others. `mask=None` allows all."""
    return row if mask is None else [jnp.where(mask[a], value, -jnp.inf) for a, value in enumerate(row)]


def with_change(row: Row, action: Int[Array, ""], new: Scalar) -> Row:
    """The Q-values with that of one action replaced; an `action` outside 0 to A - 1 replaces none."""
    return [jnp.where(action == a, new, value) for a, value in enumerate(row)]


def one_of(rows: Sequence[Row], is_second: Bool[Array, ""] | None) -> Row:
    """The first of two rows, or the second if `is_second`. With None there must be one row, which is returned."""
    if is_second is None:
        return rows[0]
    return [jnp.where(is_second, b, a) for a, b in zip(*rows, strict=True)]


def sum_of(rows: Sequence[Row]) -> Row:
    """The elementwise sum of one or more rows."""
    return [functools.reduce(jnp.add, values) for values in zip(*rows, strict=True)]


def _mean_where(flags: Sequence[Bool[Array, ""]], row: Row) -> Scalar:
    chosen = [jnp.where(flag, value, 0) for flag, value in zip(flags, row, strict=True)]
    count = [flag.astype(jnp.float32) for flag in flags]
    return functools.reduce(jnp.add, chosen) / functools.reduce(jnp.add, count)
