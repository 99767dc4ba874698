"""FourRooms against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness
from shoal.grid.cells import EMPTY, GOAL

pytestmark = pytest.mark.sampled

FAMILY = harness.Family()
ENV_ID = "MiniGrid-FourRooms-v0"


@harness.few_and_many
def test_steps_match_minigrid(steps):
    harness.assert_steps_match(ENV_ID, FAMILY, steps)


def openings(layouts):
    """Where the four halves of the walls are open; a goal may lie in an opening."""
    is_open = (layouts.grid == EMPTY) | (layouts.grid == GOAL)
    halves = (is_open[:, 9, 1:9], is_open[:, 9, 10:18], is_open[:, 1:9, 9], is_open[:, 10:18, 9])
    assert all((half.sum(1) == 1).all() for half in halves)
    return np.stack([half.argmax(1) for half in halves], axis=1)


def rooms(layouts):
    """Which rooms agent and goal are in; walls and openings count as the room before."""
    goal = harness.position_of(int(GOAL))(layouts)
    return (layouts.x > 9) * 8 + (layouts.y > 9) * 4 + (goal // 19 > 9) * 2 + (goal % 19 > 9)


def assert_same_generator(ours, theirs):
    goal = harness.position_of(int(GOAL))
    statistics = [harness.cells, harness.pose, goal, openings, rooms, harness.distance_to(8)]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert (harness.distance_to(8)(ours) > 0).all()
    harness.assert_frequencies(openings(ours).reshape(-1), dict.fromkeys(range(8), 1 / 8))


def test_layouts_come_from_minigrids_distribution():
    assert_same_generator(harness.layouts_of_ours(ENV_ID, 4000), harness.layouts_of_reference(ENV_ID, 1000))


@pytest.mark.long
def test_many_layouts_come_from_minigrids_distribution():
    assert_same_generator(harness.layouts_of_ours(ENV_ID, 40_000), harness.layouts_of_reference(ENV_ID, 10_000))
