"""What an agent sees: the square in front of it, with what walls and shut doors hide left out.

Source: MiniGrid 3.2.0 `minigrid_env.py` (`gen_obs_grid`) and `core/grid.py` (`process_vis`), whose nested loops over
cells are bit operations on whole rows here.
"""

from functools import reduce
from operator import or_

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8, UInt16

from shoal.grid.actions import heading
from shoal.grid.cells import MASKS, SHIFTS, UNSEEN, WALL, Cell, is_transparent


def partial_view(
    grid: UInt16[Array, "W H"],
    x: Int[Array, ""],
    y: Int[Array, ""],
    direction: Int[Array, ""],
    carrying: UInt16[Array, ""],
    size: int,
    see_through_walls: bool,
) -> UInt8[Array, "size size 3"]:
    """The `size` x `size` cells in front of an agent, indexed [column, row, channel] as MiniGrid has it.

    The agent looks up from the middle of the last row. Its own cell shows what it carries. Cells outside the grid are
    walls; cells that it cannot see are zeros.
    """
    cells = _square(grid, x, y, direction, size)
    if not see_through_walls:
        cells = jnp.where(visible(is_transparent(cells)), cells, UNSEEN)
    return channels(jnp.where(_hand(size), carrying, cells))


def channels(cells: Cell) -> UInt8[Array, "*cells 3"]:
    """Object, color and state of cells, side by side."""
    return (jnp.asarray(cells)[..., None] >> SHIFTS & MASKS).astype(jnp.uint8)


def visible(transparent: Bool[Array, "V V"]) -> Bool[Array, "V V"]:
    """Which cells of a view an agent sees, given which of them it sees through.

    Light starts in the agent's cell and goes up row by row: sideways through transparent cells, first to the right,
    then to the left, and from a lit transparent cell to the cell above and to the one diagonally above in the direction
    of the sweep. A row is a number with a bit for each cell, the leftmost lowest.
    """
    size = transparent.shape[0]
    rows = reduce(or_, (transparent[i].astype(jnp.int32) << i for i in range(size)))
    all_cells, first, last = (1 << size) - 1, 1, 1 << size - 1
    lit = jnp.int32(1 << size // 2)
    seen = []
    for j in reversed(range(size)):
        clear = rows[j]
        right = lit | _flood(lit & clear, clear, 1) << 1 & all_cells
        left = right | _flood(right & clear, clear, -1) >> 1
        seen.append(left)
        rightward, leftward = right & clear & ~last, left & clear & ~first
        lit = rightward | rightward << 1 | leftward | leftward >> 1
    columns = jnp.stack(seen[::-1]) >> np.arange(size, dtype=np.int32)[:, None]
    return columns & 1 == 1


def _flood(lit: Int[Array, ""], clear: Int[Array, ""], way: int) -> Int[Array, ""]:
    # Kogge-Stone: light runs through 1, 2, 4, ... clear cells at a time.
    reach = 1
    while reach < 32:
        lit = lit | clear & _shift(lit, way * reach)
        clear = clear & _shift(clear, way * reach)
        reach *= 2
    return lit


def _shift(bits: Int[Array, ""], by: int) -> Int[Array, ""]:
    return bits << by if by > 0 else bits >> -by


def _square(
    grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""], direction: Int[Array, ""], size: int
) -> UInt16[Array, "V V"]:
    width, height = grid.shape
    ahead = np.arange(size - 1, -1, -1, dtype=np.int32)[None, :]
    aside = np.arange(size, dtype=np.int32)[:, None] - size // 2
    dx, dy = heading(direction)
    column = x + ahead * dx - aside * dy
    row = y + ahead * dy + aside * dx
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = jnp.where(is_inside, column * height + row, 0)
    return jnp.where(is_inside, grid.reshape(-1).at[index].get(mode="promise_in_bounds"), WALL)


def _hand(size: int) -> Bool[np.ndarray, "V V"]:
    where = np.zeros((size, size), bool)
    where[size // 2, size - 1] = True
    return where
