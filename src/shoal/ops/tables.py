"""Tables: the number of an observation that can be counted, and flat arrays that are read and written at one place."""

from typing import Any

import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

from shoal.core.spaces import Dict, Discrete, MultiDiscrete, Space, Tuple


def choices(space: Space) -> tuple[int, ...] | None:
    """How many values each choice of an element has, in order; None for a space that also holds numbers."""
    if isinstance(space, Discrete):
        return (space.n,)
    if isinstance(space, MultiDiscrete):
        return space.nvec
    if not isinstance(space, (Tuple, Dict)):
        return None
    spaces = space.spaces if isinstance(space, Tuple) else [part for _, part in space.spaces]
    parts = [choices(part) for part in spaces]
    return None if None in parts else tuple(n for part in parts if part for n in part)


def index_of(space: Space, obs: Any) -> Int[Array, "..."]:
    """The number of an element, 0 to the product of all `choices` - 1: its choices are digits, the first counts most.

    `obs` may have leading axes. A grid of MultiDiscrete(rows, columns) is counted row by row.
    """
    index = jnp.int32(0)
    for size, digit in zip(choices(space) or (), _digits(space, obs), strict=True):
        index = index * size + digit.astype(jnp.int32)
    return index


@custom_vmap
def read(table: Float[Array, "N"], place: Int[Array, ""]) -> Float[Array, ""]:
    """One entry. Under `vmap` the tables of all members are one flat array, which XLA reads as fast as it can."""
    return table.at[place].get(mode="promise_in_bounds")


@custom_vmap
def write(table: Float[Array, "N"], place: Int[Array, ""], value: Float[Array, ""]) -> Float[Array, "N"]:
    """The table with one entry changed. Under `vmap` likewise."""
    return table.at[place].set(value, mode="promise_in_bounds")


@read.def_vmap
def _read_many(members: int, batched: list[bool], table: Array, place: Array) -> tuple[Array, bool]:
    flat, places = _side_by_side(members, batched[0], table, place)
    return flat.at[places].get(mode="promise_in_bounds"), True


@write.def_vmap
def _write_many(members: int, batched: list[bool], table: Array, place: Array, value: Array) -> tuple[Array, bool]:
    flat, places = _side_by_side(members, batched[0], table, place)
    value = jnp.broadcast_to(value, (members,))
    # Every member has a part of its own, in order.
    flat = flat.at[places].set(value, mode="promise_in_bounds", indices_are_sorted=True, unique_indices=True)
    return flat.reshape(members, -1), True


def _side_by_side(members: int, is_batched: bool, table: Array, place: Array) -> tuple[Array, Array]:
    if not is_batched:
        table = jnp.broadcast_to(table, (members, *table.shape))
    return table.reshape(-1), place + jnp.arange(members, dtype=jnp.int32) * table.shape[1]


def _digits(space: Space, obs: Any) -> list[Array]:
    if isinstance(space, Discrete):
        return [obs]
    if isinstance(space, MultiDiscrete):
        return [obs[..., i] for i in range(len(space.nvec))]
    return [digit for part, x in _parts(space, obs) for digit in _digits(part, x)]


def _parts(space: Space, obs: Any) -> list[tuple[Space, Any]]:
    if isinstance(space, Dict):
        return [(part, obs[name]) for name, part in space.spaces]
    return list(zip(space.spaces, obs, strict=True)) if isinstance(space, Tuple) else []
