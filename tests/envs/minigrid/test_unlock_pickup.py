"""UnlockPickup and BlockedUnlockPickup: the facts of their docstring, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maps import first_state, layouts, play
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.minigrid.pick_up import PickUpState
from shoal.grid.cells import EMPTY, cell
from shoal.grid.level import begin
from shoal.grid.rooms import Rooms

BOX, KEY = cell("box", "purple"), cell("key", "blue")


@pytest.fixture
def unlock_pickup():
    return make("MiniGrid-UnlockPickup-v0")


def before_the_box(carrying=EMPTY):
    """The agent at (6, 2), the purple box in front of it."""
    grid = jax.jit(Rooms(columns=2, rows=1, size=6).plan)(make_key(0)).grid.at[7, 2].set(BOX)
    start = {**begin(grid, 6, 2, 0), "carrying": jnp.asarray(carrying)}
    return PickUpState(**start, target=jnp.asarray(BOX))


@pytest.mark.parametrize(("name", "limit"), [("UnlockPickup", 288), ("BlockedUnlockPickup", 576)])
def test_limits_and_missions_are_those_of_minigrid(name, limit):
    env = make(f"MiniGrid-{name}-v0")
    assert first_state(env).grid.shape == (11, 6) and env.max_steps == limit


def test_the_mission_names_the_box(unlock_pickup):
    assert unlock_pickup.mission_text(before_the_box()) == "pick up the purple box"


def test_taking_the_box_succeeds(unlock_pickup):
    state, reward, terminated, _ = play(unlock_pickup, before_the_box(), "pickup")
    assert state.carrying == BOX and reward == pytest.approx(1 - 0.9 / 288) and terminated


def test_a_full_hand_cannot_take_the_box(unlock_pickup):
    state, reward, terminated, _ = play(unlock_pickup, before_the_box(KEY), "pickup")
    assert state.carrying == KEY and state.grid[7, 2] == BOX and reward == 0 and not terminated
    _, reward, terminated, _ = play(unlock_pickup, before_the_box(KEY), "left drop right pickup")
    assert reward == pytest.approx(1 - 0.9 * 4 / 288) and terminated


def test_a_box_that_was_opened_is_gone(unlock_pickup):
    state, reward, terminated, _ = play(unlock_pickup, before_the_box(), "toggle pickup")
    assert state.grid[7, 2] == EMPTY and state.carrying == EMPTY and reward == 0 and not terminated


def test_taking_the_key_is_no_success(unlock_pickup):
    start = before_the_box()
    _, reward, terminated, _ = play(unlock_pickup, start.replace(grid=start.grid.at[7, 2].set(KEY)), "pickup")
    assert reward == 0 and not terminated


def test_a_ball_of_any_color_blocks_the_door_where_it_is_blocked(unlock_pickup):
    grids = layouts(make("MiniGrid-BlockedUnlockPickup-v0"), 500).grid
    door, ball = (np.argwhere(grids & 15 == number) for number in (4, 6))
    assert np.array_equal(ball, door - [0, 1, 0])
    door_color, ball_color = (grids[grids & 15 == number] >> 4 & 7 for number in (4, 6))
    assert set(ball_color.tolist()) == set(range(6)) and 0.1 < (ball_color == door_color).mean() < 0.25  # one in six
    assert not (layouts(unlock_pickup, 500).grid & 15 == 6).any()


def test_box_and_key_are_the_only_ones_of_their_kind():
    grids = layouts(make("MiniGrid-BlockedUnlockPickup-v0"), 500).grid & 15
    assert ((grids == 7).sum((1, 2)) == 1).all() and ((grids == 5).sum((1, 2)) == 1).all()
