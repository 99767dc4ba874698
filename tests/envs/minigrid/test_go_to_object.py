"""GoToObject: the action `done` beside the right object."""

import numpy as np
import pytest

from maps import drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.go_to_door import GoToState
from shoal.envs.minigrid.go_to_object import GoToObject
from shoal.grid.cells import EMPTY, cell

RED_BOX, BLUE_KEY = cell("box", "red"), cell("key", "blue")


def room(picture, target=RED_BOX):
    return drawn(GoToState, picture, {"B": RED_BOX, "K": BLUE_KEY}, target=target, target_x=1, target_y=1)


def test_done_beside_the_target_object_succeeds():
    _, reward, terminated, _ = play(GoToObject(), room("##### #B>.# #..K# #...# #####"), "right done")
    assert terminated and reward == pytest.approx(1 - 0.9 * 2 / 180)


@pytest.mark.parametrize("picture", ["##### #B.>#  #..K# #...# #####", "##### #B..# #.>K# #...# #####"])
def test_done_elsewhere_ends_the_episode_without_reward(picture):
    assert play(GoToObject(), room(picture), "done")[1:] == (0, True, False)


def test_an_object_that_was_carried_away_still_counts_at_its_first_cell():
    state, reward, terminated, _ = play(GoToObject(), room("##### #B<.# #..K# #...# #####"), "pickup done")
    assert state.carrying == RED_BOX and terminated and reward > 0


def test_standing_where_it_lay_does_not_count():
    state = room("##### #B<.# #..K# #...# #####")
    assert play(GoToObject(), state, "pickup forward done")[1:] == (0, True, False)


def test_toggling_opens_a_box_and_ends_the_episode_without_reward():
    state, *result = play(GoToObject(), room("##### #B<.# #..K# #...# #####"), "toggle")
    assert state.grid[1, 1] == EMPTY and result == [0, True, False]


@pytest.mark.parametrize("fields", [{}, {"size": 8, "num_objects": 18}])
def test_no_two_objects_are_equal(fields):
    level = GoToObject(**fields)
    grids = layouts(level).grid
    for grid in grids:
        things = [int(c) for c in np.ravel(grid) if c & 15 in (5, 6, 7)]
        assert len(things) == len(set(things)) == level.num_objects


def test_the_target_is_one_of_the_objects():
    states = layouts(make("MiniGrid-GoToObject-8x8-N2-v0"))
    assert (states.grid[np.arange(64), states.target_x, states.target_y] == states.target).all()


@pytest.mark.parametrize("target,text", [(RED_BOX, "go to the red box"), (BLUE_KEY, "go to the blue key")])
def test_the_mission_names_the_target(target, text):
    assert GoToObject().mission_text(room("##### #B<.# #..K# #####", target)) == text


@pytest.mark.parametrize("fields,message", [
    ({"size": 3}, "size=3 leaves no room"),
    ({"size": 9, "num_objects": 19}, "num_objects=19 with size=9: from 1 to 18 fit in, no two of them alike"),
    ({"size": 4, "num_objects": 4}, "from 1 to 3 fit in"),
    ({"num_objects": 0}, "num_objects=0 with size=6: from 1 to 15"),
])  # fmt: skip
def test_a_room_that_cannot_be_filled_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        GoToObject(**fields)
