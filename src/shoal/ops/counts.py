"""Counts of observations: a hash table of fixed size that takes many observations at once, without a sort.

Every observation has a fingerprint of 64 bits, which the table stores. So two observations share a count only if their
fingerprints are equal:

- where a space has so few values that they can be numbered in two 32-bit words, the fingerprint is that number, and no
  two observations share it;
- otherwise it is two 32-bit hashes of the observation. Among n different observations two have the same with a
  probability of about n^2 / 2^64: 5e-8 for a million.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from shoal.core.agent import Buffer
from shoal.core.mix32 import words
from shoal.core.spaces import Box, Space, choice_sizes, leaf_pairs, leaf_spaces
from shoal.core.struct import struct

PROBES = 16  # slots at which an observation is looked for; in a table that is half full, 1.5 of 100,000 find none
LARGEST = 2**32 - 1  # below it, a number plus 1 fits one word; 0 stands for a free slot
# Digits of pi: the keys of two hashes, and the one from which every position gets a constant of its own.
KEYS = ((0x9216D5D9, 0x8979FB1B), (0xD1310BA6, 0x98DFB5AC))
POSITIONS = (0x2FFD72DB, 0xD01ADFB7)


def is_countable(space: Space) -> bool:
    """Whether all parts of an observation are whole numbers or booleans, so that it can be equal to an earlier one."""
    return all(not np.issubdtype(leaf.dtype, np.floating) for leaf in leaf_spaces(space))


def is_numbered(space: Space) -> bool:
    """Whether the fingerprint of an observation is its number, so that no two observations share a count."""
    return _split(_sizes(space)) is not None


def fingerprints(space: Space, obs: object) -> UInt32[Array, "*axes 2"]:
    """The fingerprint of observations with any leading axes: two words, of which the first is not 0."""
    split = _split(_sizes(space))
    if split is None:
        return _hashes(space, obs)
    columns = [column for leaf, x in leaf_pairs(space, obs) for column in _columns(leaf, x)]
    axes = columns[0].shape if columns else jax.tree.leaves(obs)[0].shape
    kept = [(size, column) for size, column in zip(_sizes(space), columns, strict=True) if size > 1]
    first, second = (_number(part, axes) for part in (kept[:split], kept[split:]))
    return jnp.stack([first + jnp.uint32(1), second], axis=-1)


@struct
class CountTable(Buffer):
    """How often each of at most S observations was seen. S is a power of two. Make one with `empty`."""

    words: UInt32[Array, "2 S"]  # the fingerprint in each slot; the first word is 0 where the slot is free
    count: Int[Array, "S"]

    @classmethod
    def empty(cls, slots: int) -> "CountTable":
        """A table for at most `slots` observations, a power of two."""
        return cls(jnp.zeros((2, slots), jnp.uint32), jnp.zeros((slots,), jnp.int32))

    def add(self, fingerprint: UInt32[Array, "N 2"]) -> tuple["CountTable", Int[Array, "N"]]:
        """The table after N observations, and how often each of them was seen by then, all N included.

        The count is 0 for an observation that finds no free slot: the table is then nearly full.
        """
        first, second = fingerprint[:, 0], fingerprint[:, 1]
        size = self.count.shape[0]
        start, stride = _hash(KEYS[0], first, second), _hash(KEYS[1], first, second) | jnp.uint32(1)

        def probe(i: Array, loop: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            # Observations without a slot look at their next one. If it is free, one of them takes it: that with the
            # largest fingerprint, and with it all that are equal to it.
            kept_first, kept_second, slot = loop
            here = ((start + i.astype(jnp.uint32) * stride) % jnp.uint32(size)).astype(jnp.int32)
            is_looking = slot == size
            takes = is_looking & (kept_first[here] == 0)
            kept_first = kept_first.at[jnp.where(takes, here, size)].max(first, mode="drop")
            takes &= kept_first[here] == first
            kept_second = kept_second.at[jnp.where(takes, here, size)].max(second, mode="drop")
            is_here = is_looking & (kept_first[here] == first) & (kept_second[here] == second)
            return kept_first, kept_second, jnp.where(is_here, here, slot)

        nowhere = jnp.full(first.shape, size, jnp.int32)
        kept_first, kept_second, slot = jax.lax.fori_loop(0, PROBES, probe, (*self.words, nowhere))
        count = self.count.at[slot].add(1, mode="drop")
        seen = count.at[slot].get(mode="fill", fill_value=0)
        return CountTable(jnp.stack([kept_first, kept_second]), count), seen

    def share_used(self) -> Float[Array, ""]:
        """The share of the slots that hold an observation."""
        return jnp.mean((self.words[0] != 0).astype(jnp.float32))


def _sizes(space: Space) -> list[int]:
    # The number of values of each number of an observation.
    sizes: list[int] = []
    for leaf in leaf_spaces(space):
        if isinstance(leaf, Box):
            low, high = (np.ravel(side).astype(object) for side in leaf.bounds())
            sizes += [int(b) - int(a) + 1 for a, b in zip(low, high, strict=True)]
        else:
            sizes += choice_sizes(leaf)
    return sizes


def _split(sizes: list[int]) -> int | None:
    # How many of the sizes above 1 one word can number together, if a second word can number the others; else None.
    sizes = [size for size in sizes if size > 1]
    products = [math.prod(sizes[:n]) for n in range(min(len(sizes), 32) + 1)]
    first = sum(product < LARGEST for product in products) - 1
    is_enough = len(sizes) - first <= 32 and math.prod(sizes[first:]) <= 2**32
    return first if is_enough else None


def _columns(leaf: Space, x: Array) -> list[Array]:
    # The numbers of an array, each counted from 0.
    flat = _flat_words(leaf, x)
    lows = np.ravel(leaf.bounds()[0]).tolist() if isinstance(leaf, Box) else [0] * flat.shape[-1]
    return [flat[..., i] - jnp.uint32(int(low) % 2**32) for i, low in enumerate(lows)]


def _number(columns: list[tuple[int, Array]], axes: tuple[int, ...]) -> UInt32[Array, "*axes"]:
    # The number of a combination of values; the last one changes fastest.
    number = jnp.zeros(axes, jnp.uint32)
    for size, column in columns:
        number = number * jnp.uint32(size % 2**32) + column
    return number


def _hashes(space: Space, obs: object) -> UInt32[Array, "*axes 2"]:
    # The sum over all numbers of a hash of the number and its position.
    flat = jnp.concatenate([_flat_words(leaf, x) for leaf, x in leaf_pairs(space, obs)], axis=-1)
    position = _hash(POSITIONS, jnp.arange(flat.shape[-1], dtype=jnp.uint32), jnp.zeros((), jnp.uint32))
    position = position.reshape((1,) * (flat.ndim - 1) + (-1,))
    first, second = (jnp.sum(_hash(key, flat, position), axis=-1, dtype=jnp.uint32) for key in KEYS)
    return jnp.stack([jnp.maximum(first, 1), second], axis=-1)


def _hash(key: tuple[int, int], x: UInt32[Array, "..."], purpose: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    return words(jnp.array(key, jnp.uint32), x, purpose)


def _flat_words(leaf: Space, x: Array) -> UInt32[Array, "*axes D"]:
    # The numbers of an array, as words. A negative number -n is 2^32 - n.
    whole = x.astype(jnp.int32) if jnp.issubdtype(x.dtype, jnp.signedinteger) else x
    return whole.astype(jnp.uint32).reshape(*x.shape[: x.ndim - len(leaf.shape)], -1)  # type: ignore[union-attr]  # a leaf
