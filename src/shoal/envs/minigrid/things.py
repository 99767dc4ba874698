"""Keys, balls and boxes for levels that place several objects in a room."""

import jax.numpy as jnp
from jaxtyping import Array, UInt16

from shoal.core.keys import Key
from shoal.grid.cells import BALL, BOX, COLORS, KEY, with_color
from shoal.grid.layout import distinct

THINGS = (KEY, BALL, BOX)
MOST_THINGS = len(THINGS) * len(COLORS)  # of different kind or color


def different_things(key: Key, count: int) -> UInt16[Array, "count"]:
    """Sample `count` cells with a key, ball or box, no two of the same kind and color. `key` is consumed."""
    numbers = distinct(key, count, MOST_THINGS)
    return jnp.asarray(with_color(jnp.array(THINGS)[numbers // len(COLORS)], numbers % len(COLORS)))


def check_room(size: int, num_objects: int, *, alike: bool) -> None:
    """Raise ValueError if `num_objects` objects and an agent do not fit between the walls.

    `alike` says whether two objects may have the same kind and color.
    """
    if size < 4:
        raise ValueError(f"size={size} leaves no room for an object and the agent between the walls: at least 4.")
    cells = (size - 2) ** 2 - 1
    most = cells if alike else min(MOST_THINGS, cells)
    if not 1 <= num_objects <= most:
        how = "fit in" if alike else "fit in, no two of them alike"
        raise ValueError(f"num_objects={num_objects} with size={size}: from 1 to {most} {how}.")
