"""Laying out a level: walls, and things put down at random in the cells of a mask.

MiniGrid draws a position and draws again while it does not suit. That is a uniform draw from the cells that suit, which
is what `choose` makes in one step. Where nothing suits, MiniGrid raises an error or goes on for ever. Here functions
raise ValueError where that can be seen, outside of compiled code; `grid/checks.py` looks at a level in this way.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.keys import Key
from shoal.core.struct import is_concrete
from shoal.grid.actions import at
from shoal.grid.cells import COLORS, EMPTY, WALL, Cell


def empty_room(width: int, height: int) -> UInt16[np.ndarray, "W H"]:
    """Nothing, with a wall around it."""
    return walled(np.full((width, height), EMPTY, np.uint16), 0, 0, width, height)


def walled(grid: UInt16[np.ndarray, "W H"], x: int, y: int, width: int, height: int) -> UInt16[np.ndarray, "W H"]:
    """The grid with the outline of a rectangle as wall."""
    grid = grid.copy()
    grid[x : x + width, [y, y + height - 1]] = WALL
    grid[[x, x + width - 1], y : y + height] = WALL
    return grid


def rectangle(
    shape: tuple[int, int],
    x: Int[Array, ""] | int,
    y: Int[Array, ""] | int,
    width: Int[Array, ""] | int,
    height: Int[Array, ""] | int,
) -> Bool[Array, "W H"]:
    """Which cells lie in a rectangle; what juts out of the grid is cut off."""
    columns, rows = np.arange(shape[0], dtype=np.int32)[:, None], np.arange(shape[1], dtype=np.int32)[None, :]
    return jnp.asarray((columns >= x) & (columns < x + width) & (rows >= y) & (rows < y + height))


def column(shape: tuple[int, int], x: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """Which cells lie in a column."""
    return rectangle(shape, x, 0, 1, shape[1])


def row(shape: tuple[int, int], y: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """Which cells lie in a row."""
    return rectangle(shape, 0, y, shape[0], 1)


def choose(key: Key, mask: Bool[Array, "W H"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """A cell (x, y) of a mask, each as likely as any other. `key` is consumed.

    Raises ValueError for an empty mask; compiled code cannot raise, and takes the cell (0, 0).
    """
    if is_concrete(mask) and not np.any(mask):
        raise ValueError("no cell of the mask is left to choose from: ask for fewer things, or for a larger grid.")
    numbers = mask.size
    width = max(1, (numbers - 1).bit_length())
    # The highest lot wins; a cell's own number stands in its low bits, so that one maximum finds both.
    lots = jax.random.bits(key, (numbers,), jnp.uint32) >> width << width | np.arange(numbers, dtype=np.uint32)
    winner = jnp.max(jnp.where(mask.reshape(-1), lots, 0)) & np.uint32((1 << width) - 1)
    index = winner.astype(jnp.int32)
    return index // mask.shape[1], index % mask.shape[1]


def place(
    key: Key, grid: UInt16[Array, "W H"], new: Cell, where: Bool[Array, "W H"] | None = None
) -> tuple[UInt16[Array, "W H"], Int[Array, ""], Int[Array, ""]]:
    """The grid with a thing put down in an empty cell (of `where`), and its position. `key` is consumed.

    Raises ValueError where no such cell exists; in compiled code the grid then comes back as it was.
    """
    free = grid == EMPTY if where is None else (grid == EMPTY) & where
    x, y = choose(key, free)
    width, height = grid.shape
    return jnp.where(at((width, height), x, y) & free, new, grid), x, y


def place_each(
    key: Key, grid: UInt16[Array, "W H"], things: UInt16[Array, "n"], apart: int = 0
) -> tuple[UInt16[Array, "W H"], Int[Array, "n"], Int[Array, "n"]]:
    """The grid with things put down one after another in empty cells, and their positions. `key` is consumed.

    Each lies more than `apart` cells away, in x or in y, from those before it; one that finds no cell is left out, for
    the loop over things is compiled code.
    """
    width, height = grid.shape
    side = 2 * apart + 1

    def put(carry, given):
        grid, free = carry
        key, thing = given
        grid, x, y = place(key, grid, thing, free)
        return (grid, free & ~rectangle((width, height), x - apart, y - apart, side, side)), (x, y)

    start = (grid, jnp.ones((width, height), bool))
    (grid, _), (x, y) = jax.lax.scan(put, start, (jax.random.split(key, things.shape[0]), things))
    return grid, x, y


def distinct(key: Key, count: int, among: int) -> Int[Array, "count"]:
    """`count` different numbers below `among`, each order as likely as any other. `key` is consumed.

    Raises ValueError where there are not as many.
    """
    if count > among:
        raise ValueError(f"count={count} different numbers among={among} do not exist.")
    width = max(1, (among - 1).bit_length())
    # A number is the rank of its lot; the low bits are its place, so that no two lots are the same.
    lots = jax.random.bits(key, (among,), jnp.uint32) >> width << width | np.arange(among, dtype=np.uint32)
    return jnp.sum(lots[None, :] < lots[:count, None], axis=1, dtype=jnp.int32)


def between(key: Key, low: Array | int, high: Array | int, shape: tuple[int, ...] = ()) -> Int[Array, "*shape"]:
    """Whole numbers from `low` to below `high`, bounds that the level drew itself. `key` is consumed.

    Scales 24 random bits, where `jax.random.randint` divides twice by the bound: one number is likelier than another by
    (high - low) / 2^24 at most. For ranges of at most 256.
    """
    bits = jax.random.bits(key, shape, jnp.uint32) >> 8
    return low + (bits * jnp.asarray(high - low, jnp.uint32) >> 24).astype(jnp.int32)


def random_color(key: Key, shape: tuple[int, ...] = ()) -> Int[Array, "*shape"]:
    """Numbers of random colors. `key` is consumed."""
    return jax.random.randint(key, shape, 0, len(COLORS), jnp.int32)
