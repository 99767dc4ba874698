"""Priorities of the samples in a replay buffer, and sampling in proportion to them.

Instead of a sum tree there are two levels: the N priorities are divided into about sqrt(N) blocks, and the sum of each
block is stored. Sampling searches among the block sums, then within one block. A change writes one priority and
computes the sum of its block again. No operation goes through the whole buffer.
Source: Schaul et al. 2016, "Prioritized experience replay", section 3.3 (proportional variant).
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Buffer
from shoal.core.keys import Key
from shoal.core.struct import Number, struct


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

    def sample(self, key: Key, count: int, used: Number | None = None) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
        """Stratified sampling: (`count` indices, their probabilities). `key` is consumed.

        The cumulative distribution is divided into `count` equal strata, and one sample is taken from each. With
        `used`, which may be traced, there are `used` strata, and each of the first `used` samples takes one.
        """
        # Sums are rounded. Blocks and samples of priority 0 must not be taken because of a rounding error.
        ends = jax.lax.cummax(jnp.where(self.block > 0, jnp.cumsum(self.block), 0))
        total = ends[-1]
        strata = jnp.float32(count) if used is None else jnp.clip(jnp.round(used), 1, count)
        stratum = jnp.arange(count, dtype=jnp.float32) % strata
        quantile = (stratum + jax.random.uniform(key, (count,), jnp.float32)) / strata
        target = jnp.minimum(quantile, 1 - 1e-6) * total
        block = jnp.minimum(jnp.searchsorted(ends, target, side="right"), len(self.block) - 1).astype(jnp.int32)
        row = self.leaf.at[block].get(mode="promise_in_bounds")
        within = jnp.cumsum(row, axis=-1)
        # By rounding the rest may exceed the sum of the block: then take its last sample of positive priority.
        rest = jnp.clip(target - (ends[block] - self.block[block]), 0, within[:, -1] * (1 - 1e-6))
        column = jnp.argmax((within > rest[:, None]) & (row > 0), axis=-1).astype(jnp.int32)
        index = block * self.leaf.shape[1] + column
        probability = jnp.take_along_axis(row, column[:, None], axis=1)[:, 0] / total
        return index, probability
