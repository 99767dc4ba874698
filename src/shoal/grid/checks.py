"""`check_level`: does a generator always give a whole level? Run it on your own, beside `check_env`.

Compiled code cannot raise an error. What finds no place in it is left out, and an agent that finds none stands in a
wall. Outside of compiled code the functions of `grid/layout.py` and `grid/rooms.py` do raise an error, so that is where
levels are drawn here.
"""

import jax

from shoal.core.errors import CheckError
from shoal.core.keys import Key, make_key
from shoal.grid.actions import cell_at
from shoal.grid.cells import OBJECTS, WALL, is_a, is_walkable, object_of
from shoal.grid.level import GridState, Level


def check_level(level: Level, layouts: int = 32, key: Key | None = None) -> None:
    """Draw `layouts` levels, one after another and uncompiled, and look at each.

    Checked: everything finds a place; the grid has the level's `shape`; the agent starts in a cell that it could walk
    into, and neither on the goal nor in lava. A generator with rare failures needs more layouts. Loops are Python's
    here, so `jax.lax.fori_loop` counts in Python numbers.

    Raises CheckError (an AssertionError) at the first level that is broken. An error that the generator raises, as the
    ValueError of `choose` where no cell is left, passes through, with a note that says for which key.

        check_level(shoal.make("MiniGrid-DoorKey-8x8-v0"))
    """
    keys = jax.random.split(make_key(0) if key is None else key, layouts)
    for number in range(layouts):
        where = f"layout {number} of {layouts} of {type(level).__name__}"
        try:
            with jax.disable_jit():
                state = level.init(keys[number])
        except Exception as error:
            error.add_note(f"while check_level drew {where}")
            raise
        _check_state(level, state, where)


def _check_state(level: Level, state: GridState, where: str) -> None:
    if state.grid.shape != level.shape:
        raise CheckError(f"{where}: the grid is {state.grid.shape}, but the level says shape={level.shape}.")
    x, y, here = int(state.x), int(state.y), cell_at(state.grid, state.x, state.y, WALL)
    if not is_walkable(here) or is_a(here, "goal") or is_a(here, "lava"):
        raise CheckError(
            f"{where}: the agent starts at ({x}, {y}), in a cell that holds {OBJECTS[int(object_of(here))]}: choose "
            "one that is empty."
        )
