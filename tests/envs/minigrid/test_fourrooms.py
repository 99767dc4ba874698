"""FourRooms without the reference; tests/parity compares its layouts with MiniGrid's."""

import jax
import numpy as np
import pytest

from maps import at_pose, first_state, layouts, steps
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, GOAL, WALL


def test_agent_and_goal_never_share_a_cell():
    env = make("MiniGrid-FourRooms-v0")  # in NAVIX they did, once in 400 resets
    states = layouts(env, 2000)
    there = np.asarray(states.grid)[np.arange(2000), states.x, states.y]
    assert (there == EMPTY).all() and ((states.grid == GOAL).sum((1, 2)) == 1).all()


def test_openings_lie_anywhere_along_the_walls():
    env = make("MiniGrid-FourRooms-v0")  # in NAVIX never in row 10
    grids = layouts(env, 2000).grid
    wall = grids[:, 9, :] == WALL
    assert (~wall).sum(1).tolist() == [2] * 2000
    assert set(np.argwhere(~wall)[:, 1].tolist()) == set(range(1, 9)) | set(range(10, 18))


def test_the_time_limit_is_100_steps():
    env = make("MiniGrid-FourRooms-v0")
    assert env.max_steps == 100 and env.shape == (19, 19)
    assert env.mission_text(first_state(env)) == "reach the goal"


def test_walls_hide_the_next_room():
    env = make("MiniGrid-FourRooms-v0")
    state = first_state(env)
    grid = np.asarray(state.grid).copy()
    grid[9, 1:9] = WALL
    state = at_pose(state.replace(grid=jax.numpy.asarray(grid)), 8, 4, 0)
    image = np.asarray(jax.jit(env.observe)(state)["image"])
    assert image[3, 5].tolist() == [2, 5, 0] and not image[:, :5].any()
    assert steps(env, state, "forward").state.x == 8


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"agent_pos": (0, 4)}, r"agent_pos=\(0, 4\) is not inside the outer walls: columns and rows are 1 to 17"),
        ({"goal_pos": (4, 18)}, r"goal_pos=\(4, 18\) is not inside"),
        ({"agent_pos": (3, 3), "goal_pos": (3, 3)}, "the agent cannot start on the goal"),
    ],
)
def test_impossible_positions_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        make("MiniGrid-FourRooms-v0", **fields)
