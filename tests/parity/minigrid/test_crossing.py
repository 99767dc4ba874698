"""Crossing against MiniGrid's: steps and layouts."""

from math import comb

import numpy as np
import pytest

from parity.minigrid import harness, walker
from shoal.grid.cells import EMPTY, GOAL, LAVA

pytestmark = pytest.mark.sampled

LAVA_IDS = [f"MiniGrid-LavaCrossing{size}-v0" for size in ("S9N1", "S9N2", "S9N3", "S11N5")]
WALL_IDS = [f"MiniGrid-SimpleCrossing{size}-v0" for size in ("S9N1", "S9N2", "S9N3", "S11N5")]
FAMILIES = {
    **dict.fromkeys(LAVA_IDS, harness.Family(scripts=(walker.reach_goal, walker.reach_lava), fails=True)),
    **dict.fromkeys(WALL_IDS, harness.Family()),
}


@pytest.mark.parametrize("env_id", FAMILIES)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILIES[env_id], steps)


def is_free(layouts):
    return ((layouts.grid == EMPTY) | (layouts.grid == GOAL))[:, 1:-1, 1:-1]


def rivers(layouts):
    """Which columns and rows are rivers, as the digits of a number: they are mostly not free."""
    free = is_free(layouts)
    most = free.shape[1] // 2
    lines = np.concatenate([free.sum(2) <= most, free.sum(1) <= most], axis=1)
    return lines @ (1 << np.arange(lines.shape[1]))


def shares(layouts):
    """How many of the rivers are columns."""
    return np.bitwise_count(rivers(layouts) & (1 << is_free(layouts).shape[1]) - 1)


def first_exit(layouts):
    """Whether the room that the agent starts in opens to the right (1) or down (0); -1 where it has only one side."""
    free, size = is_free(layouts), is_free(layouts).shape[1]
    lines = rivers(layouts)[:, None] >> np.arange(2 * size) & 1
    columns, rows = lines[:, :size], lines[:, size:]
    right = [f[c, :r].any() for f, c, r in zip(free, columns.argmax(1), rows.argmax(1), strict=True)]
    return np.where(columns.any(1) & rows.any(1), right, -1)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, n_theirs)
    statistics = [harness.cells, rivers, shares, first_exit, harness.distance_to(8)]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    assert (harness.distance_to(8)(ours) > 0).all()  # NAVIX left 5 % of S11N5 without a way
    exits = first_exit(ours)
    if (exits >= 0).any():
        harness.assert_frequencies(exits[exits >= 0], {0: 0.5, 1: 0.5})
    places = {"S9": 3, "S11": 4}[env_id.split("Crossing")[1].split("N")[0]]
    chosen = int(env_id.split("-v0")[0][-1])
    ways = {k: comb(places, k) * comb(places, chosen - k) / comb(2 * places, chosen) for k in range(chosen + 1)}
    harness.assert_frequencies(shares(ours), {k: p for k, p in ways.items() if p})


@pytest.mark.parametrize("env_id", FAMILIES)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 500)


@pytest.mark.long
@pytest.mark.parametrize("env_id", FAMILIES)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)


@pytest.mark.parametrize("env_id", [LAVA_IDS[0], WALL_IDS[0]])
def test_every_layout_with_one_river_is_as_likely_as_any_other(env_id):
    ours, theirs = harness.layouts_of_ours(env_id, 4000), harness.layouts_of_reference(env_id, 1000)
    names = sorted(set(harness.whole(theirs).tolist()))
    assert len(names) == 6 * 7  # rivers x openings
    harness.assert_frequencies(harness.whole(ours), dict.fromkeys(names, 1 / len(names)))


def test_lava_and_walls_have_the_same_layouts():
    assert (harness.layouts_of_ours(LAVA_IDS[2], 10).grid == LAVA).any((1, 2)).all()
    assert not (harness.layouts_of_ours(WALL_IDS[2], 10).grid == LAVA).any()
    assert np.array_equal(
        is_free(harness.layouts_of_ours(LAVA_IDS[2], 10)), is_free(harness.layouts_of_ours(WALL_IDS[2], 10))
    )
