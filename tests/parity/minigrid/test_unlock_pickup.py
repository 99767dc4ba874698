"""UnlockPickup and BlockedUnlockPickup against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, pick_up
from shoal.grid.cells import OBJECTS

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(
    task_of=pick_up.task_of,
    fields_of=pick_up.fields_of,
    scripts=(pick_up.take_target, pick_up.take_target, pick_up.open_target),
)
IDS = ["MiniGrid-UnlockPickup-v0", "MiniGrid-BlockedUnlockPickup-v0"]
KEY, BALL, BOX, DOOR = (OBJECTS.index(name) for name in ("key", "ball", "box", "door"))


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def where(kind):
    return lambda layouts: (layouts.grid.reshape(len(layouts.grid), -1) & 15 == kind).argmax(1)


def key_and_door(layouts):
    return where(KEY)(layouts) * 1000 + where(DOOR)(layouts)


def colors(*kinds):
    """Of single objects of these kinds, as one number; the door's color is the key's."""

    def number(layouts):
        cells = layouts.grid.reshape(len(layouts.grid), -1)
        return sum((np.where(cells & 15 == kind, cells >> 4 & 7, 0)).sum(1) * 6**i for i, kind in enumerate(kinds))

    return number


def assert_same_generator(env_id, n):
    ours = harness.layouts_of_ours(env_id, 4 * n)
    theirs = harness.layouts_of_reference(env_id, n, fields_of=pick_up.fields_of)
    pairs = [colors(DOOR, BOX), colors(DOOR, BALL)]
    statistics = [harness.cells, harness.pose, harness.mission, where(BOX), key_and_door, *pairs]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert pick_up.is_solvable(ours).all() and pick_up.is_solvable(theirs).all()
    assert (harness.number_of(BOX)(ours) == 1).all()  # so the box is known by its looks
    # Nothing lies next to (8, 3), where MiniGrid has the agent until it is placed: 11 of 16 cells are left.
    allowed = [6 * x + y for x in range(6, 10) for y in range(1, 5) if abs(x - 8) + abs(y - 3) > 1]
    harness.assert_frequencies(where(BOX)(ours), dict.fromkeys(allowed, 1 / 11))


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 10_000)


def test_the_ball_is_right_in_front_of_the_door():
    ours = harness.layouts_of_ours(IDS[1], 4000)
    assert (where(DOOR)(ours) - where(BALL)(ours) == 6).all()  # one column, of height 6, to its left
