"""Bit-sliced numbers of up to 32 objects: the object in slot s owns bit s of every word. Slot 0 is the newest object.

A set of objects is one word (`SlotMask`). A number of each object is a tuple of words (`BitSliced`), lowest bit first.
A few instructions then compute with all objects at once. They also compute with free slots, whose results mean
nothing: combine them with the set of objects that exist. The docstring of the package (`envs/minatar/__init__.py`,
part 3) has an example.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

SLOTS = 32
SlotMask = UInt32[Array, ""]
BitSliced = tuple[UInt32[Array, ""], ...]


def zeros(bits: int) -> BitSliced:
    """The number 0 for each object, with room for numbers of so many bits."""
    return (jnp.uint32(0),) * bits


def push_flag(flags: SlotMask, newest: Bool[Array, ""] | UInt32[Array, ""]) -> SlotMask:
    """Move the flags of all objects up by one slot, and put that of the newest object into slot 0."""
    return flags << 1 | newest.astype(jnp.uint32)


def push_number(numbers: BitSliced, newest: Int[Array, ""]) -> BitSliced:
    """Move the numbers of all objects up by one slot, and put that of the newest object into slot 0."""
    return tuple(push_flag(word, (newest >> bit & 1).astype(jnp.uint32)) for bit, word in enumerate(numbers))


def where_equal(numbers: BitSliced, value: Int[Array, "..."] | np.ndarray | int) -> UInt32[Array, "..."]:
    """The set of objects whose number equals `value`; for an array of values, an array of sets."""
    value = jnp.asarray(value, jnp.int32).astype(jnp.uint32)
    differs = jnp.uint32(0)
    for bit, word in enumerate(numbers):
        differs = differs | word ^ jnp.uint32(0) - (value >> bit & 1)
    return ~differs


def write(numbers: BitSliced, objects: SlotMask, value: Int[Array, ""] | int) -> BitSliced:
    """Set the number of each object in `objects` to `value`."""
    value = jnp.asarray(value, jnp.int32).astype(jnp.uint32)
    return tuple(word & ~objects | objects & jnp.uint32(0) - (value >> bit & 1) for bit, word in enumerate(numbers))


def increment_decrement(numbers: BitSliced, up: SlotMask, down: SlotMask) -> BitSliced:
    """Add 1 to the numbers of the objects in `up`, and subtract 1 from those in `down`, modulo 2^bits."""
    changed = []
    for word in numbers:
        changed.append(word ^ (up | down))
        up, down = up & word, down & ~word
    return tuple(changed)


def newest(objects: SlotMask) -> SlotMask:
    """The newest object of a set, as a set of one; the empty set for an empty set."""
    return objects & (~objects + 1)


def oldest(objects: SlotMask) -> SlotMask:
    """The oldest object of a set, as a set of one; the empty set for an empty set."""
    slot = jnp.uint32(SLOTS - 1) - jnp.minimum(jax.lax.clz(objects), SLOTS - 1)
    return objects & jnp.uint32(1) << slot
