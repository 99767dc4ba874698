"""DistShift against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker

FAMILY = harness.Family(scripts=(walker.reach_goal, walker.reach_lava), fails=True)
IDS = ["MiniGrid-DistShift1-v0", "MiniGrid-DistShift2-v0"]


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


@pytest.mark.parametrize("env_id", IDS)
def test_the_layout_is_minigrids(env_id):
    ours, theirs = harness.layouts_of_ours(env_id, 100), harness.layouts_of_reference(env_id, 10)
    assert set(harness.whole(ours).tolist()) == set(harness.whole(theirs).tolist())
