"""`check_level` tests whether a generator always makes a complete level. Use it, with `check_env`, for own levels.

Compiled code cannot raise an error: an object for which no cell is free is left out, and an agent for which no cell is
free stands in a wall. Outside of compiled code, the functions of `grid/layout.py` and `grid/rooms.py` do raise errors.
Therefore `check_level` generates levels without compiling.
"""

import jax

from shoal.core.errors import CheckError
from shoal.core.keys import Key, make_key
from shoal.core.kinds import checked_kinds
from shoal.grid.actions import cell_at
from shoal.grid.cells import WALL, is_a, is_walkable, name_of
from shoal.grid.level import GridState, Level


@checked_kinds()
def check_level(level: Level, layouts: int = 32, key: Key | None = None) -> None:
    """Generate `layouts` levels, one after another and without compiling, and check each.

    The checks are: a free cell was found for every object; the grid has the level's `shape`; the agent starts in a cell
    that it can walk into, which is neither the goal nor lava. To find a rare failure, check more layouts. Without
    compilation, loops run in Python, so `jax.lax.fori_loop` passes Python integers to its body.

    Raises CheckError (an AssertionError) for the first level that is broken. An error that the generator itself raises,
    such as the ValueError of `choose` if no cell is left, is passed on with a note that names the layout.

        check_level(shoal.make("MiniGrid-DoorKey-8x8-v0"))
    """
    keys = jax.random.split(make_key(0) if key is None else key, layouts)
    for number in range(layouts):
        where = f"layout {number} of {layouts} of {type(level).__name__}"
        try:
            with jax.disable_jit():
                state = level.init(keys[number])
        except Exception as error:
            error.add_note(f"while check_level generated {where}")
            raise
        _check_state(level, state, where)


def _check_state(level: Level, state: GridState, where: str) -> None:
    if state.grid.shape != level.shape:
        raise CheckError(f"{where}: the grid is {state.grid.shape}, but the level says shape={level.shape}.")
    x, y, here = int(state.x), int(state.y), cell_at(state.grid, state.x, state.y, WALL)
    if not is_walkable(here, level.kinds) or is_a(here, "goal") or is_a(here, "lava"):
        raise CheckError(
            f"{where}: the agent starts at ({x}, {y}), in a cell that holds {name_of(here, level.kinds)}: choose "
            "one that is empty."
        )
