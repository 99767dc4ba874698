"""PutNear: the right object must be picked up and dropped near the right target."""

import numpy as np
import pytest

from maps import drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.put_near import PutNear, PutNearState
from shoal.grid.cells import EMPTY, cell

BLUE_KEY, RED_BOX, RED_KEY = cell("key", "blue"), cell("box", "red"), cell("key", "red")
ROOM = "###### #K>.T# #o...# #....# #....# ######"


def room(picture=ROOM, **fields):
    things = {"K": BLUE_KEY, "T": RED_BOX, "o": RED_KEY}
    return drawn(
        PutNearState, picture, things, **{"moved": BLUE_KEY, "target": RED_BOX, "target_x": 4, "target_y": 1, **fields}
    )


def test_dropping_the_object_near_the_target_succeeds():
    state, reward, terminated, _ = play(PutNear(), room(), "left left pickup left left drop")
    assert state.grid[3, 1] == BLUE_KEY and state.carrying == EMPTY
    assert terminated and reward == pytest.approx(1 - 0.9 * 6 / 30)


def test_a_diagonal_is_near():
    state = room("###### #...T# #o>..# #....# #....# ######", carrying=BLUE_KEY)
    assert play(PutNear(), state, "drop")[1:] == (pytest.approx(1 - 0.9 / 30), True, False)


def test_dropping_it_anywhere_else_ends_the_episode_without_reward():
    state, *result = play(PutNear(), room(), "left left pickup left drop")
    assert state.grid[2, 2] == BLUE_KEY and result == [0, True, False]


def test_a_failed_drop_ends_the_episode_without_reward_and_keeps_the_object_in_the_hand():
    state = room("###### #..^T# #o...# #....# #....# ######", carrying=BLUE_KEY)
    state, *result = play(PutNear(), state, "drop")
    assert state.carrying == BLUE_KEY and result == [0, True, False]


def test_a_drop_with_an_empty_hand_does_not_end_the_episode():
    assert play(PutNear(), room(), "drop drop")[1:] == (0, False, False)


@pytest.mark.parametrize("wrong,rows", [(RED_KEY, "#K..T# #o<..#"), (RED_BOX, "#K.>T# #o...#")])
def test_picking_up_a_wrong_object_ends_the_episode_without_reward(wrong, rows):
    state, *result = play(PutNear(), room(f"###### {rows} #....# #....# ######"), "pickup")
    assert state.carrying == wrong and result == [0, True, False]


def test_the_first_position_of_the_target_counts():
    state = room("###### #..>T# #o...# #....# #....# ######", carrying=BLUE_KEY)
    state, reward, terminated, _ = play(PutNear(), state, "toggle forward right drop")  # the box was empty, and is gone
    assert state.grid[4, 1] == EMPTY and state.grid[4, 2] == BLUE_KEY
    assert terminated and reward > 0


def test_no_two_objects_lie_near_each_other_and_two_of_them_are_in_the_mission():
    states = layouts(make("MiniGrid-PutNear-8x8-N3-v0"), 200)
    for i, grid in enumerate(states.grid):
        places = np.argwhere(np.isin(grid & 15, [5, 6, 7]))
        assert len(places) == 3
        assert all(np.abs(a - b).max() > 1 for j, a in enumerate(places) for b in places[:j])
        assert grid[states.target_x[i], states.target_y[i]] == states.target[i]
        assert states.moved[i] != states.target[i] and (grid == states.moved[i]).any()


def test_the_mission_names_both_objects():
    level = make("MiniGrid-PutNear-6x6-N2-v0")
    assert level.mission_text(room()) == "put the blue key near the red box"


def test_the_time_limit_is_that_of_minigrid():
    assert [make(f"MiniGrid-PutNear-{name}-v0").max_steps for name in ("6x6-N2", "8x8-N3")] == [30, 40]


@pytest.mark.parametrize("fields,message", [
    ({"size": 5}, "size=5 may leave no place for two things apart"),
    ({"size": 6, "num_objects": 1}, "num_objects=1 with size=6: from 2 to 4"),
    ({"size": 6, "num_objects": 5}, "num_objects=5 with size=6: from 2 to 4"),
    ({"size": 17, "num_objects": 19}, "num_objects=19 with size=17: from 2 to 18"),
])  # fmt: skip
def test_a_room_that_may_have_no_free_cell_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PutNear(**fields)


def test_the_largest_allowed_number_of_objects_always_fits():
    grids = layouts(PutNear(size=6, num_objects=4), 500).grid
    assert (np.isin(grids & 15, [5, 6, 7]).sum((1, 2)) == 4).all()
