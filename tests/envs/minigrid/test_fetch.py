"""Fetch: the object that is picked up decides the episode, and the mission names the right one."""

import numpy as np
import pytest

from maps import at, drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.fetch import Fetch, FetchState
from shoal.grid.cells import cell

RED_KEY, RED_BALL, BLUE_KEY = cell("key", "red"), cell("ball", "red"), cell("key", "blue")
ROOM = "##### #k>K# #.B.# #.k.# #####"
THINGS = {"K": RED_KEY, "B": RED_BALL, "k": BLUE_KEY}


def room(**fields):
    return drawn(FetchState, ROOM, THINGS, **{"target": RED_KEY, "wording": 0, **fields})


def test_picking_up_what_the_mission_names_succeeds():
    state, reward, terminated, truncated = play(Fetch(size=5), room(), "left right pickup")
    assert state.carrying == RED_KEY and terminated and not truncated
    assert reward == pytest.approx(1 - 0.9 * 3 / 125)


@pytest.mark.parametrize("turns", ["right pickup", "right right pickup"])
def test_picking_up_another_object_ends_the_episode_without_reward(turns):
    assert play(Fetch(size=5), room(), turns)[1:] == (0, True, False)


def test_an_identical_copy_of_the_target_counts():
    state = room(target=BLUE_KEY)  # there are two
    assert play(Fetch(size=5), state, "left left pickup")[1] > 0


def test_other_actions_on_an_object_do_not_end_the_episode():
    assert play(Fetch(size=5), room(), "toggle drop done forward left pickup")[1:] == (0, False, False)


def test_success_on_the_last_step_both_terminates_and_truncates():
    _, reward, terminated, truncated = play(Fetch(size=5, max_steps=1), room(), "pickup")
    assert terminated and truncated and reward == pytest.approx(0.1)


def test_the_mission_has_five_wordings_of_one_length():
    level, words = Fetch(size=5), ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")
    states = [room(wording=i) for i in range(5)]
    assert [level.mission_text(state) for state in states] == [f"{text} red key" for text in words]
    assert {level.mission(state).shape for state in states} == {(6,)}


def test_the_mission_names_something_in_the_room():
    level = make("MiniGrid-Fetch-8x8-N3-v0")
    states = layouts(level)
    assert (states.grid == states.target[:, None, None]).any((1, 2)).all()
    assert len({level.mission_text(at(states, i)) for i in range(20)}) > 10


@pytest.mark.parametrize("name,things", [("5x5-N2", 2), ("6x6-N2", 2), ("8x8-N3", 3)])
def test_a_room_holds_the_number_of_objects_in_its_name(name, things):
    kinds = layouts(make(f"MiniGrid-Fetch-{name}-v0")).grid & 15
    assert (np.isin(kinds, [5, 6]).sum((1, 2)) == things).all()
    assert np.isin(kinds, [1, 2, 5, 6]).all()


def test_a_full_room_leaves_one_cell_for_the_agent():
    states = layouts(Fetch(size=4, num_objects=3))
    assert (np.isin(states.grid & 15, [5, 6]).sum((1, 2)) == 3).all()
    assert (states.grid[np.arange(64), states.x, states.y] == 1).all()


@pytest.mark.parametrize("fields,message", [
    ({"size": 3}, "size=3 leaves no room"),
    ({"size": 5, "num_objects": 9}, "num_objects=9 with size=5: from 1 to 8 fit in"),
    ({"size": 5, "num_objects": 0}, "num_objects=0"),
])  # fmt: skip
def test_a_room_that_cannot_be_filled_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Fetch(**fields)
