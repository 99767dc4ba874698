"""MultiRoom: a chain of rooms with the goal in the last one."""

from functools import partial

import numpy as np
import pytest
from scipy import ndimage

from maps import drawn, layouts, play
from shoal import make
from shoal.envs.minigrid import multi_room
from shoal.envs.minigrid.multi_room import MultiRoom
from shoal.grid.cells import EMPTY, GOAL, WALL, cell
from shoal.grid.level import GridState

ROOMS = {"N2-S4-v0": 2, "N4-S5-v0": 6, "N4-S5-v1": 4, "N6-v0": 6}
CLOSED = [cell("door", color, "closed") for color in ("red", "green", "blue", "purple", "yellow", "grey")]


def doors_on_the_way(state, i):
    """Colors of the doors from the agent's room to the goal's; fails where the chain is broken."""
    grid = state.grid[i]
    rooms, _ = ndimage.label(np.isin(grid, [EMPTY, GOAL]))
    here, colors = rooms[state.x[i], state.y[i]], []
    doors = {(int(x), int(y)) for x, y in np.argwhere(np.isin(grid, CLOSED))}
    while rooms[tuple(np.argwhere(grid == GOAL)[0])] != here:
        around = {d: [rooms[d[0] + dx, d[1] + dy] for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))] for d in doors}
        (door,) = [d for d in doors if here in around[d]]
        doors.remove(door)
        (here,) = {int(room) for room in around[door]} - {0, int(here)}
        colors.append(int(grid[door]) >> 4 & 7)
    assert not doors
    return colors


@pytest.mark.sampled
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name,rooms", ROOMS.items())
def test_a_chain_of_doors_leads_from_the_agent_to_the_goal(name, rooms):
    states = layouts(make(f"MiniGrid-MultiRoom-{name}"), 100)
    for i in range(100):
        colors = doors_on_the_way(states, i)
        assert len(colors) == rooms - 1
        assert all(a != b for a, b in zip(colors[1:], colors, strict=False))


@pytest.mark.parametrize("name,limit", [("N2-S4-v0", 40), ("N4-S5-v0", 120), ("N4-S5-v1", 80), ("N6-v0", 120)])
def test_the_time_limit_is_that_of_minigrid(name, limit):
    assert make(f"MiniGrid-MultiRoom-{name}").max_steps == limit


def test_rooms_reach_the_right_edge_but_not_the_lowest_row():
    states = layouts(make("MiniGrid-MultiRoom-N6-v0"), 300)
    assert (states.grid[:, :, -1] == EMPTY).all()
    assert all(
        (edge == WALL).any()
        for edge in (states.grid[:, -1], states.grid[:, :, -2], states.grid[:, 0], states.grid[:, :, 0])
    )


def test_what_is_not_in_a_room_is_empty():
    grids = layouts(make("MiniGrid-MultiRoom-N2-S4-v0")).grid
    # Two outlines of 12 cells share 4, or 3 where one room is shifted; one of those is the door.
    walls = (grids == WALL).sum((1, 2))
    assert set(walls.tolist()) == {12 + 12 - 4 - 1, 12 + 12 - 3 - 1}
    assert ((grids == EMPTY).sum((1, 2)) == 25 * 25 - walls - 2).all()  # door and goal


def test_a_closed_door_is_opened_on_the_way_to_the_goal():
    state = drawn(GridState, "####### #.>D.G# #######", {"D": cell("door", "blue", "closed")})
    level = MultiRoom(min_rooms=2, max_rooms=2)
    assert play(level, state, "forward forward")[1:] == (0, False, False)
    _, reward, terminated, _ = play(level, state, "toggle forward forward forward")
    assert terminated and reward == pytest.approx(1 - 0.9 * 4 / 40)


def test_the_number_of_rooms_may_vary():
    states = layouts(MultiRoom(min_rooms=1, max_rooms=3, max_room_size=5), 100)
    counts = [len(doors_on_the_way(states, i)) + 1 for i in range(100)]
    assert {counts.count(n) > 15 for n in (1, 2, 3)} == {True}


def test_in_a_single_room_the_goal_is_never_where_the_agent_starts():
    states = layouts(MultiRoom(min_rooms=1, max_rooms=1, max_room_size=4), 300)
    assert (states.grid[np.arange(300), states.x, states.y] == EMPTY).all()
    assert ((states.grid == GOAL).sum((1, 2)) == 1).all()


def test_rooms_keep_to_their_sizes():
    states = layouts(MultiRoom(min_rooms=1, max_rooms=1, max_room_size=6), 200)
    sizes = {tuple(np.ptp(np.argwhere(grid == WALL), axis=0) + 1) for grid in states.grid}
    assert sizes == {(w, h) for w in (4, 5, 6) for h in (4, 5, 6)}


def test_a_grid_that_just_fits_is_filled():
    states = layouts(MultiRoom(min_rooms=2, max_rooms=2, max_room_size=4, width=7, height=5), 8)
    assert [len(doors_on_the_way(states, i)) for i in range(8)] == [1] * 8


@pytest.mark.sampled
@pytest.mark.parametrize("fields", [{"min_rooms": 1, "max_rooms": 6}, {"max_room_size": 8, "width": 10, "height": 30}])
def test_where_no_chain_is_found_rooms_stand_in_a_row(monkeypatch, fields):
    monkeypatch.setattr(multi_room, "retry", partial(multi_room.retry, limit=8))  # too few for most chains
    states = layouts(MultiRoom(**{"min_rooms": 6, **fields}), 60)
    counts = [len(doors_on_the_way(states, i)) + 1 for i in range(60)]
    assert set(counts) == set(range(fields.get("min_rooms", 6), 7))
    in_a_row = np.isin(states.grid[:, 1, 3], CLOSED) | np.isin(states.grid[:, 3, 1], CLOSED)
    assert in_a_row.sum() > 20 and (states.grid[in_a_row, 0, 0] == WALL).all()


def test_a_grid_too_crowded_for_chains_does_not_loop_forever():
    states = layouts(MultiRoom(min_rooms=8, max_rooms=8, max_room_size=4, width=25, height=5), 4)
    assert [len(doors_on_the_way(states, i)) for i in range(4)] == [7] * 4


@pytest.mark.parametrize("fields,message", [
    ({"min_rooms": 0}, "min_rooms=0 must be at least 1, and at most max_rooms=6"),
    ({"min_rooms": 4, "max_rooms": 3}, "min_rooms=4 must be .* at most max_rooms=3"),
    ({"max_room_size": 3}, "max_room_size=3 is smaller than the smallest room"),
    ({"width": 18, "height": 19}, "max_rooms=6 in a row need 19 x 5 cells"),
    ({"width": 25, "height": 4}, "width=25 and height=4"),
    ({"width": 3, "height": 30}, "max_rooms=6 in a row need 19 x 5 cells"),
    ({"min_rooms": 8, "max_rooms": 8, "width": 25, "height": 5}, "max_room_size=10 does not fit .*: at most 4"),
    ({"width": 25, "height": 11}, "max_rooms=6 of the average size would cover 79% of 25 x 11 cells"),
    ({"min_rooms": 8, "max_rooms": 8, "max_room_size": 6, "width": 25, "height": 7}, "would cover 73% of 25 x 7"),
    ({"width": 9, "height": 30}, "max_room_size=10 does not fit into width=9 and height=30"),
])  # fmt: skip
def test_rooms_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        MultiRoom(**fields)
