"""Which cells an agent can reach, or touch, without moving anything out of its way."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt16

from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, WALL, is_a

STEPS = 4  # steps between two checks of whether anything was added


def touched(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""]) -> Bool[Array, "W H"]:
    """The cells that an agent at (x, y) can walk to, or stand beside. It walks through empty cells and doors.

    A door counts as open even if it is locked. The agent's own cell always belongs to the result.
    """
    is_free = (grid == EMPTY) | is_a(grid, "door")
    start = cell_mask((grid.shape[0], grid.shape[1]), x, y)

    def is_growing(loop: tuple[Array, Array]) -> Array:
        return loop[1]

    def grow(loop: tuple[Array, Array]) -> tuple[Array, Array]:
        before, _ = loop
        after = before
        for _ in range(STEPS):
            after = _with_neighbors(after & is_free)
        after = after | before
        return after, jnp.any(after != before)

    return jax.lax.while_loop(is_growing, grow, (start, jnp.any(start)))[0]


def everything_is_touched(grid: UInt16[Array, "W H"], x: Int[Array, ""], y: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether an agent at (x, y) can go beside every door and every object, without moving one of them."""
    return jnp.all(touched(grid, x, y) | (grid == EMPTY) | (grid == WALL))


def _with_neighbors(cells: Bool[Array, "W H"]) -> Bool[Array, "W H"]:
    wide = jnp.pad(cells, 1)
    return cells | wide[2:, 1:-1] | wide[:-2, 1:-1] | wide[1:-1, 2:] | wide[1:-1, :-2]
