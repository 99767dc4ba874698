"""What small grids share: how large they may be, and a step that borders stop."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt8

LONGEST = 255  # rows or columns: positions are bytes


def moved(place: UInt8[Array, ""], onward: Bool[Array, ""], back: Bool[Array, ""], size: int) -> UInt8[Array, ""]:
    """One cell on, one back, or neither, within 0 to size - 1."""
    forth = (onward & (place < size - 1)).astype(jnp.uint8)
    return place + forth - (back & (place > 0)).astype(jnp.uint8)
