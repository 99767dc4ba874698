"""DoorKey against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import WALL
from shoal.grid.cells import cell

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(scripts=(walker.fetch_key_and_reach_goal,))
IDS = [f"MiniGrid-DoorKey-{size}x{size}-v0" for size in (5, 6, 8, 16)]


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def agent_and_key(layouts):
    key = harness.position_of(int(cell("key", "yellow")))(layouts)
    return key * 1000 + layouts.x * layouts.grid.shape[2] + layouts.y


def agent_and_door(layouts):
    door = harness.position_of(int(cell("door", "yellow", "locked")))(layouts)
    return door * 1000 + layouts.x * layouts.grid.shape[2] + layouts.y


def assert_same_generator(env_id, n):
    ours, theirs = harness.layouts_of_ours(env_id, 4 * n), harness.layouts_of_reference(env_id, n)
    statistics = [harness.cells, harness.pose, agent_and_key, agent_and_door, harness.distance_to(8)]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert (harness.distance_to(8)(ours) > 0).all()  # every goal can be reached once the door is open
    assert (harness.distance_to(5)(locked_in(ours)) > 0).all()  # and every key before


def locked_in(layouts):
    """The layouts with their doors turned to walls."""
    return layouts._replace(grid=np.where(layouts.grid & 15 == 4, WALL, layouts.grid))


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 10_000)


@pytest.mark.long
def test_every_small_layout_is_as_likely_as_minigrid_makes_it():
    # 5x5: the wall is in column 2, the door in row 1 or 2 of it; key and agent take two of three cells.
    ours = harness.whole(harness.layouts_of_ours("MiniGrid-DoorKey-5x5-v0", 10_000))
    theirs = harness.whole(harness.layouts_of_reference("MiniGrid-DoorKey-5x5-v0", 2_000))
    names = sorted(set(theirs.tolist()))
    assert len(names) == 2 * 3 * 2 * 4
    harness.assert_frequencies(ours, dict.fromkeys(names, 1 / len(names)))
