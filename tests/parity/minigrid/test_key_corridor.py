"""KeyCorridor against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, pick_up
from shoal.core.registry import make
from shoal.grid.cells import LOCKED, OBJECTS

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(task_of=pick_up.task_of, fields_of=pick_up.fields_of, scripts=(pick_up.take_target,))
IDS = [f"MiniGrid-KeyCorridor{size}-v0" for size in ("S3R1", "S3R2", "S3R3", "S4R3", "S5R3", "S6R3")]
KEY, BALL, DOOR = (OBJECTS.index(name) for name in ("key", "ball", "door"))


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def doors_of(room_size):
    """Which walls have a door, as one number: the doors' places in units of rooms."""

    def doors(layouts):
        pitch = room_size - 1
        door = layouts.grid & 15 == DOOR
        return (
            sum(
                door[:, x : x + pitch, y : y + pitch].any((1, 2)).astype(np.int64) << 8 * (x // pitch) + y // pitch
                for x in range(0, door.shape[1], pitch)
                for y in range(0, door.shape[2], pitch)
            )
            + sum(  # doors in vertical walls, apart from those in horizontal ones
                door[:, x, y + 1 : y + pitch].any(1).astype(np.int64) << 32 + 8 * (x // pitch) + y // pitch
                for x in range(0, door.shape[1], pitch)
                for y in range(0, door.shape[2] - 1, pitch)
            )
        )

    return doors


def rows(room_size):
    """In which rows of rooms the locked door, the key and the ball are."""

    def numbers(layouts):
        grid = layouts.grid.reshape(len(layouts.grid), -1)
        locked = (grid & 15 == DOOR) & (grid >> 7 & 3 == LOCKED)
        where = [mask.argmax(1) % layouts.grid.shape[2] for mask in (locked, grid & 15 == KEY, grid & 15 == BALL)]
        row = [y // (room_size - 1) for y in where]
        return row[0] * 9 + row[1] * 3 + row[2]

    return numbers


def colors(layouts):
    """Of ball, and of the one key."""
    kinds = [layouts.grid & 15 == kind for kind in (BALL, KEY)]
    ball, key = (np.where(kind, layouts.grid >> 4 & 7, 0).sum((1, 2)) for kind in kinds)
    return ball * 6 + key


def assert_same_generator(env_id, n):
    size = make(env_id).room_size
    ours = harness.layouts_of_ours(env_id, 4 * n)
    theirs = harness.layouts_of_reference(env_id, n, fields_of=pick_up.fields_of)
    doors = harness.number_of(DOOR)
    statistics = [harness.cells, harness.pose, harness.mission, doors, doors_of(size), rows(size), colors]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert pick_up.is_solvable(ours).all() and pick_up.is_solvable(theirs).all()
    assert (harness.number_of(BALL)(ours) == 1).all()  # so the ball is known by its looks


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 10_000)
