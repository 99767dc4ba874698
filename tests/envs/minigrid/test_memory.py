"""Memory: the object of the first room must be found again at the end of the hallway."""

import numpy as np
import pytest

from maps import at, drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.memory import Memory, MemoryState
from shoal.grid.cells import WALL, cell

KEY, BALL = cell("key", "green"), cell("ball", "green")
IDS = [f"MiniGrid-Memory{name}-v0" for name in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")]


def maze(picture="####### #####K# #B..#.# #...>.# #...#.# #####B# #######", match_y=4):
    return drawn(MemoryState, picture, {"K": KEY, "B": BALL}, split_x=5, match_y=match_y)


def test_the_side_with_the_same_object_succeeds():
    _, reward, terminated, _ = play(Memory(size=7), maze(), "forward right forward")
    assert terminated and reward == pytest.approx(1 - 0.9 * 3 / 245)


def test_the_other_side_ends_the_episode_without_reward():
    assert play(Memory(size=7), maze(), "forward left forward")[1:] == (0, True, False)


def test_the_end_of_the_hallway_does_not_end_the_episode():
    assert play(Memory(size=7), maze(), "forward right left left")[1:] == (0, False, False)


def test_nothing_can_be_picked_up():
    state = maze("####### #####K# #B..#.# #^..#.# #...#.# #####B# #######")
    after, *result = play(Memory(size=7), state, "pickup toggle drop")
    assert (after.grid == state.grid).all() and after.carrying == state.carrying and result == [0, False, False]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("env_id", IDS)
def test_the_right_side_has_the_object_of_the_first_room(env_id):
    states = layouts(make(env_id), 128)
    middle = states.grid.shape[2] // 2
    first = states.grid[:, 1, middle - 1]
    rows = np.where(states.match_y > middle, middle + 2, middle - 2)
    assert (states.grid[np.arange(128), states.split_x, rows] == first).all()
    wrong = states.grid[np.arange(128), states.split_x, 2 * middle - rows]
    assert set(zip(first.tolist(), wrong.tolist(), strict=True)) == {(KEY, BALL), (BALL, KEY)}
    assert set(states.match_y.tolist()) == {middle - 1, middle + 1}


def test_the_hallway_ends_anywhere_where_its_length_is_random():
    states = layouts(make("MiniGrid-MemoryS13Random-v0"), 256)
    assert set(states.split_x.tolist()) == set(range(5, 12))
    assert set(layouts(make("MiniGrid-MemoryS13-v0")).split_x.tolist()) == {11}
    assert (states.x < states.split_x).all() and (states.y == 6).all() and (states.direction == 0).all()


def test_a_short_hallway_looks_as_minigrids():
    states = layouts(make("MiniGrid-MemoryS13Random-v0"), 256)
    state = at(states, int(np.argmax(states.split_x == 5)))
    walls = ["".join("#" if c == WALL else "." for c in row) for row in np.asarray(state.grid).T]
    assert walls == [  # drawn from MiniGrid 3.2.0 with hallway_end = 4
        "#############",
        *["#...#.#.....#"] * 3,
        "#####.#.....#",
        "#...#.#.....#",
        "#.....#.....#",
        "#...#.#.....#",
        "#####.#.....#",
        *["#...#.#.....#"] * 3,
        "#############",
    ]


def test_the_smallest_maze_has_one_length():
    states = layouts(Memory(size=7, random_length=True))
    assert set(states.split_x.tolist()) == {5} and set(states.x.tolist()) == {1, 2, 3, 4}
    walls = ["".join("#" if c == WALL else "." for c in row) for row in states.grid[0].T]
    assert walls == ["#######", "#####.#", "#...#.#", "#.....#", "#...#.#", "#####.#", "#######"]


def test_the_mission_and_the_time_limit_are_minigrids():
    level = make("MiniGrid-MemoryS17Random-v0")
    assert level.mission_text(maze()) == "go to the matching object at the end of the hallway"
    assert level.max_steps == 1445


@pytest.mark.parametrize("size", [5, 8])
def test_a_maze_without_a_middle_or_a_hallway_is_refused(size):
    with pytest.raises(ValueError, match=f"size={size} must be odd"):
        Memory(size=size)
