"""CliffWalking against Gymnasium's: every entry of the table, and its episodes."""

import numpy as np
import pytest

from parity.toy_text.tables import assert_same_run, assert_same_table, assert_same_values, reference
from shoal.core.registry import make

pytestmark = pytest.mark.sampled(2)

NAMES = ("CliffWalking-v1", "CliffWalkingSlippery-v1")


@pytest.mark.parametrize("name", NAMES)
def test_the_table_equals_gymnasium(name):
    assert_same_table(make(name), reference(name))


@pytest.mark.parametrize("name", NAMES)
def test_planning_equals_gymnasium(name):
    value = assert_same_values(make(name), reference(name), discount=1.0, sweeps=3000)
    if name == "CliffWalking-v1":
        assert value[36] == -13  # up, eleven to the right, down


@pytest.mark.parametrize("name", NAMES)
def test_episodes_equal_gymnasium(name):
    # Mostly to the right, so that some walks arrive and many fall.
    actions = np.random.default_rng(0).choice(4, 20_000, p=[0.3, 0.5, 0.15, 0.05])
    seen = assert_same_run(name, 20_000, actions=actions)
    assert seen.terminated.sum() > 20 and (seen.reward == -100).sum() > 500 and not seen.truncated.any()
