"""LavaGap: a strip of lava or wall with one gap."""

import numpy as np
import pytest

from maps import drawn, first_state, steps
from shoal.core.registry import make
from shoal.envs.minigrid.lavagap import LavaGap
from shoal.grid.cells import EMPTY, LAVA, WALL
from shoal.grid.level import GridState

ROWS = "##### #.L.# #...# #.LG# #####"
THINGS = {"L": LAVA}


def test_the_way_through_the_gap_earns_minigrids_reward():
    env = make("MiniGrid-LavaGapS5-v0")
    actions = ["right", "forward", "left", "forward", "forward", "right", "forward"]
    played = steps(env, drawn(GridState, ROWS, THINGS, (1, 1, 0)), *actions)
    assert played.reward[-1] == pytest.approx(1 - 0.9 * 7 / 100, abs=1e-6)
    assert played.terminated == [False] * 6 + [True]


def test_lava_ends_the_episode_without_reward():
    env = make("MiniGrid-LavaGapS5-v0")
    played = steps(env, drawn(GridState, ROWS, THINGS, (1, 1, 0)), "forward")
    assert (played.reward, played.terminated, played.truncated) == ([0.0], [True], [False])


@pytest.mark.parametrize(
    "obstacle, thing, task", [("lava", LAVA, "avoid the lava"), ("wall", WALL, "find the opening")]
)
def test_the_strip_may_be_a_wall(obstacle, thing, task):
    env = LavaGap(size=6, obstacle=obstacle)
    state = first_state(env)
    inner = np.asarray(state.grid)[1:-1, 1:-1]
    assert (inner == thing).sum() == 3 and (inner == EMPTY).sum() == 12
    assert env.mission_text(state) == f"{task} and get to the green goal square"


@pytest.mark.parametrize(
    "fields, reason", [({"size": 4}, "size=4 leaves no room"), ({"obstacle": "water"}, "Choose one of: lava, wall")]
)
def test_impossible_layouts_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        LavaGap(**fields)


def test_limits_are_minigrids():
    assert [make(f"MiniGrid-LavaGapS{size}-v0").max_steps for size in (5, 6, 7)] == [100, 144, 196]
