"""For grid worlds: the largest size, and a move of one cell that borders stop."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt8

LONGEST = 255  # the largest number of rows or columns: positions are uint8


def moved(index: UInt8[Array, ""], onward: Bool[Array, ""], back: Bool[Array, ""], size: int) -> UInt8[Array, ""]:
    """`index` + 1 if `onward`, - 1 if `back`, else unchanged; it stays within 0, ..., size - 1."""
    forward = (onward & (index < size - 1)).astype(jnp.uint8)
    return index + forward - (back & (index > 0)).astype(jnp.uint8)
