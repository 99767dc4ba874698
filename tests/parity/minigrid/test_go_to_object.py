"""GoToObject against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from shoal.grid.cells import cell

pytestmark = pytest.mark.sampled

IDS = [f"MiniGrid-GoToObject-{size}x{size}-N2-v0" for size in (6, 8)]


def fields_of(env):
    x, y = env.target_pos
    return {"target": cell(env.targetType, env.target_color), "target_x": x, "target_y": y}


def take_it_and_stop(env):
    """Pick the target up, then stop where it lay."""
    lies_there = env.grid.get(*env.target_pos) is not None
    return walker.use(env, env.target_pos, walker.PICKUP if lies_there and env.carrying is None else walker.DONE)


FAMILY = harness.Family(
    task_of=lambda s: {"target_pos": (int(s.target_x), int(s.target_y))},
    fields_of=fields_of,
    scripts=(lambda env: walker.use(env, env.target_pos, walker.DONE), take_it_and_stop),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def things(layouts):
    """What lies in the room, in the order of its cells: one column a thing, and all together."""
    cells = harness.cells(layouts)
    each = cells[np.isin(cells & 15, [5, 6, 7])].reshape(len(cells), -1).astype(int)
    return np.column_stack([each, each @ 1000 ** np.arange(each.shape[1])])


def offsets(layouts):
    """From the target to the other thing, and from the target to the agent."""
    x, y = layouts.fields["target_x"].astype(int), layouts.fields["target_y"].astype(int)
    lies = np.isin(layouts.grid & 15, [5, 6, 7])
    lies[np.arange(len(x)), x, y] = False
    _, other_x, other_y = np.nonzero(lies)
    return np.stack([100 * (other_x - x) + other_y - y, 100 * (layouts.x - x) + layouts.y - y], 1)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs, 0, fields_of)
    statistics = [harness.cells, harness.pose, harness.mission, things, offsets]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 2)
    looks = [kind | color << 4 for kind in (5, 6, 7) for color in range(6)]
    pairs = {a + 1000 * b: 1 / (18 * 17) for a in looks for b in looks if a != b}
    harness.assert_frequencies(things(ours)[:, 2], pairs, tests=len(statistics) + 2)
    harness.assert_frequencies(ours.fields["target"], dict.fromkeys(looks, 1 / 18), tests=len(statistics) + 2)


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
