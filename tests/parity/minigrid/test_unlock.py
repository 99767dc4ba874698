"""Unlock against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import ObjectAt
from shoal.grid.cells import OBJECTS

pytestmark = pytest.mark.sampled

ENV_ID = "MiniGrid-Unlock-v0"
KEY, DOOR = OBJECTS.index("key"), OBJECTS.index("door")


def task_of(state):
    x, y = np.argwhere(state.grid & 15 == DOOR)[0]
    return {"door": ObjectAt(int(x), int(y))}


FAMILY = harness.Family(task_of=task_of, scripts=(walker.fetch_key_and_reach_goal,))


@harness.few_and_many
def test_steps_match_minigrid(steps):
    harness.assert_steps_match(ENV_ID, FAMILY, steps)


def key_and_door(layouts):
    """Where key and door are."""
    objects = layouts.grid.reshape(len(layouts.grid), -1) & 15
    return (objects == KEY).argmax(1) * 1000 + (objects == DOOR).argmax(1)


def key_and_agent(layouts):
    """Where the key lies from the agent, and where the agent looks: never at the key."""
    key = (layouts.grid.reshape(len(layouts.grid), -1) & 15 == KEY).argmax(1)
    dx, dy = key // layouts.grid.shape[2] - layouts.x, key % layouts.grid.shape[2] - layouts.y
    return dx * 100 + dy * 10 + layouts.direction


def assert_same_generator(n):
    ours, theirs = harness.layouts_of_ours(ENV_ID, 4 * n), harness.layouts_of_reference(ENV_ID, n)
    statistics = [harness.cells, harness.pose, key_and_door, key_and_agent]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    colors = [
        (layouts.grid >> 4 & 7)[np.isin(layouts.grid & 15, (KEY, DOOR))].reshape(-1, 2) for layouts in (ours, theirs)
    ]
    assert all((color[:, 0] == color[:, 1]).all() for color in colors)


def test_layouts_come_from_minigrids_distribution():
    assert_same_generator(1000)


@pytest.mark.long
def test_many_layouts_come_from_minigrids_distribution():
    assert_same_generator(10_000)
