"""RedBlueDoors against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import ObjectAt, position_of
from shoal.grid.cells import looks

IDS = ["MiniGrid-RedBlueDoors-6x6-v0", "MiniGrid-RedBlueDoors-8x8-v0"]
RED_DOOR, BLUE_DOOR = 4, 4 | 2 << 4


def task_of(s):
    red, blue = (ObjectAt(*np.argwhere(looks(s.grid) == door)[0]) for door in (RED_DOOR, BLUE_DOOR))
    return {"red_door": red, "blue_door": blue}


def open_in_order(env):
    door = env.blue_door if env.red_door.is_open else env.red_door
    return walker.use(env, position_of(env, door), walker.TOGGLE)


def open_blue(env):
    return walker.use(env, position_of(env, env.blue_door), walker.TOGGLE)


FAMILY = harness.Family(task_of=task_of, scripts=(open_in_order, open_blue), fails=True)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
