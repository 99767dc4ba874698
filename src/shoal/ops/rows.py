"""Arithmetic on the values of all actions in one state, where each value is a number of its own.

For small numbers of actions in a hot loop on a CPU: under `vmap` each number becomes a vector over the members, where
an array would be reduced over a short last axis, which is a slow loop.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Scalar = Float[Array, ""]
Row = Sequence[Scalar]  # -inf where an action is not allowed


def choose(row: Row, explores: Bool[Array, ""], lot: Scalar) -> Int[Array, ""]:
    """One of the best actions, or when exploring one of all that are allowed, each as likely as the others.

    `lot`, uniform in [0, 1) with 24 bits, says which; 0 is the first.
    """
    best, running, until = best_of(row), jnp.int32(0), []
    for value in row:
        running = running + ((value == best) | (explores & (value > -jnp.inf))).astype(jnp.int32)
        until.append(running)
    rank = (lot * running.astype(jnp.float32)).astype(jnp.int32)  # below `running`: lot <= 1 - 2^-24
    return sum((n <= rank).astype(jnp.int32) for n in until[:-1]) + jnp.int32(0)


def pick(row: Row, action: Int[Array, ""]) -> Scalar:
    """The value of one action."""
    return functools.reduce(lambda found, a: jnp.where(action == a, row[a], found), range(1, len(row)), row[0])


def best_of(row: Row) -> Scalar:
    """The largest value."""
    return functools.reduce(jnp.maximum, row)


def mean_of(row: Row) -> Scalar:
    """The mean over the actions that are allowed."""
    return _mean_where([value > -jnp.inf for value in row], row)


def mean_where_best(row: Row, other: Row) -> Scalar:
    """The mean of other values over the actions that are best in a row."""
    best = best_of(row)
    return _mean_where([value == best for value in row], other)


def allowed(row: Row, mask: Bool[Array, "A"] | None) -> Row:
    """The values of the allowed actions, -inf for the others."""
    return row if mask is None else [jnp.where(mask[a], value, -jnp.inf) for a, value in enumerate(row)]


def with_change(row: Row, action: Int[Array, ""], new: Scalar) -> Row:
    """The values with that of one action changed; an action that there is not changes none."""
    return [jnp.where(action == a, new, value) for a, value in enumerate(row)]


def one_of(rows: Sequence[Row], is_second: Bool[Array, ""] | None) -> Row:
    """The first row or the second; None: there is only one."""
    if is_second is None:
        return rows[0]
    return [jnp.where(is_second, b, a) for a, b in zip(*rows, strict=True)]


def sum_of(rows: Sequence[Row]) -> Row:
    """The sums of one row or several."""
    return [functools.reduce(jnp.add, values) for values in zip(*rows, strict=True)]


def _mean_where(flags: Sequence[Bool[Array, ""]], row: Row) -> Scalar:
    chosen = [jnp.where(flag, value, 0) for flag, value in zip(flags, row, strict=True)]
    count = [flag.astype(jnp.float32) for flag in flags]
    return functools.reduce(jnp.add, chosen) / functools.reduce(jnp.add, count)
