"""The warning about episodes that begin in reused states of the reset bank, with a sufficient bank size."""

import numpy as np
import pytest

from shoal.core.errors import Unsuited
from shoal.core.registry import AGENTS, make
from shoal.rollouts.rollout import Rollout
from shoal.training.reuse import reuse_warning

TAXI = make("Taxi-v4")


def warning(episodes, reused, env=TAXI, bank_size=2, num_steps=128):
    rollout = Rollout.for_env(env, num_envs=4, num_steps=num_steps, bank_size=bank_size)
    return reuse_warning(np.asarray(episodes), np.asarray(reused), 10, rollout, env)


def test_a_record_with_many_reused_states_names_a_sufficient_bank():
    # The second member ends 360 episodes in 10 updates of 4 environments: 9 each, and 9 + 3 * sqrt(9) + 1 = 19.
    said = warning([100, 360], [5, 270])
    assert said.startswith("75% of the episodes began in the same first state as another episode of the same update")
    assert "up to 9.0 episodes in an update on average, but only 2 first states" in said
    assert "bank_size=19 enough are sampled" in said and "reset='exact'" in said


@pytest.mark.parametrize("counts", [([100], [10]), ([0], [0]), ([100, 100], [0, 0])])
def test_a_few_reused_states_give_no_warning(counts):
    assert warning(*counts) is None


def test_a_bank_is_never_larger_than_the_steps_of_an_update():
    assert "bank_size=10 enough" in warning([360], [300], num_steps=10)


def test_a_fixed_first_state_gives_no_warning():
    assert warning([360], [300], env=make("CliffWalking-v1")) is None


def test_the_bank_that_is_named_is_enough():
    # Episodes of one step each: 128 in an update.
    env = make("CartPole-v1", max_steps=1)
    few = Rollout.for_env(env, num_envs=4, num_steps=128, bank_size=3)
    assert "bank_size=128" in reuse_warning([5120], [5000], 10, few, env)


@pytest.mark.parametrize("name", sorted(name for name in AGENTS if hasattr(AGENTS[name].cls, "bank_size")))
def test_every_agent_that_has_a_bank_takes_its_size(name):
    agent = AGENTS[name].build(bank_size=5)
    try:
        bound = agent.bind(make("Probe-CountedMatching-v0"))
    except Unsuited:
        bound = agent.bind(make("Probe-ContinuousMatching-v0"))
    assert bound.rollout.num_first_states == min(5, agent.num_steps)
