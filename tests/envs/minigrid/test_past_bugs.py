"""Bugs that other MiniGrids in JAX have had, one test each. Numbers are those of issues in NAVIX's repository."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maps import at, drawn, layouts, play
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, GOAL, LAVA, OBJECTS, WALL, cell
from shoal.grid.level import GridState

DOOR, KEY, BALL = (OBJECTS.index(name) for name in ("door", "key", "ball"))


def image(level, state):
    return np.asarray(jax.jit(level.observe)(state)["image"])


def reached(walkable, start):
    """The cells that can be walked to, by spreading until nothing changes."""
    seen = np.zeros_like(walkable)
    seen[start] = True
    while True:
        wider = seen.copy()
        for axis in (0, 1):
            wider |= np.roll(seen, 1, axis) | np.roll(seen, -1, axis)
        wider = seen | wider & walkable
        if (wider == seen).all():
            return seen
        seen = wider


def test_136_every_crossing_has_a_way_to_the_goal():
    level = make("MiniGrid-LavaCrossingS11N5-v0")
    states = layouts(level, 300)
    for grid in states.grid:
        walkable = (grid == EMPTY) | (grid == GOAL)
        assert reached(walkable, (1, 1))[grid == GOAL].all()


@pytest.mark.parametrize("name", ["MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-KeyCorridorS6R3-v0"])
def test_98_and_141_a_key_corridor_has_one_locked_door_its_key_and_no_open_door(name):
    for grid in layouts(make(name), 100).grid:
        objects, colors, states = grid & 15, grid >> 4 & 7, grid >> 7 & 3
        doors = objects == DOOR
        assert (states[doors] == 2).sum() == 1 and (states[doors] == 0).sum() == 0
        key = colors[objects == KEY]
        assert key.size == 1 and key == colors[doors & (states == 2)]
        # The key can be had without the locked door, the ball cannot.
        shut = (objects == WALL & 15) | doors & (states == 2)
        beside_key = reached(~shut, tuple(np.argwhere(objects == KEY)[0]))
        assert not beside_key[objects == BALL].any()


def test_95_doors_show_0_when_open_1_when_closed_2_when_locked():
    level = make("MiniGrid-Empty-8x8-v0")
    things = {"o": cell("door", "red", "open"), "c": cell("door", "red", "closed"), "l": cell("door", "red", "locked")}
    state = drawn(GridState, "##### #ocl# #.^.# ##### #####", things)
    np.testing.assert_array_equal(image(level, state)[2:5, 5, 2], [0, 1, 2])


def test_112_walls_and_shut_doors_hide_what_lies_behind_and_nothing_else_does():
    level = make("MiniGrid-DoorKey-8x8-v0")
    things = {"o": cell("door", "red", "open"), "c": cell("door", "red", "closed"), "L": LAVA, "k": cell("key", "red")}
    for thing, is_seen in {"o": True, "c": False, "L": True, "k": True, "G": True, ".": True, "#": False}.items():
        state = drawn(GridState, f"##### ##G## ##{thing}## ##^## #####", things)
        assert (image(level, state)[3, 4, 0] == GOAL & 15) == is_seen, thing


def test_105_picking_up_changes_no_cell_but_the_one_in_front():
    level = make("MiniGrid-DoorKey-8x8-v0")
    state = drawn(GridState, "##### #k..# #^..# #..b# #####", {"k": cell("key", "red"), "b": cell("ball", "blue")})
    after, *_ = play(level, state, "pickup")
    changed = np.argwhere(np.asarray(after.grid) != np.asarray(state.grid))
    assert changed.tolist() == [[1, 1]] and int(after.carrying) == cell("key", "red")


def test_191_of_exactly_two_objects_only_the_one_in_front_is_taken():
    level = make("MiniGrid-Unlock-v0")
    state = at(layouts(level, 1), 0)
    two = drawn(type(state), "##### #k..# #^k.# #...# #####", {"k": cell("key", "red")}, **_task_of(state))
    after, *_ = play(level, two, "pickup")
    assert np.argwhere(np.asarray(after.grid) == cell("key", "red")).tolist() == [[2, 2]]


def test_139_what_happened_in_one_step_is_not_rewarded_in_the_next():
    level = make("MiniGrid-Empty-8x8-v0")
    state = drawn(GridState, "##### #>G.# #...# #####")
    after, reward, terminated, _ = play(level, state, "forward")
    assert reward > 0.99 and terminated
    _, reward, terminated, _ = play(level, after, "left")
    assert reward == 0 and not terminated


def test_161_no_two_doors_share_a_cell():
    for grid in layouts(make("MiniGrid-GoToDoor-5x5-v0"), 300).grid:
        assert (grid & 15 == DOOR).sum() == 4


def test_wide_views_do_not_overflow_the_rows_of_bits():
    level = make("MiniGrid-FourRooms-v0", view_size=31)
    grid = np.full((41, 41), EMPTY, np.uint16)
    fields = {name: jnp.int32(value) for name, value in {"time": 0, "x": 20, "y": 40, "direction": 3}.items()}
    state = GridState(grid=jnp.asarray(grid), carrying=jnp.asarray(EMPTY), **fields)
    assert (image(level, state)[..., 0] == EMPTY & 15).all()
    with pytest.raises(ValueError, match="view_size=33"):
        make("MiniGrid-FourRooms-v0", view_size=33)


def _task_of(state):
    own = set(type(state).__dataclass_fields__) - set(GridState.__dataclass_fields__)
    return {name: np.asarray(getattr(state, name)) for name in own}
