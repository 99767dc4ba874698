"""Hyperparameters that are trees, such as the weights of a message network: members, sweeps, files, selectors."""

import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal.core.struct import struct
from shoal.core.wrappers.cheap_talk import MessageNetwork
from shoal.specs.selector import Selector, Turnover
from shoal.training import checkpoint
from shoal.training.jobs import job_from_spec, make_job
from tiny import SILENT

ENV = shoal.CheapTalk(shoal.make("CartPole-v1"), hidden=(3,))
MESSAGES = [MessageNetwork.init(shoal.make_key(seed), ENV.sizes) for seed in range(2)]
STACKED = jax.tree.map(lambda *rows: np.stack(rows), *MESSAGES)
AGENT = shoal.PPO(num_envs=2, num_steps=8, hidden=(4,), num_minibatches=1, num_epochs=1, normalize_observation=True)
OPTIONS = {"steps": 48, "records": 3, "evaluations": 1, "eval_episodes": 2, "eval_max_steps": 5, **SILENT}


@struct
class Swap(Selector):
    """Exchanges the messages of the first and the last member after every record, without new members."""

    def ranges(self, agent, env):
        return {"env.message": (env.message, env.message)}

    def select(self, state, standing, key):
        swapped = jax.tree.map(lambda x: x[::-1], standing.roster.hyperparameters["env.message"])
        return state, Turnover.none(standing)._replace(hyperparameters={"env.message": swapped})


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two members, each with its own message."""
    folder = tmp_path_factory.mktemp("members") / "run"
    return shoal.train(AGENT, ENV, members={"env.message": STACKED}, folder=folder, **OPTIONS)


def assert_equal(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_a_member_with_its_own_message_equals_a_run_of_that_message(run, tmp_path):
    alone = shoal.train(AGENT, ENV.replace(message=MESSAGES[1]), folder=tmp_path / "run", **OPTIONS)
    assert_equal(run.policies[1].weights, alone.policies[0].weights)
    first, second = (policy.weights.weights["policy"]["kernel"] for policy in run.policies)
    assert not np.array_equal(first, second)


def test_loaded_policies_have_their_messages(run):
    for policy, message in zip(shoal.load_result(run.folder).policies, MESSAGES, strict=True):
        assert_equal(policy.env.message, jax.tree.map(np.asarray, message))


def test_names_and_summaries_are_short_and_differ(run):
    names = [member["name"] for member in run.summary["per_member"]]
    assert len({*names}) == 2 and all(name.startswith("env.message=MessageNetwork ") for name in names)
    assert [len(json.dumps(row["setting"])) < 60 for row in run.summary["settings"]] == [True, True]


def test_a_spec_file_repeats_the_messages_bit_for_bit(run):
    again = job_from_spec(run.folder).plan()
    assert_equal(again.roster.hyperparameters["env.message"], jax.tree.map(np.asarray, STACKED))
    assert_equal(again.batched().env.message, again.roster.hyperparameters["env.message"])


def test_a_sweep_of_messages_is_crossed_with_seeds():
    plan = make_job(AGENT, ENV, env_sweep={"message": MESSAGES}, seeds=3).plan()
    rows = jax.tree.map(lambda x: np.repeat(np.asarray(x), 3, axis=0), STACKED)
    assert_equal(plan.batched().env.message, rows)
    assert plan.roster.seed_index.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("cut_at", [1, 2])
def test_a_selector_may_change_trees_and_such_a_run_resumes_with_the_same_bits(cut_at, tmp_path_factory, request):
    whole = request.getfixturevalue("swapped")
    cut = shutil.copytree(whole, tmp_path_factory.mktemp("cut") / "run")
    for path in checkpoint.saved(cut / "checkpoints")[:cut_at]:
        shutil.rmtree(path)
    (cut / "summary.json").unlink()
    shoal.train(AGENT, resume=cut, **SILENT)
    left, right = (shoal.load_result(folder) for folder in (whole, cut))
    assert_equal(left.policies.weights, right.policies.weights)
    assert_equal(left.policies.env.message, right.policies.env.message)


@pytest.fixture(scope="module")
def swapped(tmp_path_factory):
    """The folder of a run whose messages were exchanged twice (not after the last record)."""
    folder = tmp_path_factory.mktemp("swap") / "run"
    shoal.train(AGENT, ENV, members={"env.message": STACKED}, selector=Swap(), folder=folder, **OPTIONS)
    return folder


def test_a_selector_trains_members_with_other_trees(run, swapped):
    before, after = run.policies, shoal.load_result(swapped).policies
    assert_equal(after.env.message, jax.tree.map(np.asarray, STACKED))  # exchanged twice
    assert not np.array_equal(before.weights.weights["policy"]["kernel"], after.weights.weights["policy"]["kernel"])


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"env.message": MESSAGES[0]}, r"leaves have one row for each member, \[M, ...\]"),
        ({"env.message": STACKED, "learning_rate": np.ones(3)}, "their numbers differ: env.message 2, learning_rate 3"),
        ({"env.message.layers": np.ones((2, 2))}, "needs one value for each member"),
        ({"env.mesage": STACKED}, "Did you mean message"),
    ],
)
def test_trees_that_fit_no_member_are_refused_before_compiling(members, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make_job(AGENT, ENV, members=members)
