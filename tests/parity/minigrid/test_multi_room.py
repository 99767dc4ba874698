"""MultiRoom against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness

IDS = [f"MiniGrid-MultiRoom-{name}" for name in ("N2-S4-v0", "N4-S5-v0", "N4-S5-v1", "N6-v0")]
FAMILY = harness.Family()


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
