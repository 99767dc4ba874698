"""The agent's view: the square of cells in front of it, without the cells that walls and shut doors hide.

Source: MiniGrid 3.2.0 `minigrid_env.py` (`gen_obs_grid`) and `core/grid.py` (`process_vis`). The nested loops over
cells of the reference are bit operations on whole rows here.

The functions below accept any trailing axes `*n`. On a CPU `partial_view` moves the axis of a `vmap` there. The
innermost axis is then the environments, which fill the vector registers of a processor; a row of seven cells would not.
The two short scans keep XLA from computing the cells again for each value that depends on them. On an accelerator the
axis of a `vmap` stays the first, and neighboring threads read neighboring cells of one grid.
"""

import functools
from collections.abc import Callable
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, UInt8, UInt16

from shoal.core.form import current
from shoal.grid.actions import heading
from shoal.grid.cells import MASKS, SHIFTS, UNSEEN, WALL, Kinds, is_transparent
from shoal.ops.loops import short_map

WIDEST = 31  # largest side of a view in cells, because a row is stored in the bits of a 32-bit integer


def check_view_size(size: int) -> None:
    """Raise ValueError for a size that is even, below 3 or above 31."""
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
    kinds: Kinds = (),
) -> UInt8[Array, "{size} {size} 3"]:
    """The `size` x `size` cells in front of an agent, [column, row, (object, color, state)] as in MiniGrid.

    The agent is in the middle of the last row and looks up. Its own cell shows the object that it carries. Cells
    outside the grid are walls; cells that it cannot see are zeros. `kinds` are those that the level declares.
    """
    cells_of = visible_cells(size, see_through_walls, current().envs_last_views, kinds)
    return channels(cells_of(grid, x, y, direction, carrying))


def channels(cells: UInt16[Array, "*n"]) -> UInt8[Array, "*n 3"]:
    """The object, color and state of packed cells, on a new last axis."""
    aside = (1,) * cells.ndim + (3,)
    return (cells[..., None] >> SHIFTS.reshape(aside) & MASKS.reshape(aside)).astype(jnp.uint8)


@functools.cache
def visible_cells(
    size: int, see_through_walls: bool, envs_last: bool, kinds: Kinds
) -> Callable[..., UInt16[Array, "V V"]]:
    """A function (grid, x, y, direction, carrying) -> packed cells of the view, 0 where the agent cannot see."""

    def cells_of(grid, x, y, direction, carrying):
        cells = _square(grid, x, y, direction, size)
        if not see_through_walls:
            cells = jnp.where(visible(is_transparent(cells, kinds)), cells, UNSEEN)
        own_cell = np.zeros((size, size) + (1,) * x.ndim, bool)
        own_cell[size // 2, size - 1] = True
        return jnp.where(own_cell, carrying[None, None], cells)

    if not envs_last:
        return cells_of
    batched = custom_vmap(cells_of)

    @batched.def_vmap
    def batch_last(axis_size, is_batched, *inputs):
        full = (
            x if has_axis else jnp.broadcast_to(x, (axis_size, *x.shape))
            for x, has_axis in zip(inputs, is_batched, strict=True)
        )
        return jnp.moveaxis(cells_of(*full), -1, 0), True

    return batched


def visible(transparent: Bool[Array, "V V *n"]) -> Bool[Array, "V V *n"]:
    """Which cells of a view the agent sees, from the mask of the transparent cells.

    The algorithm spreads light from the agent's cell, row by row upwards. In a row, light goes through transparent
    cells, first to the right, then to the left. From a lit transparent cell it also goes to the cell above, and to the
    cell diagonally above in the direction of the sweep. A row is an integer with a bit for each cell; the leftmost cell
    is the lowest bit.
    """
    size = transparent.shape[0]
    rows = functools.reduce(or_, (transparent[i].astype(jnp.int32) << i for i in range(size)))
    leftmost, rightmost, everywhere = 1, 1 << size - 1, (1 << size) - 1

    def light_row(lit, clear):
        after_right = lit | _flood(lit & clear, clear, 1, size) << 1 & everywhere
        after_both = after_right | _flood(after_right & clear, clear, -1, size) >> 1
        rightward, leftward = after_right & clear & ~rightmost, after_both & clear & ~leftmost
        return rightward | rightward << 1 | leftward | leftward >> 1, after_both

    start = jnp.full_like(rows[0], 1 << size // 2)
    if current().unroll_short_loops:
        return _bits_of_words(_lit_words(light_row, start, rows), size)
    _, lit_rows = jax.lax.scan(light_row, start, rows, reverse=True)
    columns = np.arange(size, dtype=np.int32).reshape(size, *(1,) * lit_rows.ndim)
    return lit_rows[None] >> columns & 1 == 1


def _lit_words(light_row: Callable, lit: Int[Array, "*n"], rows: Int[Array, "V *n"]) -> list[Int[Array, "*n"]]:
    # The lit rows from the first to the last, as many in each 32-bit integer as fit. On a GPU one thread computes all
    # rows of an environment; if it had to store them as an array [V], XLA would compute each row from the start.
    size = rows.shape[0]
    in_a_word = 32 // size
    words = [jnp.zeros_like(lit)] * -(-size // in_a_word)
    for row in reversed(range(size)):
        lit, seen = light_row(lit, rows[row])
        words[row // in_a_word] = words[row // in_a_word] | seen << row % in_a_word * size
    return words


def _bits_of_words(words: list[Int[Array, "*n"]], size: int) -> Bool[Array, "V V *n"]:
    in_a_word, ndim = 32 // size, words[0].ndim
    columns, rows = (np.arange(size, dtype=np.int32).reshape(*side, *(1,) * ndim) for side in ((size, 1), (1, size)))
    word = words[-1][None, None]
    for number, earlier in reversed([*enumerate(words[:-1])]):
        word = jnp.where(rows < (number + 1) * in_a_word, earlier[None, None], word)
    return word >> (rows % in_a_word * size + columns) & 1 == 1


def _flood(lit: Int[Array, "*n"], clear: Int[Array, "*n"], way: int, size: int) -> Int[Array, "*n"]:
    # Spread light through transparent (clear) cells in log2(size) rounds, as a Kogge-Stone adder spreads carries: by 1,
    # 2, 4, ... cells. `way` is 1 for towards higher bits (to the right), -1 for towards lower bits.
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

    def one_column(aside):
        column = (x - aside * dy)[None] + ahead * dx[None]
        row = (y + aside * dx)[None] + ahead * dy[None]
        is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        index = start[None] + jnp.where(is_inside, column * height + row, 0)
        return jnp.where(is_inside, cells.at[index].get(mode="promise_in_bounds"), WALL)

    return short_map(one_column, jnp.arange(size, dtype=jnp.int32) - size // 2)
