"""RedBlueDoors: the red door must be opened before the blue one."""

import numpy as np
import pytest

from maps import drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.red_blue_doors import RedBlueDoors
from shoal.grid.cells import cell
from shoal.grid.level import GridState

# The room in the middle is 4 x 4: two free columns between the doors.
LEVEL = RedBlueDoors(size=4)


def room(picture, red="closed", blue="closed"):
    return drawn(GridState, picture, {"R": cell("door", "red", red), "B": cell("door", "blue", blue)})


def test_the_red_door_and_then_the_blue_one_succeed():
    state = room("######## #.R<.B.# #.#..#.# ########")
    state, reward, terminated, _ = play(LEVEL, state, "toggle right right forward toggle")
    assert state.grid[5, 1] == cell("door", "blue", "open")
    assert terminated and reward == pytest.approx(1 - 0.9 * 5 / 320)


def test_opening_only_the_red_door_does_not_end_the_episode():
    assert play(LEVEL, room("######## #.R<.B.# #.#..#.# ########"), "toggle forward forward")[1:] == (0, False, False)


def test_opening_the_blue_door_first_ends_the_episode_without_reward():
    assert play(LEVEL, room("######## #.R.>B.# #.#..#.# ########"), "toggle")[1:] == (0, True, False)


def test_a_red_door_that_was_shut_again_does_not_count():
    state = room("######## #.R<.B.# #.#..#.# ########")
    assert play(LEVEL, state, "toggle toggle right right forward toggle")[1:] == (0, True, False)


def test_closing_the_blue_door_while_the_red_one_is_open_ends_the_episode_without_reward():
    # No play leads here, because an open blue door ends the episode; the reference has the rule.
    state = room("######## #.R.>B.# #.#..#.# ########", red="open", blue="open")
    assert play(LEVEL, state, "toggle")[1:] == (0, True, False)


def test_success_on_the_last_step_both_terminates_and_truncates():
    state = room("######## #.R.>B.# #.#..#.# ########", red="open")
    assert play(LEVEL.replace(max_steps=1), state, "toggle")[1:] == (pytest.approx(0.1), True, True)


def test_the_doors_stand_in_the_walls_of_the_middle_room_and_the_agent_between_them():
    states = layouts(make("MiniGrid-RedBlueDoors-6x6-v0"), 200)
    assert states.grid.shape == (200, 12, 6)
    doors = [np.argwhere(states.grid == cell("door", color, "closed")) for color in ("red", "blue")]
    assert all(len(d) == 200 for d in doors) and (doors[0][:, 1] == 3).all() and (doors[1][:, 1] == 8).all()
    assert all(set(d[:, 2].tolist()) == {1, 2, 3, 4} for d in doors)
    assert set(states.x.tolist()) == {4, 5, 6, 7} and set(states.y.tolist()) == {1, 2, 3, 4}


def test_the_smallest_room_equals_the_text_map():
    states = layouts(LEVEL, 200)
    doors = [np.argwhere(states.grid == cell("door", color, "closed")) for color in ("red", "blue")]
    assert {tuple(d) for d in doors[0][:, 1:].tolist()} == {(2, 1), (2, 2)} and len(doors[0]) == 200
    assert {tuple(d) for d in doors[1][:, 1:].tolist()} == {(5, 1), (5, 2)} and len(doors[1]) == 200
    assert {(x, y) for x, y in zip(states.x.tolist(), states.y.tolist(), strict=True)} == {
        (3, 1), (3, 2), (4, 1), (4, 2),
    }  # fmt: skip


def test_the_mission_and_the_time_limit_are_minigrids():
    level = make("MiniGrid-RedBlueDoors-8x8-v0")
    assert level.task == "open the red door then the blue door" and level.max_steps == 1280


def test_a_room_too_small_is_refused():
    with pytest.raises(ValueError, match="size=3 leaves no room beyond the doors"):
        RedBlueDoors(size=3)
