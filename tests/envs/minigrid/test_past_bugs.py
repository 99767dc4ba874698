"""Bugs of other JAX versions of MiniGrid, one test each. The numbers are those of issues in NAVIX's repository."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maps import at, drawn, layouts, play, reached
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, GOAL, LAVA, OBJECTS, WALL, cell
from shoal.grid.level import GridState
from shoal.grid.rooms import Plan
from shoal.grid.tiles import atlas

DOOR, KEY, BALL = (OBJECTS.index(name) for name in ("door", "key", "ball"))


@jax.jit
def observe(level, state):
    return level.observe(state)


def image(level, state):
    return np.asarray(observe(level, state)["image"])


def test_136_every_crossing_has_a_way_to_the_goal():
    level = make("MiniGrid-LavaCrossingS11N5-v0")
    states = layouts(level, 300)
    for grid in states.grid:
        walkable = (grid == EMPTY) | (grid == GOAL)
        assert reached(walkable, (1, 1))[grid == GOAL].all()


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-KeyCorridorS6R3-v0"])
def test_98_and_141_a_key_corridor_has_one_locked_door_and_only_the_ball_is_behind_it(name):
    states = layouts(make(name), 100)
    for grid, x, y in zip(states.grid, states.x, states.y, strict=True):
        objects, colors, door_states = grid & 15, grid >> 4 & 7, grid >> 7 & 3
        doors = objects == DOOR
        locked = doors & (door_states == 2)
        assert locked.sum() == 1 and (door_states[doors] == 0).sum() == 0
        key = colors[objects == KEY]
        assert key.size == 1 and key == colors[locked]
        # From where the agent starts the key can be had without the locked door, the ball only through it.
        is_free = objects != (WALL & 15)
        before = reached(is_free & ~locked, (x, y))
        assert before[objects == KEY].all() and not before[objects == BALL].any()
        assert reached(is_free, (x, y))[objects == BALL].all()


def test_98_and_141_a_closed_door_is_opened_and_walked_through():
    level = make("MiniGrid-KeyCorridorS3R3-v0")
    state = at(layouts(level, 1), 0)
    things = {"d": cell("door", "red", "closed"), "B": cell("ball", "blue")}
    state = drawn(type(state), "##### #>d.# ##### #B..# #####", things, target=things["B"])
    shut, *_ = play(level, state, "forward forward")
    assert (int(shut.x), int(shut.y)) == (1, 1)
    through, *_ = play(level, state, "toggle forward forward")
    assert (int(through.x), int(through.y)) == (3, 1) and through.grid[2, 1] == cell("door", "red", "open")


def test_95_doors_show_0_when_open_1_when_closed_2_when_locked():
    level = make("MiniGrid-Empty-8x8-v0")
    things = {"o": cell("door", "red", "open"), "c": cell("door", "red", "closed"), "l": cell("door", "red", "locked")}
    state = drawn(GridState, "##### #ocl# #.^.# ##### #####", things)
    np.testing.assert_array_equal(image(level, state)[2:5, 5, 2], [0, 1, 2])


def test_112_only_walls_and_closed_doors_hide_the_cells_behind():
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


def test_139_an_event_is_not_rewarded_in_the_next_step():
    level = make("MiniGrid-Empty-8x8-v0")
    state = drawn(GridState, "##### #>G.# #...# #####")
    after, reward, terminated, _ = play(level, state, "forward")
    assert reward > 0.99 and terminated
    _, reward, terminated, _ = play(level, after, "left")
    assert reward == 0 and not terminated


@pytest.mark.sampled
@pytest.mark.parametrize("name, rows", [("MiniGrid-KeyCorridorS3R2-v0", 2), ("MiniGrid-KeyCorridorS3R3-v0", 3)])
def test_161_every_door_of_a_key_corridor_is_on_the_grid_and_in_the_picture(name, rows):
    level = make(name, tile_size=8, highlight=False)
    drawn_plans = []

    def init(key):  # the plan from which the level is made, beside the level
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Plan, "connected", _keeping(Plan.connected, drawn_plans))
            state = level.init(key)
        return state, drawn_plans.pop().is_open

    states, is_open = jax.jit(jax.vmap(init))(jax.random.split(make_key(0), 200))
    doors = (np.asarray(states.grid) & 15 == DOOR).sum((1, 2))
    removed = rows - 1  # walls that make the corridor one room
    np.testing.assert_array_equal(doors, np.asarray(is_open).sum((1, 2, 3)) - removed)
    state = at(jax.tree.map(np.asarray, states), 0)
    x, y = np.argwhere(np.asarray(state.grid) & 15 == DOOR)[0]
    tiles = atlas(8)
    picture = np.asarray(level.render(state))[8 * y : 8 * y + 8, 8 * x : 8 * x + 8]
    np.testing.assert_array_equal(picture, tiles.tiles[tiles.number[int(state.grid[x, y])]])


def _keeping(method, kept):
    def call(plan, key):
        kept.append(method(plan, key))
        return kept[-1]

    return call


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
