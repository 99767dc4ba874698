"""PutNear against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import find
from shoal.grid.cells import COLORS, OBJECTS, cell, color_of, object_of

pytestmark = pytest.mark.sampled

IDS = ["MiniGrid-PutNear-6x6-N2-v0", "MiniGrid-PutNear-8x8-N3-v0"]
AROUND = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]


def fields_of(env):
    moved, target = cell(env.move_type, env.moveColor), cell(env.target_type, env.target_color)
    x, y = env.target_pos
    return {"moved": moved, "target": target, "target_x": x, "target_y": y}


def task_of(s):
    kind, color = OBJECTS[object_of(s.moved)], COLORS[color_of(s.moved)]
    return {"target_pos": (int(s.target_x), int(s.target_y)), "move_type": kind, "moveColor": color}


def put_near(env):
    """Pick up what is to be moved, and drop it in a free cell near the target."""
    if env.carrying is None:
        return take(env)
    near = [(env.target_pos[0] + dx, env.target_pos[1] + dy) for dx, dy in AROUND]
    tries = (walker.use(env, cell, walker.DROP) for cell in near if env.grid.get(*cell) is None)
    return next((action for action in tries if action is not None), None)


def put_anywhere(env):
    """Pick up what is to be moved, and try to drop it at once."""
    return take(env) if env.carrying is None else walker.DROP


def take_the_target(env):
    return walker.use(env, env.target_pos, walker.PICKUP)


def take(env):
    try:
        return walker.use(env, find(env, env.move_type, env.moveColor), walker.PICKUP)
    except ValueError:  # a box that was opened is gone
        return None


FAMILY = harness.Family(
    task_of=task_of, fields_of=fields_of, scripts=(put_near, put_near, put_anywhere, take_the_target), fails=True
)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def named(layouts):
    """What is moved and what it is put near to, each and together."""
    moved, target = (layouts.fields[name].astype(int) for name in ("moved", "target"))
    return np.stack([moved, target, 1000 * moved + target], 1)


def offsets(layouts):
    """From the target to what is moved, and to the agent."""
    x, y = layouts.fields["target_x"].astype(int), layouts.fields["target_y"].astype(int)
    _, moved_x, moved_y = np.nonzero(layouts.grid == layouts.fields["moved"][:, None, None])
    return np.stack([100 * (moved_x - x) + moved_y - y, 100 * (layouts.x - x) + layouts.y - y], 1)


def spread(layouts):
    """The sum of the distances between things."""
    _, x, y = np.nonzero(np.isin(layouts.grid & 15, [5, 6, 7]))
    x, y = x.reshape(len(layouts.grid), -1), y.reshape(len(layouts.grid), -1)
    steps = np.maximum(np.abs(x[:, :, None] - x[:, None]), np.abs(y[:, :, None] - y[:, None]))
    assert np.isin(steps[:, *np.triu_indices(x.shape[1], 1)], range(2, 9)).all()
    return steps.sum((1, 2))


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs, 0, fields_of)
    statistics = [harness.cells, harness.pose, named, offsets, spread]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 1)
    looks = [kind | color << 4 for kind in (5, 6, 7) for color in range(6)]
    pairs = {1000 * a + b: 1 / (18 * 17) for a in looks for b in looks if a != b}
    harness.assert_frequencies(named(ours)[:, 2], pairs, tests=len(statistics) + 1)


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
