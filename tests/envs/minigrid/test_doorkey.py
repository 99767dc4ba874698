"""DoorKey: keys, doors, carried objects, and the ends of an episode."""

import jax
import numpy as np
import pytest

from maps import drawn, steps
from shoal.core.registry import make
from shoal.envs.minigrid.doorkey import DoorKey
from shoal.grid.cells import EMPTY, cell
from shoal.grid.level import GridState

THINGS = {"k": cell("key", "yellow"), "D": cell("door", "yellow", "locked"), "b": cell("key", "blue")}
ROWS = "##### #.#.# #kD.# #.#G# #####"


@pytest.fixture(scope="module")
def env():
    return make("MiniGrid-DoorKey-5x5-v0")


@jax.jit
def observe(env, state):
    return env.observe(state)


def seen(env, state):
    return np.asarray(observe(env, state)["image"])


def test_the_solution_earns_minigrids_reward(env):
    # Down from (1, 1) to the key at (1, 2), through the door at (2, 2), down to the goal: 8 steps of 250.
    start = drawn(GridState, ROWS, THINGS, (1, 1, 1))
    actions = ["pickup", "forward", "left", "toggle", "forward", "forward", "right", "forward"]
    played = steps(env, start, *actions)
    assert played.reward[-1] == pytest.approx(1 - 0.9 * 8 / 250, abs=1e-6) and not any(played.reward[:-1])
    assert played.terminated == [False] * 7 + [True]
    assert played.state.carrying == cell("key", "yellow")  # NAVIX's doors ate the key
    assert played.state.grid[2, 2] == cell("door", "yellow", "open")


def test_a_locked_door_is_a_wall_without_its_key(env):
    played = steps(env, drawn(GridState, ROWS, THINGS, (1, 2, 0)), "toggle", "forward")
    assert played.state.grid[2, 2] == THINGS["D"] and int(played.state.x) == 1


def test_a_key_of_another_color_does_not_fit(env):
    rows = "##### #.#.# #bD.# #.#G# #####"
    played = steps(env, drawn(GridState, rows, THINGS, (1, 1, 1)), "pickup", "forward", "left", "toggle", "forward")
    assert played.state.carrying == cell("key", "blue")
    assert played.state.grid[2, 2] == THINGS["D"] and int(played.state.x) == 1


def test_an_unlocked_door_closes_and_opens_without_the_key(env):
    start = drawn(GridState, ROWS, THINGS, (1, 1, 1))
    unlocked = steps(env, start, "pickup", "forward", "left", "toggle", "toggle").state
    assert unlocked.grid[2, 2] == cell("door", "yellow", "closed")
    dropped = steps(env, unlocked, "right", "drop", "left", "toggle").state
    assert dropped.carrying == EMPTY and dropped.grid[1, 3] == cell("key", "yellow")
    assert dropped.grid[2, 2] == cell("door", "yellow", "open")


def test_a_key_is_either_on_the_grid_or_in_the_hand(env):
    # Picked up, it leaves the grid; dropped, it leaves the hand; nothing is dropped onto something.
    start = drawn(GridState, ROWS, THINGS, (1, 1, 1))
    held = steps(env, start, "pickup").state
    assert held.carrying == THINGS["k"] and not (held.grid == THINGS["k"]).any()
    kept = steps(env, held, "left", "drop").state  # towards the wall
    assert kept.carrying == THINGS["k"] and (kept.grid == THINGS["k"]).sum() == 0
    down = steps(env, held, "drop", "drop").state
    assert down.carrying == EMPTY and (down.grid == THINGS["k"]).sum() == 1


def test_the_carried_object_is_observed(env):
    held = steps(env, drawn(GridState, ROWS, THINGS, (1, 1, 1)), "pickup").state
    image = seen(env, held)
    assert image[3, 6].tolist() == [5, 4, 0] and image[3, 5].tolist() == [1, 0, 0]


def test_cells_hidden_by_a_closed_door_are_visible_when_it_is_open(env):
    start = drawn(GridState, ROWS, THINGS, (1, 1, 1))
    shut = steps(env, start, "pickup", "forward", "left").state
    opened = steps(env, shut, "toggle").state
    image = seen(env, shut)
    assert image[3, 5].tolist() == [4, 4, 2] and image[3, 4].tolist() == [0, 0, 0]
    image = seen(env, opened)
    assert image[3, 5].tolist() == [4, 4, 0] and image[3, 4].tolist() == [1, 0, 0]


def test_rooms_too_small_for_a_wall_are_refused():
    with pytest.raises(ValueError, match="size=4 leaves no room on both sides"):
        DoorKey(size=4)


def test_limits_are_minigrids():
    assert [make(f"MiniGrid-DoorKey-{s}x{s}-v0").max_steps for s in (5, 6, 8, 16)] == [250, 360, 640, 2560]
