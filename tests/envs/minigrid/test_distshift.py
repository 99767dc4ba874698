"""DistShift: the position of the lava, and that lava ends the episode."""

import numpy as np
import pytest

from maps import at_pose, drawn, first_state, play, steps
from shoal.core.registry import make
from shoal.envs.minigrid.distshift import DistShift
from shoal.grid.cells import LAVA
from shoal.grid.level import GridState

ROWS = ["#########", "#..LLL.G#", "#.......#", "#.......#", "#.......#", "#.......#", "#########"]
LAVA_ROW = "#..LLL..#"


@pytest.mark.parametrize("name, strip_row", [("MiniGrid-DistShift1-v0", 2), ("MiniGrid-DistShift2-v0", 5)])
def test_the_layout_equals_the_text_map(name, strip_row):
    rows = [LAVA_ROW if y == strip_row else row for y, row in enumerate(ROWS)]
    expected = drawn(GridState, " ".join(rows), {"L": LAVA}, (1, 1, 0))
    state = first_state(make(name))
    np.testing.assert_array_equal(state.grid, expected.grid)
    assert (int(state.x), int(state.y), int(state.direction)) == (1, 1, 0)


def test_the_smallest_room_equals_the_text_map_and_is_solvable():
    rows = "####### #..L.G# #..L..# #.....# #######"
    expected = drawn(GridState, rows, {"L": LAVA}, (1, 1, 0))
    level = DistShift(width=7, height=5)
    np.testing.assert_array_equal(first_state(level).grid, expected.grid)
    way = "right forward forward left forward forward forward forward left forward forward"
    _, reward, terminated, _ = play(level, first_state(level), way)
    assert terminated and reward == pytest.approx(1 - 0.9 * 11 / 140)


def test_lava_ends_the_episode_without_reward():
    env = make("MiniGrid-DistShift1-v0")  # NAVIX let agents walk through it
    played = steps(env, first_state(env), "forward", "forward")
    assert played.reward == [0, 0] and played.terminated == [False, True]
    assert (int(played.state.x), int(played.state.y)) == (3, 1)


@pytest.mark.parametrize("action", ["left", "right", "pickup", "drop", "toggle", "done"])
def test_looking_at_lava_does_no_harm(action):
    env = make("MiniGrid-DistShift1-v0")
    assert steps(env, at_pose(first_state(env), 2, 1, 0), action).terminated == [False]


def test_limits_and_task_are_minigrids():
    env = make("MiniGrid-DistShift2-v0")
    assert env.max_steps == 252 and env.mission_text(first_state(env)) == "get to the green goal square"


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"width": 6}, "6 x 7 leaves no way"),
        ({"height": 4}, "9 x 4 leaves no way"),
        ({"strip_row": 6}, "1 to 5"),
        ({"strip_row": 0}, "1 to 5"),
        ({"agent_start_pos": (4, 1)}, "neither goal nor lava"),
    ],
)
def test_impossible_layouts_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        DistShift(**fields)
