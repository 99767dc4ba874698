"""Tables for tabular agents: the index of a countable observation, and flat arrays read and written at one index."""

from typing import Any

import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

from shoal.core.spaces import Box, Discrete, Space, choice_sizes, leaf_pairs, leaf_spaces


def choices(space: Space) -> tuple[int, ...] | None:
    """The sizes of all discrete components of a space, in order; None if the space contains a Box."""
    leaves = leaf_spaces(space)
    if any(isinstance(leaf, Box) for leaf in leaves):
        return None
    return tuple(size for leaf in leaves for size in choice_sizes(leaf))


def index_of(space: Space, obs: Any) -> Int[Array, "..."]:
    """The index of an element of the space: 0 to the product of its `choices` - 1, the first component changes slowest.

    `obs` may have leading axes. Elements of MultiDiscrete(rows, columns), for example, are counted row by row.
    """
    index = jnp.int32(0)
    for size, digit in zip(choices(space) or (), _digits(space, obs), strict=True):
        index = index * size + digit.astype(jnp.int32)
    return index


@custom_vmap
def read(table: Float[Array, "N"], index: Int[Array, ""]) -> Float[Array, ""]:
    """One entry of a table. Under `vmap` the tables of all members form one flat array, which XLA reads fastest."""
    return table.at[index].get(mode="promise_in_bounds")


@custom_vmap
def write(table: Float[Array, "N"], index: Int[Array, ""], value: Float[Array, ""]) -> Float[Array, "N"]:
    """The table with one entry changed. Under `vmap` the tables of all members form one flat array, as in `read`."""
    return table.at[index].set(value, mode="promise_in_bounds")


@read.def_vmap
def _read_many(members: int, batched: list[bool], table: Array, index: Array) -> tuple[Array, bool]:
    flat, indices = _as_one_table(members, batched[0], table, index)
    return flat.at[indices].get(mode="promise_in_bounds"), True


@write.def_vmap
def _write_many(members: int, batched: list[bool], table: Array, index: Array, value: Array) -> tuple[Array, bool]:
    flat, indices = _as_one_table(members, batched[0], table, index)
    value = jnp.broadcast_to(value, (members,))
    # Every member has its own part of the flat array, so that the indices are sorted and unique.
    flat = flat.at[indices].set(value, mode="promise_in_bounds", indices_are_sorted=True, unique_indices=True)
    return flat.reshape(members, -1), True


def _as_one_table(members: int, is_batched: bool, table: Array, index: Array) -> tuple[Array, Array]:
    if not is_batched:
        table = jnp.broadcast_to(table, (members, *table.shape))
    return table.reshape(-1), index + jnp.arange(members, dtype=jnp.int32) * table.shape[1]


def _digits(space: Space, obs: Any) -> list[Array]:
    digits: list[Array] = []
    for leaf, x in leaf_pairs(space, obs):
        digits += [x] if isinstance(leaf, Discrete) else [x[..., i] for i in range(x.shape[-1])]
    return digits
