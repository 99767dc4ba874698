"""Lay out a level: build walls, and place objects in random cells of a mask.

MiniGrid samples a position, and samples again while the position is not suitable. The result is a uniform sample of
the suitable cells, which `choose` takes in one step. If no cell is suitable, MiniGrid raises an error or loops for
ever. The functions here raise ValueError if they run outside of compiled code, as in `check_level` (`grid/checks.py`).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.keys import Key
from shoal.core.struct import is_concrete
from shoal.grid.actions import cell_mask
from shoal.grid.cells import COLORS, EMPTY, WALL, Cell
from shoal.ops.loops import short_scan

MOST_CELLS = 2**24


def empty_room(width: int, height: int) -> UInt16[np.ndarray, "W H"]:
    """An empty grid with a wall around it. Raises ValueError for more than MOST_CELLS."""
    if width * height > MOST_CELLS:
        raise ValueError(f"a grid of {width:,} x {height:,} cells is too large: it has at most {MOST_CELLS:,}.")
    return walled(np.full((width, height), EMPTY, np.uint16), 0, 0, width, height)


def walled(grid: UInt16[np.ndarray, "W H"], x: int, y: int, width: int, height: int) -> UInt16[np.ndarray, "W H"]:
    """The grid with a wall along the outline of a rectangle, whose upper left cell is (x, y)."""
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
    """The mask of the cells in a rectangle, whose upper left cell is (x, y); it may extend beyond the grid."""
    columns, rows = np.arange(shape[0], dtype=np.int32)[:, None], np.arange(shape[1], dtype=np.int32)[None, :]
    return jnp.asarray((columns >= x) & (columns < x + width) & (rows >= y) & (rows < y + height))


def column(shape: tuple[int, int], x: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """The mask of the cells in column `x`."""
    return rectangle(shape, x, 0, 1, shape[1])


def row(shape: tuple[int, int], y: Int[Array, ""] | int) -> Bool[Array, "W H"]:
    """The mask of the cells in row `y`."""
    return rectangle(shape, 0, y, shape[0], 1)


def choose(key: Key, mask: Bool[Array, "W H"], *, may_be_empty: bool = False) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Sample a cell (x, y) of a mask uniformly. `key` is consumed.

    Raises ValueError for an empty mask. Compiled code cannot raise an error and returns (0, 0), and so does other code
    with `may_be_empty`.
    """
    if not may_be_empty and is_concrete(mask) and not np.any(mask):
        raise ValueError("no cell of the mask is left to choose from: ask for fewer things, or for a larger grid.")
    size = mask.size
    width = max(1, (size - 1).bit_length())
    # Each cell gets random high bits and its own index as low bits. The cell with the largest number is chosen, and the
    # low bits of the maximum are its index.
    priorities = jax.random.bits(key, (size,), jnp.uint32) >> width << width | np.arange(size, dtype=np.uint32)
    chosen = jnp.max(jnp.where(mask.reshape(-1), priorities, 0)) & np.uint32((1 << width) - 1)
    index = chosen.astype(jnp.int32)
    return index // mask.shape[1], index % mask.shape[1]


def place(
    key: Key, grid: UInt16[Array, "W H"], new: Cell, where: Bool[Array, "W H"] | None = None
) -> tuple[UInt16[Array, "W H"], Int[Array, ""], Int[Array, ""]]:
    """Place an object in a random empty cell (of the mask `where`): (grid, x, y). `key` is consumed.

    Raises ValueError if there is no such cell; compiled code returns the grid unchanged.
    """
    free = grid == EMPTY if where is None else (grid == EMPTY) & where
    x, y = choose(key, free)
    width, height = grid.shape
    return jnp.where(cell_mask((width, height), x, y) & free, new, grid), x, y


def place_each(
    key: Key, grid: UInt16[Array, "W H"], things: UInt16[Array, "n"], apart: int = 0
) -> tuple[UInt16[Array, "W H"], Int[Array, "n"], Int[Array, "n"]]:
    """Place objects in random empty cells, one after another: (grid, their x, their y). `key` is consumed.

    Each object is more than `apart` cells away, in x or in y, from those before it. The loop is compiled, so an object
    for which there is no such cell is left out without an error.
    """
    width, height = grid.shape
    side = 2 * apart + 1

    def place_next(carry, key_and_thing):
        grid, free = carry
        key, thing = key_and_thing
        grid, x, y = place(key, grid, thing, free)
        return (grid, free & ~rectangle((width, height), x - apart, y - apart, side, side)), (x, y)

    start = (grid, jnp.ones((width, height), bool))
    (grid, _), (x, y) = short_scan(place_next, start, (jax.random.split(key, things.shape[0]), things))
    return grid, x, y


def distinct(key: Key, count: int, among: int) -> Int[Array, "count"]:
    """Sample `count` different integers from 0 to `among` - 1; all orders are equally likely. `key` is consumed.

    Raises ValueError if `count` is larger than `among`.
    """
    if count > among:
        raise ValueError(f"count={count} different numbers among={among} do not exist.")
    width = max(1, (among - 1).bit_length())
    # Each index gets random high bits and itself as low bits, so no two are equal. The results are the ranks.
    priorities = jax.random.bits(key, (among,), jnp.uint32) >> width << width | np.arange(among, dtype=np.uint32)
    return jnp.sum(priorities[None, :] < priorities[:count, None], axis=1, dtype=jnp.int32)


def between(key: Key, low: Array | int, high: Array | int, shape: tuple[int, ...] = ()) -> Int[Array, "*shape"]:
    """Sample integers from `low` to `high` - 1, for bounds that are traced, and at most 256 apart. `key` is consumed.

    `jax.random.randint` divides twice by the size of the range; this multiplies 24 random bits by it instead. The
    probabilities of two integers differ by at most a fraction (high - low) / 2^24.
    """
    bits = jax.random.bits(key, shape, jnp.uint32) >> 8
    return low + (bits * jnp.asarray(high - low, jnp.uint32) >> 24).astype(jnp.int32)


def random_color(key: Key, shape: tuple[int, ...] = ()) -> Int[Array, "*shape"]:
    """Sample colors uniformly, as indices of `COLORS`. `key` is consumed."""
    return jax.random.randint(key, shape, 0, len(COLORS), jnp.int32)
