"""Up to 32 things, youngest first, whose numbers are kept bit by bit: the thing in slot s has bit s of every word.

A number of each thing is a tuple of words, lowest bits first; a set of things is one word. So a few instructions
compute with all things at once, whether they exist or not.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

SLOTS = 32
Set = UInt32[Array, ""]
Numbers = tuple[UInt32[Array, ""], ...]


def numbers(bits: int) -> Numbers:
    """A number of so many bits for each thing: 0."""
    return (jnp.uint32(0),) * bits


def pushed(word: Set, youngest: Bool[Array, ""] | UInt32[Array, ""]) -> Set:
    """All things one slot older, and a new one in the first."""
    return word << 1 | youngest.astype(jnp.uint32)


def pushed_number(words: Numbers, youngest: Int[Array, ""]) -> Numbers:
    """The same for a number of each."""
    return tuple(pushed(word, (youngest >> bit & 1).astype(jnp.uint32)) for bit, word in enumerate(words))


def where_equal(words: Numbers, number: Int[Array, "..."] | np.ndarray | int) -> UInt32[Array, "..."]:
    """The things whose number is this one; for an array of numbers, an array of sets."""
    number = jnp.asarray(number, jnp.int32).astype(jnp.uint32)
    differs = jnp.uint32(0)
    for bit, word in enumerate(words):
        differs = differs | word ^ jnp.uint32(0) - (number >> bit & 1)
    return ~differs


def written(words: Numbers, those: Set, number: Int[Array, ""] | int) -> Numbers:
    """The number of those things replaced."""
    number = jnp.asarray(number, jnp.int32).astype(jnp.uint32)
    return tuple(word & ~those | those & jnp.uint32(0) - (number >> bit & 1) for bit, word in enumerate(words))


def stepped(words: Numbers, up: Set, down: Set) -> Numbers:
    """The number of some things increased by one, of others decreased."""
    after = []
    for word in words:
        after.append(word ^ (up | down))
        up, down = up & word, down & ~word
    return tuple(after)


def youngest(things: Set) -> Set:
    """The one of a set that came last, if there is one."""
    return things & (~things + 1)


def oldest(things: Set) -> Set:
    """The one of a set that came first, if there is one."""
    place = jnp.uint32(SLOTS - 1) - jnp.minimum(jax.lax.clz(things), SLOTS - 1)
    return things & jnp.uint32(1) << place
