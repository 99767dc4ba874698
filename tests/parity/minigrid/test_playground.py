"""Playground against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness
from shoal.grid.cells import OBJECTS

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(scripts=(), succeeds=False)
ENV_ID = "MiniGrid-Playground-v0"
KEY, BALL, BOX, DOOR = (OBJECTS.index(name) for name in ("key", "ball", "box", "door"))


@harness.few_and_many
def test_steps_match_minigrid(steps):
    harness.assert_steps_match(ENV_ID, FAMILY, steps)


def things(layouts):
    """How many keys, balls and boxes there are."""
    return np.stack([harness.number_of(kind)(layouts) for kind in (KEY, BALL, BOX)], axis=1)


def things_next_to_the_agent(layouts):
    """How many things lie in the cells around the agent: MiniGrid does not keep them away from it."""
    thing = np.isin(layouts.grid & 15, (KEY, BALL, BOX))
    many, (x, y) = np.arange(len(thing)), (layouts.x, layouts.y)
    return sum(thing[many, x + dx, y + dy].astype(int) for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)))


def assert_same_generator(n):
    ours, theirs = harness.layouts_of_ours(ENV_ID, 4 * n), harness.layouts_of_reference(ENV_ID, n)
    statistics = [harness.cells, harness.pose, things, things_next_to_the_agent]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert (things(ours).sum(1) == 12).all() and (harness.number_of(DOOR)(ours) == 12).all()


def test_layouts_come_from_minigrids_distribution():
    assert_same_generator(1000)


@pytest.mark.long
def test_many_layouts_come_from_minigrids_distribution():
    assert_same_generator(10_000)
