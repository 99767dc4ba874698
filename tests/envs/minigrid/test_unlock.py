"""Unlock: the facts of its docstring, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maps import first_state, layouts, play
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, cell
from shoal.grid.level import GridState, begin
from shoal.grid.rooms import Rooms

LOCKED_DOOR, OPEN_DOOR, KEY = cell("door", "blue", "locked"), cell("door", "blue"), cell("key", "blue")


@pytest.fixture
def unlock():
    return make("MiniGrid-Unlock-v0")


def at_the_door(carrying=EMPTY):
    """The agent at (4, 2), the locked door in front of it."""
    grid = jax.jit(Rooms(columns=2, rows=1, size=6).plan)(make_key(0)).grid.at[5, 2].set(LOCKED_DOOR)
    return GridState(**begin(grid, 4, 2, 0)).replace(carrying=jnp.asarray(carrying))


def test_limits_and_missions_are_those_of_minigrid(unlock):
    state = first_state(unlock)
    assert state.grid.shape == (11, 6) and unlock.max_steps == 288
    assert unlock.mission_text(state) == "open the door"


def test_opening_the_door_succeeds_and_the_key_stays_in_the_hand(unlock):
    state, reward, terminated, truncated = play(unlock, at_the_door(KEY), "toggle")
    assert state.grid[5, 2] == OPEN_DOOR and state.carrying == KEY
    assert reward == pytest.approx(1 - 0.9 * 1 / 288) and terminated and not truncated


def test_another_key_or_none_does_not_open_the_door(unlock):
    for carrying in (EMPTY, cell("key", "red"), cell("ball", "blue")):
        state, reward, terminated, _ = play(unlock, at_the_door(carrying), "toggle")
        assert state.grid[5, 2] == LOCKED_DOOR and reward == 0 and not terminated


def test_only_toggling_the_door_succeeds(unlock):
    open_door = at_the_door(KEY)
    open_door = open_door.replace(grid=open_door.grid.at[5, 2].set(OPEN_DOOR))
    for action in ("left", "right", "pickup", "drop", "done"):
        _, reward, terminated, _ = play(unlock, open_door, action)
        assert reward == 0 and not terminated
    before_it = open_door.replace(x=jnp.int32(3))
    _, reward, terminated, _ = play(unlock, before_it, "forward")  # now it is in front
    assert reward == 0 and not terminated


def test_success_on_the_last_step_is_both_terminated_and_truncated(unlock):
    _, reward, terminated, truncated = play(unlock, at_the_door(KEY).replace(time=jnp.int32(287)), "toggle")
    assert reward == pytest.approx(0.1) and terminated and truncated


def test_the_key_fits_the_door_and_lies_in_the_room_of_the_agent_but_not_in_front(unlock):
    states = layouts(unlock, 500)
    objects = states.grid & 15
    keys, doors = (states.grid[objects == number] for number in (5, 4))
    assert len(keys) == len(doors) == 500 and (keys >> 4 & 7 == doors >> 4 & 7).all() and (doors >> 7 == 2).all()
    assert (np.argwhere(objects == 5)[:, 1] < 5).all() and (states.x < 5).all()
    dx, dy = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[states.direction].T
    front = states.grid[np.arange(500), states.x + dx, states.y + dy]
    assert set(front.tolist()) == {int(EMPTY), int(cell("wall", "grey"))}
