"""GoToDoor against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from shoal.grid.cells import WALL, cell

pytestmark = pytest.mark.sampled

IDS = [f"MiniGrid-GoToDoor-{size}x{size}-v0" for size in (5, 6, 8)]


def fields_of(env):
    x, y = env.target_pos
    return {"target": cell("door", env.target_color, "closed"), "target_x": x, "target_y": y}


FAMILY = harness.Family(
    task_of=lambda s: {"target_pos": (int(s.target_x), int(s.target_y))},
    fields_of=fields_of,
    scripts=(lambda env: walker.use(env, env.target_pos, walker.DONE),),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def sizes(layouts):
    """Width and height of the room, as one number."""
    walls = layouts.grid == WALL
    across, down = walls.any(2), walls.any(1)
    width, height = (part.shape[1] - part[:, ::-1].argmax(1) for part in (across, down))
    return 10 * width + height


def doors(layouts):
    """The place and the color of the door in each wall of the room: left, top, right, bottom."""
    width, height = np.divmod(sizes(layouts), 10)
    n = np.arange(len(width))
    found = []
    for wall in (layouts.grid[:, 0], layouts.grid[:, :, 0], layouts.grid[n, width - 1], layouts.grid[n, :, height - 1]):
        is_door = wall & 15 == 4
        assert (is_door.sum(1) == 1).all()
        found.append(wall[is_door].astype(int) + 1000 * is_door.argmax(1))
    return np.stack(found, 1)


def with_size(statistic):
    """A statistic together with the size of the room."""
    return lambda layouts: (
        statistic(layouts) + 100_000 * sizes(layouts).reshape(-1, *[1] * (statistic(layouts).ndim - 1))
    )


def pairs(layouts):
    """Colors of two neighboring doors together."""
    colors = doors(layouts) % 1000
    return 1000 * colors + np.roll(colors, 1, axis=1)


def target(layouts):
    """In which wall the target is."""
    colors = doors(layouts) % 1000
    return (colors == layouts.fields["target"][:, None].astype(int)).argmax(1)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs, 0, fields_of)
    largest = ours.grid.shape[1]
    statistics = [harness.cells, doors, pairs, target, harness.mission, with_size(harness.pose), with_size(doors)]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 2)
    every = [10 * w + h for w in range(5, largest + 1) for h in range(5, largest + 1)]
    harness.assert_frequencies(sizes(ours), dict.fromkeys(every, 1 / len(every)), tests=len(statistics) + 2)
    harness.assert_frequencies(target(ours), dict.fromkeys(range(4), 1 / 4), tests=len(statistics) + 2)


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
