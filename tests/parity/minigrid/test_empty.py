"""Empty against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness

pytestmark = pytest.mark.sampled

FAMILY = harness.Family()
IDS = [
    "MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-6x6-v0", "MiniGrid-Empty-8x8-v0", "MiniGrid-Empty-16x16-v0",
    "MiniGrid-Empty-Random-5x5-v0", "MiniGrid-Empty-Random-6x6-v0",
]  # fmt: skip


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


@pytest.mark.parametrize("env_id", [name for name in IDS if "Random" in name])
def test_the_agent_starts_anywhere_but_on_the_goal(env_id):
    ours, theirs = harness.layouts_of_ours(env_id, 2000), harness.layouts_of_reference(env_id, 500)
    inner = ours.grid.shape[1] - 2
    wholes = set(harness.whole(theirs).tolist())
    poses = 4 * (inner**2 - 1)
    assert len(wholes) == poses
    harness.assert_frequencies(harness.whole(ours), dict.fromkeys(sorted(wholes), 1 / poses))


@pytest.mark.parametrize("env_id", [name for name in IDS if "Random" not in name])
def test_a_fixed_start_is_minigrids(env_id):
    ours, theirs = harness.layouts_of_ours(env_id, 1), harness.layouts_of_reference(env_id, 1)
    assert harness.whole(ours) == harness.whole(theirs)
