"""Warnings about members: each is given once, and not for slots that are idle."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.agent import Metrics
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.roster import NOBODY
from shoal.specs.spec import RunSpec
from shoal.training.member_warnings import MemberWarnings
from shoal.training.plan import make_plan

FIELDS = {"num_envs": 2, "num_steps": 16, "hidden": (8,), "num_minibatches": 2, "num_epochs": 2}
FINE = np.asarray([True, True, True])


@pytest.fixture(scope="module")
def plan():
    return make_plan(RunSpec("ppo", "CartPole-v1", fields=FIELDS, seeds=3, steps=64))


def metrics(returns, reused=0):
    """The metrics of a record in which each member ended 100 episodes with these sums of returns."""
    count = np.full(len(returns), 100)
    episodes = SimpleNamespace(count=count, return_sum=np.asarray(returns), resets_reused=np.full(len(returns), reused))
    return Metrics(episodes, {})


def test_a_member_that_stopped_is_reported_once_and_another_one_later(plan):
    said = []
    warnings = MemberWarnings(plan, lambda text, is_warning=False: said.append((text, is_warning)))
    for alive in ([True, False, True], [True, False, True], [False, False, True]):
        warnings.check(plan.roster, metrics([1.0, 1.0, 1.0]), np.asarray(alive), None, 2)
    assert [(text.partition(" stopped")[0], loud) for text, loud in said] == [
        ("member 1 (seed=1)", True),
        ("member 0 (seed=0)", True),
    ]


def test_returns_that_are_nan_are_reported_once_for_all_members(plan):
    said = []
    warnings = MemberWarnings(plan, lambda text, **_: said.append(text))
    idle = plan.roster._replace(occupant=np.asarray([0, NOBODY, 2]))
    warnings.check(idle, metrics([1.0, np.nan, 1.0]), FINE, None, 2)
    assert said == []
    returns = jnp.asarray([[1.0, 1.0], [1.0, 1.0], [1.0, jnp.nan]])
    evaluation = jax.vmap(Evaluation)(returns, jnp.ones((3, 2), int), jnp.ones((3, 2), bool))
    warnings.check(plan.roster, metrics([1.0, np.nan, 1.0]), FINE, evaluation, 2)
    warnings.check(plan.roster, metrics([np.nan, np.nan, 1.0]), FINE, None, 2)
    assert len(said) == 1 and said[0].startswith("returns of 2 of 3 members are NaN, those of member 1 (seed=1)")


def test_first_states_that_are_used_again_are_reported_once(plan):
    said = []
    warnings = MemberWarnings(plan, lambda text, **_: said.append(text))
    for reused in (5, 60, 70):  # of 100 episodes
        warnings.check(plan.roster, metrics([1.0, 1.0, 1.0], reused), FINE, None, 2)
    assert len(said) == 1 and said[0].startswith("60% of the episodes began in the same first state")
