"""The best policies of a run: which are kept, of which evaluation those in the folder are, and what a branch gets."""

import numpy as np
import pytest

from shoal.core.errors import CheckpointError
from shoal.specs.roster import first_roster
from shoal.specs.spec import RunSpec
from shoal.training.best_policies import BestPolicies
from shoal.training.folder import RunFolder
from shoal.training.run_state import RunState


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.create()
    made.write_json("spec.json", RunSpec("ppo", "CartPole-v1").to_json())
    return made


def policies(*numbers):
    """Policies of as many members: a weight [2] each, and a bias that is one number."""
    return {"weight": np.asarray([[n, n + 0.5] for n in numbers], np.float32), "bias": np.asarray(numbers, np.int32)}


def state(*returns):
    """The state of a run whose best returns are these."""
    return RunState.first(first_roster({}, np.arange(len(returns)))).replace(best_return=np.asarray(returns, float))


def test_better_policies_replace_those_of_their_members(folder):
    best = BestPolicies(folder, agent_revision=1)
    best.keep(policies(1, 2, 3), np.asarray([False, True, False]))  # the first ones are all kept
    best.keep(policies(10, 20, 30), np.asarray([False, True, False]))
    assert best.policies["bias"].tolist() == [1, 20, 3]
    assert best.policies["weight"].tolist() == [[1, 1.5], [20, 20.5], [3, 3.5]]


def test_policies_of_a_later_evaluation_are_told_apart(folder):
    best = BestPolicies(folder, agent_revision=1)
    assert best.are_of(np.zeros(2)).tolist() == [False, False]
    best.save(state(5.0, 6.0))
    assert not folder.best.exists()  # there was nothing to save
    best.keep(policies(1, 2), np.asarray([True, True]))
    best.save(state(5.0, -np.inf))
    assert best.are_of(np.asarray([5.0, -np.inf])).tolist() == [True, True]
    assert best.are_of(np.asarray([4.0, -np.inf])).tolist() == [False, True]


def test_saved_policies_are_restored_and_missing_ones_refused(folder):
    best = BestPolicies(folder, agent_revision=1)
    with pytest.raises(CheckpointError):
        best.restore(policies(0, 0))
    best.keep(policies(1, 2), np.asarray([True, True]))
    best.save(state(5.0, 6.0))
    again = BestPolicies(folder, agent_revision=1)
    again.restore(policies(0, 0))
    np.testing.assert_equal(again.policies, policies(1, 2))


def test_a_branch_takes_the_best_policy_or_the_present_one_of_each_member(folder, tmp_path):
    trunk, branch = BestPolicies(folder, 1), BestPolicies(RunFolder(tmp_path / "branch"), 1)
    trunk.keep(policies(1, 2), np.asarray([True, True]))
    branch.take_over(trunk, np.asarray([True, False]), policies(10, 20), np.asarray([0, 1, 1, 0]))
    assert branch.policies["bias"].tolist() == [1, 20, 20, 1]
