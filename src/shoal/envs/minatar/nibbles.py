"""Eight small numbers in one 32-bit word, four bits each, computed with all at once.

A flag word has a bit for each number, the lowest of its four. `i` counts from 0.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

COUNT, BITS = 8, 4
ONES = np.uint32(0x11111111)  # the flag word that is set everywhere
FULL = np.uint32(15)

Word = UInt32[Array, ""]


def everywhere(number: int) -> np.uint32:
    """The same number, below 16, eight times."""
    return np.uint32(number * int(ONES))


def equals(word: Word, number: int) -> Word:
    """Flags of the numbers that equal this one."""
    differs = word ^ everywhere(number)
    differs = differs | differs >> 2
    return ~(differs | differs >> 1) & ONES


def spread(flags: Word) -> Word:
    """All four bits of each number that is flagged: a mask to select with."""
    return flags * FULL


def select(flags: Word, yes: Word, no: Word) -> Word:
    """Number by number: `yes` where flagged, `no` elsewhere."""
    return no ^ ((no ^ yes) & spread(flags))


def only(flags: Word, columns: Word) -> Word:
    """The columns that are flagged; the others become 15, which no board of ten has."""
    return columns | spread(~flags & ONES)


def flag_at(i: Int[Array, ""]) -> Word:
    """The flag word of the i-th number alone; of none for an `i` that does not exist."""
    exists = (i >= 0) & (i < COUNT)
    return exists.astype(jnp.uint32) << jnp.where(exists, BITS * i, 0).astype(jnp.uint32)
