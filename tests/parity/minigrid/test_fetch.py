"""Fetch against MiniGrid's: steps and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from shoal.envs.minigrid.fetch import WORDINGS
from shoal.grid.cells import COLORS, OBJECTS, cell, color_of, object_of

pytestmark = pytest.mark.sampled

IDS = [f"MiniGrid-Fetch-{name}-v0" for name in ("5x5-N2", "6x6-N2", "8x8-N3")]


def is_meant(env, thing):
    return (thing.type, thing.color) == (env.targetType, env.targetColor)


def pick_up(env, meant):
    """Go to a thing that the mission names, or to another, and pick it up."""
    for i, thing in enumerate(env.grid.grid):
        if thing is not None and thing.type != "wall" and is_meant(env, thing) == meant:
            return walker.use(env, (i % env.width, i // env.width), walker.PICKUP)
    return None


def fields_of(env):
    text = env.mission.replace(f"{env.targetColor} {env.targetType}", "{} {}")
    return {"target": cell(env.targetType, env.targetColor), "wording": WORDINGS.index(text)}


FAMILY = harness.Family(
    task_of=lambda s: {"targetType": OBJECTS[object_of(s.target)], "targetColor": COLORS[color_of(s.target)]},
    fields_of=fields_of,
    scripts=(lambda env: pick_up(env, True), lambda env: pick_up(env, False)),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def things(layouts):
    """What lies in the room, in the order of its cells: one column a thing."""
    cells = harness.cells(layouts)
    lies = np.isin(cells & 15, [5, 6])
    return cells[lies].reshape(len(cells), -1)


def places(layouts):
    """Where the things lie: one category for the set of cells in a small room, else how far apart the first two lie."""
    _, x, y = np.nonzero(np.isin(layouts.grid & 15, [5, 6]))
    x, y = x.reshape(len(layouts.grid), -1), y.reshape(len(layouts.grid), -1)
    if layouts.grid.shape[1] == 5:
        return (9 * (3 * x[:, 0] + y[:, 0]) + 3 * x[:, 1] + y[:, 1]).astype(int)
    return 16 * np.abs(x[:, 0] - x[:, 1]) + np.abs(y[:, 0] - y[:, 1])


def is_twin(layouts):
    """How many things look like the target."""
    return (things(layouts) == layouts.fields["target"][:, None]).sum(1)


def which(layouts):
    """Which of the things, in the order of cells, is the target."""
    return (things(layouts) == layouts.fields["target"][:, None]).argmax(1)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs, 0, fields_of)
    statistics = [harness.cells, harness.pose, things, places, is_twin, which]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 2)
    texts = [text.format(color, kind) for text in WORDINGS for color in COLORS for kind in ("key", "ball")]
    harness.assert_frequencies(ours.mission, dict.fromkeys(texts, 1 / 60), tests=len(statistics) + 2)
    inner = ours.grid.shape[1] - 2
    poses = [(x * (inner + 2) + y) * 4 + d for x in range(1, inner + 1) for y in range(1, inner + 1) for d in range(4)]
    harness.assert_frequencies(harness.pose(ours), dict.fromkeys(poses, 1 / len(poses)), tests=len(statistics) + 2)


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
