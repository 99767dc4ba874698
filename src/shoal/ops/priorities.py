"""Priorities of the samples in a replay ring: drawn from in proportion, without a tree.

Two levels are enough: sums over blocks of about the square root of all samples. A draw is a search among the sums and
one in a block; a change writes a sample and adds its block up anew. Nothing ever walks over the whole buffer.
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
    """One number for each sample, by the index of the ring; 0 is never drawn. Make one with `zero`."""

    leaf: Float[Array, "blocks W"]
    block: Float[Array, "blocks"]  # sums of the rows of `leaf`
    largest: Float[Array, ""]  # so far; what a new sample gets

    @classmethod
    def zero(cls, size: int) -> "Priorities":
        """For `size` samples, none of which can be drawn yet."""
        width = 2 ** math.ceil(math.log2(max(size, 2)) / 2)
        blocks = math.ceil(size / width)
        return cls(jnp.zeros((blocks, width), jnp.float32), jnp.zeros(blocks, jnp.float32), jnp.float32(1))

    def set(self, index: Int[Array, "B"], value: Float[Array, "B"]) -> "Priorities":
        """With new priorities at some samples; where one is named twice, either value."""
        blocks, width = self.leaf.shape
        leaf = self.leaf.reshape(blocks * width).at[index].set(value, mode="promise_in_bounds").reshape(blocks, width)
        touched = index // width
        sums = jnp.sum(leaf.at[touched].get(mode="promise_in_bounds"), axis=-1)
        return self.replace(leaf=leaf, block=self.block.at[touched].set(sums, mode="promise_in_bounds"))

    def learn(
        self, index: Int[Array, "B"], error: Float[Array, "B"], exponent: Number, used: Bool[Array, "B"]
    ) -> "Priorities":
        """(|error| + 1e-6)^exponent at the samples that are used, at least one of them; and the largest so far."""
        value, first = (jnp.abs(error) + 1e-6) ** exponent, jnp.argmax(used)
        index, value = jnp.where(used, index, index[first]), jnp.where(used, value, value[first])
        return self.set(index, value).replace(largest=jnp.maximum(self.largest, jnp.max(value)))

    def draw(self, key: Key, count: int, used: Number | None = None) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
        """(indices, their probabilities): stratified, one from each of equal shares. `key` is consumed.

        There are `count` shares; or `used`, a traced number, of which the first `used` samples take one each.
        """
        # Sums are rounded: a block of nothing must not seem to have a share, nor a sample of nothing in its block.
        ends = jax.lax.cummax(jnp.where(self.block > 0, jnp.cumsum(self.block), 0))
        total = ends[-1]
        shares = jnp.float32(count) if used is None else jnp.clip(jnp.round(used), 1, count)
        order = jnp.arange(count, dtype=jnp.float32) % shares
        share = (order + jax.random.uniform(key, (count,), jnp.float32)) / shares
        target = jnp.minimum(share, 1 - 1e-6) * total
        block = jnp.minimum(jnp.searchsorted(ends, target, side="right"), len(self.block) - 1).astype(jnp.int32)
        row = self.leaf.at[block].get(mode="promise_in_bounds")
        within = jnp.cumsum(row, axis=-1)
        # Rounding may leave more than the block has: then its last sample of any weight.
        rest = jnp.clip(target - (ends[block] - self.block[block]), 0, within[:, -1] * (1 - 1e-6))
        place = jnp.argmax((within > rest[:, None]) & (row > 0), axis=-1).astype(jnp.int32)
        index = block * self.leaf.shape[1] + place
        probability = jnp.take_along_axis(row, place[:, None], axis=1)[:, 0] / total
        return index, probability
