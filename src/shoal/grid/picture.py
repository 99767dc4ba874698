"""Pictures of a grid, composed of tiles inside `jit`; equal to those of MiniGrid 3.2.0 (`get_frame`) byte for byte."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8, UInt16

from shoal.grid.actions import cell_mask, heading
from shoal.grid.cells import COLOR_SHIFT, STATE_SHIFT
from shoal.grid.new_kinds import NewKind
from shoal.grid.tiles import AGENT_SHIFT, HIGHLIGHT_SHIFT, LOOKS_BITS, atlas


def whole_picture(
    grid: UInt16[Array, "W H"],
    x: Int[Array, ""],
    y: Int[Array, ""],
    direction: Int[Array, ""],
    view: UInt8[Array, "V V 3"] | None,
    size: int,
    kinds: tuple[NewKind, ...] = (),
) -> UInt8[Array, "_ _ 3"]:
    """The grid from above with the agent, in tiles of `size` pixels. The cells visible in `view` are highlighted."""
    width, height = grid.shape
    here = cell_mask((width, height), x, y)
    codes = _looks(grid) | jnp.where(here, (direction + 1).astype(jnp.uint16) << AGENT_SHIFT, jnp.uint16(0))
    if view is not None:
        codes = codes | _highlighted(_visible_in_grid(view, (width, height), x, y, direction))
    return tiled(codes, size, kinds)


def view_picture(view: UInt8[Array, "V V 3"], size: int, kinds: tuple[NewKind, ...] = ()) -> UInt8[Array, "_ _ 3"]:
    """The agent's view as a picture: the agent is in the middle of the last row and looks up."""
    wide = view.astype(jnp.uint16)
    cells = wide[..., 0] | wide[..., 1] << COLOR_SHIFT | wide[..., 2] << STATE_SHIFT
    side = view.shape[0]
    stands = np.zeros((side, side), np.uint16)
    stands[side // 2, -1] = 4 << AGENT_SHIFT
    return tiled(_looks(cells) | stands | _highlighted(visible_cells_of(view)), size, kinds)


def visible_cells_of(view: UInt8[Array, "V V 3"]) -> Bool[Array, "V V"]:
    """The mask of the cells of a view that the agent sees: all whose object is not `unseen`, number 0."""
    return view[..., 0] != 0


def tiled(codes: UInt16[Array, "W H"], size: int, kinds: tuple[NewKind, ...] = ()) -> UInt8[Array, "_ _ 3"]:
    """The picture of a grid of tile codes (see `grid/tiles.py`)."""
    width, height = codes.shape
    tiles, number = atlas(size, kinds)
    # One gather of whole pixel lines: for each row of tiles, each line of pixels, each tile in the row.
    lines = jnp.asarray(tiles.reshape(-1, 3 * size))
    first = jnp.asarray(number.astype(np.int32) * size).at[codes.T].get(mode="promise_in_bounds")
    index = first[:, None, :] + np.arange(size, dtype=np.int32)[None, :, None]
    return lines.at[index].get(mode="promise_in_bounds").reshape(height * size, width * size, 3)


def _looks(cells: UInt16[Array, "W H"]) -> UInt16[Array, "W H"]:
    return cells & np.uint16(LOOKS_BITS)


def _highlighted(mask: Bool[Array, "W H"]) -> UInt16[Array, "W H"]:
    return mask.astype(jnp.uint16) << HIGHLIGHT_SHIFT


def _visible_in_grid(
    view: UInt8[Array, "V V 3"], shape: tuple[int, int], x: Int[Array, ""], y: Int[Array, ""], direction: Int[Array, ""]
) -> Bool[Array, "W H"]:
    """The mask of the cells of the grid that the agent sees: each cell is looked up at its position in the view."""
    side, (width, height) = view.shape[0], shape
    across = np.arange(width, dtype=np.int32)[:, None] - x
    down = np.arange(height, dtype=np.int32)[None, :] - y
    dx, dy = heading(direction)
    column, row = side // 2 + down * dx - across * dy, side - 1 - (across * dx + down * dy)
    is_inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
    index = jnp.where(is_inside, column * side + row, 0)
    return jnp.asarray(is_inside) & visible_cells_of(view).reshape(-1).at[index].get(mode="promise_in_bounds")
