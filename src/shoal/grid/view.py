"""What an agent sees: the square in front of it, with what walls and shut doors hide left out.

Source: MiniGrid 3.2.0 `minigrid_env.py` (`gen_obs_grid`) and `core/grid.py` (`process_vis`), whose nested loops over
cells are bit operations on whole rows here.

The functions below take any trailing axes `*n`, and `partial_view` puts the axis of a `vmap` there: cells of many
environments side by side fill a processor's vectors, rows of seven do not. Two short scans keep XLA on CPU from
computing the cells again for everything that reads them.
"""

import functools
from collections.abc import Callable
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, UInt8, UInt16

from shoal.grid.actions import heading
from shoal.grid.cells import MASKS, SHIFTS, UNSEEN, WALL, is_transparent

WIDEST = 31  # cells to a side of a view: its rows are bits of a 32-bit integer


def check_view_size(size: int) -> None:
    """Raise ValueError for a view that has no middle, or more columns than a row has bits."""
    if not 3 <= size <= WIDEST or size % 2 == 0:
        raise ValueError(f"view_size={size} must be odd, so that it has a middle, from 3 to {WIDEST}.")


def partial_view(
    grid: UInt16[Array, "W H"],
    x: Int[Array, ""],
    y: Int[Array, ""],
    direction: Int[Array, ""],
    carrying: UInt16[Array, ""],
    size: int,
    see_through_walls: bool,
) -> UInt8[Array, "{size} {size} 3"]:
    """The `size` x `size` cells in front of an agent, indexed [column, row, channel] as MiniGrid has it.

    The agent looks up from the middle of the last row. Its own cell shows what it carries. Cells outside the grid are
    walls; cells that it cannot see are zeros.
    """
    return channels(visible_cells(size, see_through_walls)(grid, x, y, direction, carrying))


def channels(cells: UInt16[Array, "*n"]) -> UInt8[Array, "*n 3"]:
    """Object, color and state of cells, side by side."""
    aside = (1,) * cells.ndim + (3,)
    return (cells[..., None] >> SHIFTS.reshape(aside) & MASKS.reshape(aside)).astype(jnp.uint8)


@functools.cache
def visible_cells(size: int, see_through_walls: bool) -> Callable[..., UInt16[Array, "V V"]]:
    """A function (grid, x, y, direction, carrying) -> packed cells that the agent sees, 0 where it does not see."""

    def look(grid, x, y, direction, carrying):
        cells = _square(grid, x, y, direction, size)
        if not see_through_walls:
            cells = jnp.where(visible(is_transparent(cells)), cells, UNSEEN)
        hand = np.zeros((size, size) + (1,) * x.ndim, bool)
        hand[size // 2, size - 1] = True
        return jnp.where(hand, carrying[None, None], cells)

    batched = custom_vmap(look)

    @batched.def_vmap
    def side_by_side(axis_size, is_batched, *inputs):
        full = (
            x if has else jnp.broadcast_to(x, (axis_size, *x.shape)) for x, has in zip(inputs, is_batched, strict=True)
        )
        return jnp.moveaxis(look(*full), -1, 0), True

    return batched


def visible(transparent: Bool[Array, "V V *n"]) -> Bool[Array, "V V *n"]:
    """Which cells of a view an agent sees, given which of them it sees through.

    Light starts in the agent's cell and goes up row by row: sideways through transparent cells, first to the right,
    then to the left, and from a lit transparent cell to the cell above and to the one diagonally above in the direction
    of the sweep. A row is a number with a bit for each cell, the leftmost lowest.
    """
    size = transparent.shape[0]
    rows = functools.reduce(or_, (transparent[i].astype(jnp.int32) << i for i in range(size)))
    leftmost, rightmost, everywhere = 1, 1 << size - 1, (1 << size) - 1

    def light_row(lit, clear):
        after_right = lit | _flood(lit & clear, clear, 1, size) << 1 & everywhere
        after_both = after_right | _flood(after_right & clear, clear, -1, size) >> 1
        rightward, leftward = after_right & clear & ~rightmost, after_both & clear & ~leftmost
        return rightward | rightward << 1 | leftward | leftward >> 1, after_both

    _, seen = jax.lax.scan(light_row, jnp.full_like(rows[0], 1 << size // 2), rows, reverse=True)
    columns = np.arange(size, dtype=np.int32).reshape(size, *(1,) * seen.ndim)
    return seen[None] >> columns & 1 == 1


def _flood(lit: Int[Array, "*n"], clear: Int[Array, "*n"], way: int, size: int) -> Int[Array, "*n"]:
    # Kogge-Stone: light runs through 1, 2, 4, ... clear cells at a time.
    reach = 1
    while reach < size:
        lit = lit | clear & _shift(lit, way * reach)
        clear = clear & _shift(clear, way * reach)
        reach *= 2
    return lit


def _shift(bits: Int[Array, "*n"], by: int) -> Int[Array, "*n"]:
    return bits << by if by > 0 else bits >> -by


def _square(
    grid: UInt16[Array, "*n W H"], x: Int[Array, "*n"], y: Int[Array, "*n"], direction: Int[Array, "*n"], size: int
) -> UInt16[Array, "V V *n"]:
    width, height = grid.shape[-2:]
    cells = grid.reshape(-1)
    start = jnp.arange(x.size, dtype=jnp.int32).reshape(x.shape) * (width * height)
    dx, dy = heading(direction)
    ahead = np.arange(size - 1, -1, -1, dtype=np.int32).reshape(size, *(1,) * x.ndim)

    def one_column(_, aside):
        column = (x - aside * dy)[None] + ahead * dx[None]
        row = (y + aside * dx)[None] + ahead * dy[None]
        is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        index = start[None] + jnp.where(is_inside, column * height + row, 0)
        return None, jnp.where(is_inside, cells.at[index].get(mode="promise_in_bounds"), WALL)

    return jax.lax.scan(one_column, None, jnp.arange(size, dtype=jnp.int32) - size // 2)[1]
