"""A member whose environments are split over devices is trained as on one device, up to rounding."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents import bonus, ppo, pqn
from shoal.core.errors import Unsuited
from shoal.core.keys import key_words
from shoal.ops.shuffle import minibatches
from shoal.specs.selector import FRESH, REST
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from shoal.training.policy import load_policies
from shoal.training.stopping import Stopped
from stops import Request, assert_same_run, assert_stopped_within_a_record
from tiny import SILENT

ENVS, STEPS = 8, 16
SIZES = {"num_envs": ENVS, "num_steps": STEPS, "hidden": (8,), "normalize_observation": True, "num_epochs": 2}
SPEC = {
    "agent": "ppo",
    "env": "CartPole-v1",
    "fields": {**SIZES, "num_minibatches": 2, "normalize_reward": True, "learning_rate": 0.01, "target_kl": 1.0},
    "env_fields": {"max_steps": 11},  # most episodes are truncated, so that values of final observations matter
    "seeds": 2,
    "steps": 4 * ENVS * STEPS,
    "records": 2,
    "evaluations": 1,
    "eval_episodes": 2,
    "eval_max_steps": 20,
}
PQN = {"agent": "pqn", "fields": {**SIZES, "num_minibatches": 2, "learning_rate": 0.01}}
RECURRENT = {"fields": {**SPEC["fields"], "memory": "gru", "memory_size": 4}}
BONUS = {"fields": {**SPEC["fields"], "bonus": "rnd", "predictor_size": 8}}
COUNTED = {"num_envs": ENVS, "num_steps": STEPS, "hidden": (8,), "num_minibatches": 2, "learning_rate": 0.01}
COUNT = {
    "env": "FrozenLake-v1",
    "env_fields": {"max_steps": 11},
    "fields": {**COUNTED, "bonus": "count", "count_slots": 64},
}


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train a variant of SPEC: (the run, its learners by name)."""

    def run(devices_per_member, **changes):
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.create()
        with jax.numpy_dtype_promotion("standard"):
            plan = make_plan(RunSpec(**{**SPEC, **changes}, devices_per_member=devices_per_member))
            made = Run(plan, folder)
            made.train()
        return made, learners(folder)

    return run


def learners(folder):
    with np.load(checkpoint.file_of(checkpoint.newest(folder.checkpoints), checkpoint.LEARNERS)) as file:
        return dict(file)


@pytest.fixture(scope="module")
def split(train):
    """Two members on two devices each."""
    return train(2)


def test_a_run_of_split_members_that_is_stopped_within_a_record_ends_with_the_same_bits(split, tmp_path, monkeypatch):
    folder, request = RunFolder(tmp_path / "run"), Request(monkeypatch)
    folder.create()
    request.at = 3
    with jax.numpy_dtype_promotion("standard"):
        plan = make_plan(RunSpec(**SPEC, devices_per_member=2))
        with pytest.raises(Stopped):
            Run(plan, folder).train()
        assert_stopped_within_a_record(folder.path, 3, records=1)
        Run(plan, folder).train(resume=True)
    assert_same_run(folder.path, split[0].folder.path)


def minibatches_of(devices):
    """A shuffle for one device whose minibatches hold the samples that those of a split agent hold together."""

    def shuffle(key, shape, epochs, parts, kind):
        num_steps, num_envs = shape[0], shape[1] // devices

        def of_device(d):
            index = minibatches(jax.random.fold_in(key, d), (num_steps, num_envs), epochs, parts, kind)
            step, env = index // num_envs, index % num_envs + d * num_envs
            return (step * shape[1] + env).reshape(epochs * parts, num_steps, -1)

        return jnp.concatenate([of_device(d) for d in range(devices)], axis=2).reshape(epochs * parts, -1)

    return shuffle


def assert_near(left, right, rows=slice(None)):
    """Equal integers and keys, and floats that differ by rounding only."""
    assert left.keys() == right.keys() and len(left) > 8
    for name in left:
        a, b = left[name][rows], right[name][rows]
        if "rounding" in name.split("/"):
            most = 0.1 if "bonus" in name.split("/") else 1e-3  # sums of squared errors of RND are large
            assert np.abs(a).max() < most and np.abs(b).max() < most  # of sums of another order: nothing to compare
        elif a.dtype == np.float32:
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        (ppo, {}),
        pytest.param(pqn, PQN, marks=pytest.mark.slow),
        pytest.param(ppo, RECURRENT, marks=pytest.mark.slow),
        pytest.param(ppo, BONUS, marks=pytest.mark.slow),
        pytest.param(ppo, COUNT, marks=pytest.mark.slow),
    ],
    ids=["ppo", "pqn", "recurrent", "rnd", "count"],
)
def test_a_split_member_is_trained_as_on_one_device(module, changes, train, request, monkeypatch):
    divided, learned = train(2, **changes) if changes else request.getfixturevalue("split")
    assert dict(divided.plan.placement.mesh.shape) == {"members": 2, "data": 2}
    for patched in (module, bonus):
        monkeypatch.setattr(patched, "minibatches", minibatches_of(2))
    whole, expected = train(0, **changes)
    assert whole.plan.placement.mesh is None
    assert_near(learned, expected)
    left, right = divided.records.arrays(), whole.records.arrays()
    assert left["episodes"].sum() > 2 * ENVS and (left["train_length"] < 11.5).all()
    for name in left.keys() - {"wall_seconds"}:
        np.testing.assert_allclose(left[name], right[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_all_devices_hold_the_same_weights_and_their_share_of_the_environments(split):
    (member,) = split[0].population._waves[0]
    kept = jax.tree_util.tree_leaves_with_path(member.state)
    per_device = {jax.tree_util.keystr(path): [s.data for s in leaf.addressable_shards] for path, leaf in kept}
    for path, shards in per_device.items():
        copies = [np.asarray(key_words(shard)) for shard in shards]
        assert len(copies) == 4
        if path.startswith((".env_states", ".discounted_return")):
            assert [copy.shape[:2] for copy in copies] == [(1, ENVS // 2)] * 4
            continue
        np.testing.assert_array_equal(copies[0], copies[1], err_msg=path)  # the two devices of member 0
        np.testing.assert_array_equal(copies[2], copies[3], err_msg=path)
    kernels = per_device[".weights['policy']['kernel']"]
    assert not np.array_equal(kernels[0], kernels[2])


def test_split_members_are_copied_begun_and_stopped_between_chunks(split):
    population = Run(split[0].plan, split[0].folder).population
    population.programs = split[0].population.programs
    population.begin()
    first, roster = population.to_host(), population.roster
    population.advance(0, 1)

    def turned(source):
        population.apply(np.asarray(source), roster._replace(occupant=np.asarray([2, 3])))
        return population.to_host()

    before, after = population.to_host(), turned([0, 0])
    for old, new in zip(jax.tree.leaves(before.state.weights), jax.tree.leaves(after.state.weights), strict=True):
        np.testing.assert_array_equal(new, old[[0, 0]])
    np.testing.assert_array_equal(after.state.env_states.state.x, before.state.env_states.state.x[[0, 0]])
    keys = np.asarray(key_words(after.state.key))
    assert not np.array_equal(keys[0], keys[1])
    population.advance(1, 1)
    fresh = turned([0, FRESH])
    np.testing.assert_array_equal(fresh.state.env_states.state.x[1], first.state.env_states.state.x[1])
    assert fresh.state.age.tolist() == [2, 0]
    assert turned([0, REST]).alive.tolist() == [True, False]


def cut(run, to):
    """A copy of a run that was stopped at its first checkpoint."""
    copy = shutil.copytree(run.folder.path, to)
    shutil.rmtree(checkpoint.newest(copy / "checkpoints"))
    (copy / "summary.json").unlink(missing_ok=True)
    return copy


@pytest.mark.parametrize(
    "devices", [None, pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow)]
)
def test_a_split_run_resumes_on_the_same_devices_or_on_others(devices, split, tmp_path, capsys):
    run, expected = split
    folder = cut(run, tmp_path / "cut")
    options = {} if devices is None else {"devices_per_member": devices}
    shoal.train(resume=folder, figures=False, **options)
    resumed = learners(RunFolder(folder))
    said = "".join(capsys.readouterr())
    if devices is None:
        assert "devices for each member" not in said
        for name in expected:
            np.testing.assert_array_equal(resumed[name], expected[name], err_msg=name)
        return
    assert f"devices for each member: {devices} now, no longer 2; from here on other samples" in " ".join(said.split())
    assert RunFolder(folder).read_spec().devices_per_member == (0 if devices == 1 else devices)
    for name in ("state/age", "state/obs_stats/count"):
        np.testing.assert_array_equal(resumed[name], expected[name])
    shoal.train(resume=folder, **SILENT)  # the run is complete, on the devices that it was resumed on


def test_a_policy_of_a_split_run_is_read_with_one_device(split):
    assert split[0].plan.placement.split.devices == 2
    plan, folder = load_policies(split[0].folder.path)[0], split[0].folder
    assert folder.read_spec().devices_per_member == 2 and plan.placement.split is None
    assert plan.agent.rollout.num_envs == ENVS


def test_devices_that_are_left_over_are_not_used():
    plan = make_plan(RunSpec(**{**SPEC, "seeds": 1}, devices_per_member=2), devices=3)
    assert dict(plan.placement.mesh.shape) == {"members": 1, "data": 2}
    assert plan.placement.describe() == "2 x cpu, 2 for each member, all members at a time"


def spec(devices, **changes):
    fields = {**SPEC["fields"], **changes.pop("fields", {})}
    return RunSpec(**{**SPEC, **changes, "fields": fields}, devices_per_member=devices)


@pytest.mark.parametrize(
    ("wanted", "devices", "error", "message"),
    [
        (spec(3), 0, ValueError, "num_envs=8 cannot be divided equally among 3 devices: use num_envs=9"),
        (
            spec(4, fields={"num_minibatches": 64}),
            0,
            ValueError,
            "On each of 4 devices, 2 environments x num_steps=16 gives 32 samples to shuffle, which num_minibatches=64",
        ),
        (
            spec(8),
            0,
            ValueError,
            "devices_per_member=8 splits each member, but this run has 4 devices .cpu.: use at most 4.*device_count=8",
        ),
        (spec(4), 2, ValueError, "devices_per_member=4 splits each member, but this run has 2"),
        (
            RunSpec("dqn", "CartPole-v1", devices_per_member=2),
            0,
            Unsuited,
            "splits the environments of dqn, but it cannot be split over devices. Agents that can: a2c, ppo, pqn, rl2",
        ),
    ],
)
def test_members_that_cannot_be_split_are_refused(wanted, devices, error, message):
    with pytest.raises(error, match=message):
        make_plan(wanted, devices=devices)


def test_one_device_for_each_member_is_the_plan_of_a_run_that_is_not_split():
    assert spec(1) == spec(0) and "devices_per_member" not in spec(1).to_json()
    assert spec(2).to_json()["devices_per_member"] == 2
    with pytest.raises(ValueError, match="devices_per_member=-1 must not be negative"):
        spec(-1)


@pytest.mark.slow
def test_split_ppo_solves_cartpole(tmp_path):
    result = shoal.train(
        "ppo", "CartPole-v1", steps=200_000, devices_per_member=2, seeds=2, folder=tmp_path / "run", **SILENT
    )
    assert min(member["last"] for member in result.summary["per_member"]) >= 475
