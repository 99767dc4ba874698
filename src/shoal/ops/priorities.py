"""Priorities of the samples in a replay buffer, and sampling in proportion to them.

Instead of a sum tree there are two levels: the N priorities are divided into about sqrt(N) blocks, and the sum of each
block is stored. Sampling searches among the block sums, then within one block. A change writes one priority and
computes the sum of its block again. No operation goes through the whole buffer.
Source: Schaul et al. 2016, "Prioritized experience replay", section 3.3 (proportional variant).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Buffer
from shoal.core.keys import Key
from shoal.core.struct import Number, struct

MAX_SHARE = 0.9  # of the largest error of a sequence in its priority (Kapturowski et al. 2019, section 2.3: eta)


@struct
class Priorities(Buffer):
    """One priority for each index of a replay buffer. Samples of priority 0 are never taken. Make one with `zero`."""

    leaf: Float[Array, "blocks W"]  # the priorities, W to a block
    block: Float[Array, "blocks"]  # sums of the rows of `leaf`
    largest: Float[Array, ""]  # the largest priority so far, which new samples get

    @classmethod
    def zero(cls, size: int) -> "Priorities":
        """Priorities of 0 for `size` samples."""
        width = 2 ** math.ceil(math.log2(max(size, 2)) / 2)
        blocks = math.ceil(size / width)
        return cls(jnp.zeros((blocks, width), jnp.float32), jnp.zeros(blocks, jnp.float32), jnp.float32(1))

    def set(self, index: Int[Array, "B"], value: Float[Array, "B"]) -> "Priorities":
        """Change the priorities at some indices. If an index occurs twice, it gets one of the two values."""
        blocks, width = self.leaf.shape
        leaf = self.leaf.reshape(blocks * width).at[index].set(value, mode="promise_in_bounds").reshape(blocks, width)
        changed = index // width
        sums = jnp.sum(leaf.at[changed].get(mode="promise_in_bounds"), axis=-1)
        return self.replace(leaf=leaf, block=self.block.at[changed].set(sums, mode="promise_in_bounds"))

    def learn(
        self, index: Int[Array, "B"], error: Float[Array, "B"], exponent: Number, used: Bool[Array, "B"]
    ) -> "Priorities":
        """Set the priorities of samples to (|error| + 1e-6)^exponent, and update the largest priority.

        Only samples with `used` count; at least one must be used.
        """
        value, first = (jnp.abs(error) + 1e-6) ** exponent, jnp.argmax(used)
        index, value = jnp.where(used, index, index[first]), jnp.where(used, value, value[first])
        return self.set(index, value).replace(largest=jnp.maximum(self.largest, jnp.max(value)))

    def sample(
        self,
        key: Key,
        count: int,
        used: Number | None = None,
        within: "Window | None" = None,
    ) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
        """Stratified sampling: (`count` indices, their probabilities). `key` is consumed.

        The cumulative distribution is divided into `count` equal strata, and one sample is taken from each. With
        `used`, which may be traced, there are `used` strata, and each of the first `used` samples takes one. Indices
        that are not `within` a window count as if their priority were 0.
        """
        leaf, width = self.leaf, self.leaf.shape[1]
        sums = self.block if within is None else within.sums(leaf, self.block)
        # Sums are rounded. Blocks and samples of priority 0 must not be taken because of a rounding error.
        ends = jax.lax.cummax(jnp.where(sums > 0, jnp.cumsum(sums), 0))
        total = ends[-1]
        strata = jnp.float32(count) if used is None else jnp.clip(jnp.round(used), 1, count)
        stratum = jnp.arange(count, dtype=jnp.float32) % strata
        quantile = (stratum + jax.random.uniform(key, (count,), jnp.float32)) / strata
        target = jnp.minimum(quantile, 1 - 1e-6) * total
        block = jnp.minimum(jnp.searchsorted(ends, target, side="right"), len(sums) - 1).astype(jnp.int32)
        row = leaf.at[block].get(mode="promise_in_bounds")
        if within is not None:
            row = within.masked(row, block)
        cumulative = jnp.cumsum(row, axis=-1)
        # By rounding the rest may exceed the sum of the block: then take its last sample of positive priority.
        rest = jnp.clip(target - (ends[block] - sums[block]), 0, cumulative[:, -1] * (1 - 1e-6))
        column = jnp.argmax((cumulative > rest[:, None]) & (row > 0), axis=-1).astype(jnp.int32)
        index = block * width + column
        probability = jnp.take_along_axis(row, column[:, None], axis=1)[:, 0] / total
        return index, probability


class Window(NamedTuple):
    """The `length` indices from `first` on, in a ring of `size` indices. `first` and `length` may be traced."""

    first: Int[Array, ""]
    length: Int[Array, ""]
    size: int

    def masked(self, rows: Float[Array, "B W"], block: Int[Array, "B"]) -> Float[Array, "B W"]:
        """Rows of priorities, those of these blocks, with 0 outside of the window."""
        index = block[:, None] * rows.shape[1] + jnp.arange(rows.shape[1], dtype=jnp.int32)[None]
        return jnp.where(self._contains(index), rows, 0)

    def sums(self, leaf: Float[Array, "blocks W"], block: Float[Array, "blocks"]) -> Float[Array, "blocks"]:
        """The sums of all blocks without what lies outside of the window, from the sums of whole blocks.

        All blocks lie inside or outside, but those of the two ends, which are summed again.
        """
        width = leaf.shape[1]
        whole = jnp.where(self._contains(jnp.arange(len(block), dtype=jnp.int32) * width), block, 0)
        ends = jnp.stack([self.first, (self.first + self.length - 1) % self.size]) // width
        return whole.at[ends].set(jnp.sum(self.masked(leaf[ends], ends), axis=-1), mode="promise_in_bounds")

    def _contains(self, index: Int[Array, "*axes"]) -> Bool[Array, "*axes"]:
        return (index - self.first) % self.size < self.length


def error_of_sequences(error: Float[Array, "L B"]) -> Float[Array, "B"]:
    """The error of each sequence, from those of its L steps, for its priority: 0.9 x the largest + 0.1 x the mean.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section 2.3.
    """
    error = jnp.abs(error)
    return MAX_SHARE * jnp.max(error, axis=0) + (1 - MAX_SHARE) * jnp.mean(error, axis=0)
