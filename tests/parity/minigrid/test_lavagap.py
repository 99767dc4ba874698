"""LavaGap against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker

pytestmark = pytest.mark.sampled

FAMILY = harness.Family(scripts=(walker.reach_goal, walker.reach_lava), fails=True)
IDS = ["MiniGrid-LavaGapS5-v0", "MiniGrid-LavaGapS6-v0", "MiniGrid-LavaGapS7-v0"]


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def assert_every_layout_is_as_likely(env_id, n):
    ours, theirs = harness.layouts_of_ours(env_id, n), harness.layouts_of_reference(env_id, 500)
    inner = ours.grid.shape[1] - 2
    names = sorted(set(harness.whole(theirs).tolist()))
    assert len(names) == (inner - 2) * inner  # columns of the strip x rows of the gap
    harness.assert_frequencies(harness.whole(ours), dict.fromkeys(names, 1 / len(names)))
    assert (harness.distance_to(8)(ours) > 0).all()


@pytest.mark.parametrize("env_id", IDS)
def test_every_layout_is_as_likely_as_any_other(env_id):
    assert_every_layout_is_as_likely(env_id, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_every_one_of_many_layouts_is_as_likely_as_any_other(env_id):
    assert_every_layout_is_as_likely(env_id, 10_000)
