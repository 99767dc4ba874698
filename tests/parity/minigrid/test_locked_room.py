"""LockedRoom against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, pick_up, walker
from shoal.grid.cells import COLORS, GOAL, OBJECTS

pytestmark = pytest.mark.sampled

ENV_ID = "MiniGrid-LockedRoom-v0"
KEY, GOAL_KIND, DOOR = (OBJECTS.index(name) for name in ("key", "goal", "door"))


def fields_of(env):
    words = env.mission.split()  # get the {} key from the {} room, ...
    return {"key_color": COLORS.index(words[2]), "room_color": COLORS.index(words[6])}


FAMILY = harness.Family(fields_of=fields_of, scripts=(walker.fetch_key_and_reach_goal,))


@harness.few_and_many
def test_steps_match_minigrid(steps):
    harness.assert_steps_match(ENV_ID, FAMILY, steps)


def room_of(kind):
    """In which of the six rooms an object is, from left to right and from top to bottom."""

    def room(layouts):
        position = (layouts.grid.reshape(len(layouts.grid), -1) & 15 == kind).argmax(1)
        return (position // 19 > 9) + (position % 19 // 6) * 2

    return room


def rooms(layouts):
    """The rooms of goal and key."""
    return room_of(GOAL_KIND)(layouts) * 6 + room_of(KEY)(layouts)


def named_rooms(layouts):
    """The rooms of goal and key as the mission names them: by the colors of their doors."""
    doors = (layouts.grid & 15 == DOOR) * (1 + (layouts.grid >> 4 & 7).astype(int))
    colors = np.stack([doors[:, 7 + 4 * (room % 2), room // 2 * 6 + 3] - 1 for room in range(6)], axis=1)
    number = [(colors == layouts.fields[name][:, None]).argmax(1) for name in ("key_color", "room_color")]
    assert all((np.sort(colors, axis=1) == np.arange(6)).all(1))
    return number[0] * 6 + number[1]


def assert_same_generator(n):
    ours = harness.layouts_of_ours(ENV_ID, 4 * n)
    theirs = harness.layouts_of_reference(ENV_ID, n, fields_of=fields_of)
    statistics = [harness.cells, harness.pose, rooms, named_rooms]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert (rooms(ours) == named_rooms(ours)).all() and (rooms(theirs) == named_rooms(theirs)).all()
    goal = {"target": np.full(len(ours.x), GOAL)}
    assert pick_up.is_solvable(ours._replace(fields=goal)).all()
    wanted = {6 * goal + key: 1 / 30 for goal in range(6) for key in range(6) if goal != key}
    harness.assert_frequencies(rooms(ours), wanted)


def test_layouts_come_from_minigrids_distribution():
    assert_same_generator(1000)


@pytest.mark.long
def test_many_layouts_come_from_minigrids_distribution():
    assert_same_generator(10_000)
