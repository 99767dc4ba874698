"""Eight numbers of four bits in one word of 32 bits, computed with all at once.

Number i, counted from 0, is in bits 4 i to 4 i + 3. A flag word holds eight flags: flag i is bit 4 i. The docstring of
the package (`envs/minatar/__init__.py`, part 2) has an example.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

COUNT, BITS = 8, 4
ONES = np.uint32(0x11111111)  # the flag word in which all flags are set
FULL = np.uint32(15)

Word = UInt32[Array, ""]


def repeated(number: int) -> np.uint32:
    """The word that holds `number`, which is below 16, eight times."""
    return np.uint32(number * int(ONES))


def equals(word: Word, number: int) -> Word:
    """Flags of the numbers in `word` that equal `number`."""
    differs = word ^ repeated(number)
    differs = differs | differs >> 2
    return ~(differs | differs >> 1) & ONES


def mask_of(flags: Word) -> Word:
    """All four bits of each number whose flag is set."""
    return flags * FULL


def select(flags: Word, yes: Word, no: Word) -> Word:
    """For each number: the one of `yes` where its flag is set, the one of `no` elsewhere."""
    return no ^ ((no ^ yes) & mask_of(flags))


def hide_unflagged(flags: Word, columns: Word) -> Word:
    """The columns whose flag is set; the others become 15, a column that a board of ten columns does not have."""
    return columns | mask_of(~flags & ONES)


def flag_at(i: Int[Array, ""]) -> Word:
    """The flag word in which only flag `i` is set; no flag if `i` is not 0 to 7."""
    exists = (i >= 0) & (i < COUNT)
    return exists.astype(jnp.uint32) << jnp.where(exists, BITS * i, 0).astype(jnp.uint32)
