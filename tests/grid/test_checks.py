"""`check_level` finds each kind of fault in a level generator, and none in shoal's levels."""

import jax
import jax.numpy as jnp
import pytest

from environments import names_of_each_class, smallest
from shoal.core.errors import CheckError
from shoal.core.registry import ENVS
from shoal.core.struct import struct
from shoal.grid.cells import KEY, cell
from shoal.grid.checks import check_level
from shoal.grid.layout import choose, empty_room, place_each
from shoal.grid.level import GridState, Level, begin

LEVELS = [p for p in names_of_each_class() if issubclass(ENVS[p.values[0][0]].cls, Level)]


@struct
class Room(Level):
    """A room of 4 x 4 cells with the agent anywhere."""

    shape = property(lambda self: (4, 4))
    time_limit = property(lambda self: 10)

    def init(self, key):
        grid = jnp.asarray(empty_room(4, 4))
        return GridState(**begin(grid, *choose(key, grid != grid[0, 0]), 0))


@pytest.mark.sampled
@pytest.mark.parametrize("names", sorted(LEVELS, key=lambda case: case.id != "DoorKey"))  # which compiles quickly
def test_shoal_levels_pass(names):
    check_level(smallest(names), layouts=1)


def test_an_object_without_a_free_cell_is_reported_although_compiled_code_cannot_raise():
    @struct
    class Full(Room):
        def init(self, key):
            grid, _, _ = place_each(key, jnp.asarray(empty_room(4, 4)), jnp.full(5, KEY))
            return GridState(**begin(grid, 1, 1, 0))

    jax.jit(Full().init)(jax.random.key(0))
    with pytest.raises(ValueError, match="no cell of the mask is left") as caught:
        check_level(Full())
    assert caught.value.__notes__[-1] == "while check_level generated layout 0 of 32 of Full"


@pytest.mark.parametrize("thing", ["wall", "goal", "lava", "key", "door"])
def test_an_agent_in_an_occupied_cell_is_reported(thing):
    @struct
    class Bad(Room):
        def init(self, key):
            there = cell(thing, state="closed" if thing == "door" else "open")
            state = super().init(key)
            return state.replace(grid=state.grid.at[1, 2].set(there))

    with pytest.raises(CheckError, match=rf"of Bad: the agent starts at \(1, 2\), in a cell that holds {thing}"):
        check_level(Bad())


def test_a_grid_of_another_shape_than_the_level_declares_is_reported():
    @struct
    class Wide(Room):
        shape = property(lambda self: (5, 4))

    with pytest.raises(CheckError, match=r"layout 0 of 1 of Wide: the grid is \(4, 4\), but .* shape=\(5, 4\)"):
        check_level(Wide(), layouts=1)
