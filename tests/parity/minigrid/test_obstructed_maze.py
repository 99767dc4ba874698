"""ObstructedMaze against MiniGrid's: steps and layouts, versions 0 and 1."""

import numpy as np
import pytest

from parity.minigrid import harness, pick_up
from shoal.grid.cells import OBJECTS

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(task_of=pick_up.task_of, fields_of=pick_up.fields_of, scripts=(pick_up.take_target,))
COVERED = [f"MiniGrid-ObstructedMaze-{name}-v0" for name in ("2Dlhb", "1Q", "2Q", "Full")]
SOUND = [
    *(f"MiniGrid-ObstructedMaze-{name}-v0" for name in ("1Dl", "1Dlh", "1Dlhb", "2Dl", "2Dlh")),
    *(env_id.replace("v0", "v1") for env_id in COVERED),
]
KEY, BALL, BOX, DOOR = (OBJECTS.index(name) for name in ("key", "ball", "box", "door"))


@pytest.mark.parametrize("env_id", SOUND + COVERED)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def hidden(layouts):
    """How many keys there are, and how many of them in boxes."""
    in_box = (layouts.grid >> 9 & 15 == KEY).sum((1, 2))
    return in_box * 100 + in_box + harness.number_of(KEY)(layouts)


def blue_ball(layouts):
    return (layouts.grid == layouts.fields["target"][:, None, None]).reshape(len(layouts.grid), -1).argmax(1)


def door_colors(layouts):
    """The colors of the first two doors, and how many colors there are."""
    grid = layouts.grid.reshape(len(layouts.grid), -1)
    color = np.where(grid & 15 == DOOR, grid >> 4 & 7, 6)
    first = np.argsort(color == 6, axis=1, kind="stable")[:, :2]
    pair = np.take_along_axis(color, first, axis=1)
    return pair[:, 0] * 100 + pair[:, 1] * 10 + sum((color == each).any(1).astype(int) for each in range(6))


def doors(layouts):
    """Where doors are in the whole, up to their places in the walls."""
    return (layouts.grid & 15 == DOOR).sum(1 + (layouts.grid.shape[1] > layouts.grid.shape[2]))


def assert_same_generator(env_id, n):
    ours = harness.layouts_of_ours(env_id, 4 * n)
    theirs = harness.layouts_of_reference(env_id, n, fields_of=pick_up.fields_of)
    statistics = [
        harness.cells, harness.pose, harness.mission, hidden, blue_ball, door_colors, doors, pick_up.is_solvable,
    ]  # fmt: skip
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    return ours, theirs


@pytest.mark.parametrize("env_id", SOUND)
def test_layouts_come_from_minigrids_distribution_and_can_be_solved(env_id):
    assert all(pick_up.is_solvable(layouts).all() for layouts in assert_same_generator(env_id, 700))


@pytest.mark.parametrize("env_id", COVERED)
def test_a_ball_may_cover_a_key_in_version_0_as_often_as_in_minigrid(env_id):
    ours, theirs = assert_same_generator(env_id, 700)
    # Up to four first keys, each under the second door's ball about once in 15 times, its room having as many cells.
    boxes = [harness.number_of(BOX)(layouts) for layouts in (ours, theirs)]
    assert all(0.02 < (number < number.max()).mean() < 0.35 for number in boxes)
    # A corner of the full maze has two doors, and only one of them a key that can be covered.
    assert pick_up.is_solvable(ours).all() == ("Full" in env_id)


@pytest.mark.long
@pytest.mark.parametrize("env_id", SOUND + COVERED)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    ours, theirs = assert_same_generator(env_id, 10_000)
    assert env_id in COVERED or (pick_up.is_solvable(ours).all() and pick_up.is_solvable(theirs).all())
