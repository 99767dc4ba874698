"""MultiRoom against MiniGrid's: steps and layouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from parity.minigrid import harness, walker
from parity.minigrid.reference import make_reference
from shoal.core.keys import make_key
from shoal.core.registry import make

pytestmark = pytest.mark.sampled

IDS = [f"MiniGrid-MultiRoom-{name}" for name in ("N2-S4-v0", "N4-S5-v0", "N4-S5-v1", "N6-v0")]
FAMILY = harness.Family()


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def chains(layouts):
    """The rooms from the agent's to the goal's, read off the grid: [layout, room, (x, y, width, height, door x, door y,
    direction of the door, color of the door)]. The first room has no door: zeros."""
    return np.array([chain(layouts.grid[i], (layouts.x[i], layouts.y[i])) for i in range(len(layouts.grid))])


def chain(grid, agent):
    kinds = grid & 15
    rooms, _ = ndimage.label(np.isin(kinds, [1, 8]))
    bounds = ndimage.find_objects(rooms)
    doors = [(int(x), int(y)) for x, y in np.argwhere(kinds == 4)]
    here, door, found = rooms[agent], (0, 0, 0, 0), []
    while True:
        across, down = bounds[here - 1]
        size = (across.stop - across.start + 2, down.stop - down.start + 2)
        found.append((across.start - 1, down.start - 1, *size, *door))
        around = [(x, y, way, rooms[x - dx, y - dy], rooms[x + dx, y + dy])
                  for x, y in doors for way, (dx, dy) in enumerate(walker.STEPS)]  # fmt: skip
        onward = [step for step in around if step[3] == here and step[4] not in (0, here)]
        if not onward:
            break
        x, y, way, _, here = onward[0]
        doors.remove((x, y))
        door = (x, y, way, int(grid[x, y]) >> 4 & 7)
    assert not doors and kinds[bounds[here - 1]].max() == 8
    return found


def where(rooms):
    """Place and size of each room, a column each; with the room before, too."""
    return np.concatenate([rooms[:, :, i] for i in range(4)], axis=1)


def edges(rooms):
    """How far each room reaches to the right and down."""
    return np.concatenate([rooms[:, :, 0] + rooms[:, :, 2], rooms[:, :, 1] + rooms[:, :, 3]], axis=1)


def turns(rooms):
    """Directions of two doors in turn, and where in its wall each door is, seen from both rooms."""
    way = rooms[:, 1:, 6]
    is_side = way % 2 == 0

    def along(part):
        return np.where(is_side, rooms[:, 1:, 5] - part[:, :, 1], rooms[:, 1:, 4] - part[:, :, 0])

    columns = [way, 10 * way + along(rooms[:, :-1]), 10 * way + along(rooms[:, 1:])]
    columns += [10 * way[:, 1:] + way[:, :-1]] if way.shape[1] > 1 else []
    return np.concatenate(columns, axis=1)


def neighbors(rooms):
    """Sizes of two rooms in turn."""
    return np.concatenate([20 * rooms[:, 1:, i] + rooms[:, :-1, i] for i in (2, 3)], axis=1)


def area(rooms):
    """Cells of all rooms together, ten at a time."""
    return (rooms[:, :, 2] * rooms[:, :, 3]).sum(1) // 10


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs)
    of_rooms = [where, edges, turns, neighbors, area]
    of_layouts = [harness.cells, harness.pose, harness.distance_to(8)]
    tests = len(of_rooms) + len(of_layouts) + 2
    for statistic in of_layouts:
        harness.assert_same_distribution(ours, theirs, statistic, tests)
    our_rooms, their_rooms = chains(ours), chains(theirs)
    for statistic in of_rooms:
        harness.assert_same_distribution(our_rooms, their_rooms, statistic, tests)
    assert (harness.distance_to(8)(ours) > 0).all()
    # Each door has a color at random other than the last one's.
    colors = our_rooms[:, 1:, 7]
    harness.assert_frequencies(colors.ravel(), dict.fromkeys(range(6), 1 / 6), tests)
    if colors.shape[1] > 1:
        steps = (np.diff(colors, axis=1) % 6).ravel()
        harness.assert_frequencies(steps, dict.fromkeys(range(1, 6), 1 / 5), tests)


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 2000, 1000)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 10_000, 10_000)


class QueuedNumbers:
    """Returns our random numbers to MiniGrid in the order of its calls."""

    def __init__(self, lots):
        self.lots, self.proposals, self.queue = lots, 0, []

    def begin(self, order):
        self.queue = [(self.lots[self.proposals, abs(i)], i < 0) for i in order]
        self.proposals += 1

    def __call__(self, low, high):
        if not self.queue:  # the wall of a new proposal comes first
            self.begin((2, 3, 0, 1, -4))
        lot, is_reversed = self.queue.pop(0)
        number = int(lot * np.float32(high - low))
        return high - 1 - number if is_reversed else low + number


def placed_by_reference(reference, lots, count):
    """MiniGrid's chain of rooms from our random numbers: rows of (x, y, width, height, door x, door y)."""
    rooms, reference._rand_int = [], QueuedNumbers(lots)
    while len(rooms) < count:
        reference._rand_int.begin((3, 4, 0, 1))
        entry = (reference._rand_int(0, reference.width - 2), reference._rand_int(0, reference.width - 2))
        rooms = []
        reference._placeRoom(count, rooms, 4, reference.maxRoomSize, 2, entry)
        reference._rand_int.queue.clear()
    return [(*room.top, *room.size, *room.entryDoorPos) for room in rooms]


@pytest.mark.parametrize("env_id", IDS)
def test_the_same_random_numbers_make_the_same_rooms(env_id):
    level, reference = make(env_id), make_reference(env_id)
    keys = jax.random.split(make_key(0), 100)
    ours = jax.vmap(lambda key: level._chain(key, jnp.int32(level.max_rooms)))(keys)
    lots = jax.vmap(
        lambda key: jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i), (5,)))(np.arange(600))
    )
    rows = np.stack([np.asarray(field) for field in ours[:6]], -1)
    for mine, numbers in zip(rows, np.asarray(lots(keys)), strict=True):
        assert mine.tolist() == [list(map(int, room)) for room in placed_by_reference(reference, numbers, len(mine))]
