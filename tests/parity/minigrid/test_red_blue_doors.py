"""RedBlueDoors against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import ObjectAt, position_of

pytestmark = pytest.mark.sampled

IDS = ["MiniGrid-RedBlueDoors-6x6-v0", "MiniGrid-RedBlueDoors-8x8-v0"]
RED_DOOR, BLUE_DOOR = 4, 4 | 2 << 4  # object and color, whatever the state


def task_of(s):
    red, blue = (ObjectAt(*np.argwhere(s.grid & 0x7F == door)[0]) for door in (RED_DOOR, BLUE_DOOR))
    return {"red_door": red, "blue_door": blue}


def open_in_order(env):
    door = env.blue_door if env.red_door.is_open else env.red_door
    return walker.use(env, position_of(env, door), walker.TOGGLE)


def open_blue(env):
    return walker.use(env, position_of(env, env.blue_door), walker.TOGGLE)


FAMILY = harness.Family(task_of=task_of, scripts=(open_in_order, open_blue), fails=True)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs)
    statistics = [harness.cells, harness.pose]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 1)
    assert (harness.distance_to(4)(ours) > 0).all()
    # Rows of the two doors, and where between them the agent is and looks: everything there is, each as likely.
    size = ours.grid.shape[2]
    rows = [np.argwhere(ours.grid & 0x7F == door)[:, 2] for door in (RED_DOOR, BLUE_DOOR)]
    whole = np.stack([*rows, ours.x - size // 2, ours.y, ours.direction + 1], 1) - 1
    numbers = np.ravel_multi_index(whole.T, (size - 2,) * 4 + (4,))
    count = (size - 2) ** 4 * 4
    if n >= 5 * count:
        harness.assert_frequencies(numbers, dict.fromkeys(range(count), 1 / count), tests=len(statistics) + 1)
    pairs = numbers // 4 // (size - 2) ** 2
    harness.assert_frequencies(
        pairs, dict.fromkeys(range((size - 2) ** 2), (size - 2) ** -2), tests=len(statistics) + 1
    )


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
