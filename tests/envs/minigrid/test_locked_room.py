"""LockedRoom: the facts of its docstring, and invalid input."""

import jax.numpy as jnp
import numpy as np
import pytest

from maps import first_state, layouts, play
from shoal.core.registry import make
from shoal.envs.minigrid.locked_room import LockedRoom
from shoal.grid.cells import COLORS, EMPTY, WALL

DOORS = [(7, 3), (11, 3), (7, 9), (11, 9), (7, 15), (11, 15)]


@pytest.fixture(scope="module")
def houses():
    return layouts(make("MiniGrid-LockedRoom-v0"), 500)


def test_limits_and_missions_are_those_of_minigrid():
    env = make("MiniGrid-LockedRoom-v0")
    state = first_state(env).replace(key_color=jnp.int32(COLORS.index("yellow")), room_color=jnp.int32(5))
    assert state.grid.shape == (19, 19) and env.max_steps == 190
    expected = "get the yellow key from the grey room, unlock the yellow door and go to the goal"
    assert env.mission_text(state) == expected


def test_every_door_has_its_own_color_and_one_is_locked(houses):
    doors = np.stack([houses.grid[:, x, y] for x, y in DOORS], axis=1)
    assert (doors & 15 == 4).all() and (np.sort(doors >> 4 & 7, axis=1) == np.arange(6)).all()
    assert ((doors >> 7 == 2).sum(1) == 1).all() and ((doors >> 7 == 1).sum(1) == 5).all()
    assert (houses.grid & 15 == 4).sum() == doors.size


def test_goal_is_locked_away_and_the_key_lies_in_the_room_that_the_mission_names(houses):
    doors = np.stack([houses.grid[:, x, y] for x, y in DOORS], axis=1)
    locked, named = (
        (doors >> 4 & 7 == its_color[:, None]).argmax(1) for its_color in (houses.key_color, houses.room_color)
    )
    goal, key = (np.argwhere(houses.grid & 15 == kind)[:, 1:] for kind in (8, 5))
    assert np.array_equal(locked, (doors >> 7).argmax(1)) and (locked != named).all()
    assert np.array_equal((goal[:, 0] > 9) + 2 * (goal[:, 1] // 6), locked)
    assert np.array_equal((key[:, 0] > 9) + 2 * (key[:, 1] // 6), named)
    assert np.array_equal(houses.grid[houses.grid & 15 == 5] >> 4, houses.key_color)


def test_the_agent_starts_in_the_hallway(houses):
    assert set(houses.x.tolist()) == {8, 9, 10} and set(houses.y.tolist()) == set(range(1, 18))


def test_rooms_and_hallway_are_minigrids():
    grid = np.asarray(first_state(make("MiniGrid-LockedRoom-v0")).grid)
    is_wall = np.zeros((19, 19), bool)
    is_wall[[0, 7, 11, 18]] = True
    is_wall[:8, [0, 6, 12, 18]] = is_wall[11:, [0, 6, 12, 18]] = is_wall[:, [0, 18]] = True
    is_wall[tuple(np.transpose(DOORS))] = False
    assert np.array_equal(grid == WALL, is_wall)
    assert (grid[8:11, 1:18] == EMPTY).all()


def test_the_smallest_house_has_all_that_a_level_needs():
    small = layouts(LockedRoom(size=13), 200)
    doors = np.stack([small.grid[:, x, y] for x in (4, 8) for y in (3, 7, 11)], axis=1)
    assert (np.sort(doors >> 4 & 7, axis=1) == np.arange(6)).all() and ((doors >> 7 == 2).sum(1) == 1).all()
    rooms = [(slice(x, x + 3), slice(y, y + 3)) for x in (1, 9) for y in (1, 5, 9)]
    kinds = small.grid & 15
    assert all((kinds == kind).sum((1, 2)).tolist() == [1] * 200 for kind in (5, 8))
    assert sum(np.isin(kinds[:, x, y], (5, 8)).any((1, 2)).astype(int) for x, y in rooms).tolist() == [2] * 200
    assert set(small.x.tolist()) == {5, 6, 7} and set(small.y.tolist()) == set(range(1, 12))
    assert (small.grid[np.arange(200), small.x, small.y] == EMPTY).all()


def test_reaching_the_goal_succeeds():
    env = make("MiniGrid-LockedRoom-v0")
    state = first_state(env)
    x, y = np.argwhere(np.asarray(state.grid) & 15 == 8)[0]
    before = state.replace(x=jnp.int32(x - 1), y=jnp.int32(y), direction=jnp.int32(0), time=jnp.int32(18))
    _, reward, terminated, truncated = play(env, before, "forward")
    assert float(reward) == pytest.approx(1 - 0.9 * 19 / 190) and terminated and not truncated


@pytest.mark.parametrize("size", [7, 18, 20])
def test_a_size_without_six_equal_rooms_is_refused(size):
    with pytest.raises(ValueError, match=f"size={size} does not divide into six equal rooms: 13, 19, 25"):
        LockedRoom(size=size)
