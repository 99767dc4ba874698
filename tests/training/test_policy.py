"""A trained policy acts outside of a run, is loaded from files, and refuses observations of another space."""

import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal import PPO
from shoal.core.errors import CheckpointError
from shoal.core.spaces import Box, Discrete
from shoal.training import checkpoint
from shoal.training.policy import fit_observation
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_a_policy_acts_on_one_observation_and_on_a_batch(result):
    policy = result.policy(1)
    one = policy(np.zeros(4))  # float64, as NumPy gives it
    many = policy(np.zeros((5, 4), np.float32))
    assert one.shape == () and many.shape == (5,) and many.dtype == np.int32
    assert (many == one).all()
    drawn = np.array([policy.sample(np.zeros(4), seed) for seed in range(20)])
    assert set(drawn.tolist()) == {0, 1}


def test_a_loaded_policy_is_the_trained_one(result):
    loaded = shoal.load(result.folder, member=2)
    for mine, theirs in zip(jax.tree.leaves(loaded.weights), jax.tree.leaves(result.policies[2].weights), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert loaded.name == "learning_rate=0.01 seed=0"


def test_whole_numbers_of_any_width_fit_a_discrete_observation():
    space = Discrete(16, np.uint8)
    one, batch = fit_observation(space, 3)
    assert one == 3 and one.dtype == space.dtype == np.uint8 and batch == 0
    many, batch = fit_observation(space, [0, 15])
    assert many.tolist() == [0, 15] and many.dtype == np.uint8 and batch == 2
    for outside in (16, -1, 99, [3, 16], 300):
        with pytest.raises(ValueError, match="must be from 0 to 15"):
            fit_observation(space, outside)
    with pytest.raises(ValueError, match="is of float64, where"):
        fit_observation(space, 3.0)


def test_an_observation_that_does_not_fit_is_refused(result):
    policy = result.policy(0)
    with pytest.raises(ValueError, match=r"shape \(3,\), not float32 with shape \(4,\)"):
        policy(np.zeros(3))
    with pytest.raises(ValueError, match="the observation is of complex128"):
        policy(np.zeros(4, complex))
    with pytest.raises(ValueError, match="float64, where .* uint8"):
        fit_observation(Box(0, 255, (2,), np.uint8), np.zeros(2))


def test_values_that_no_file_can_hold_must_be_given_again(tmp_path):
    agent = PPO(**FIELDS, surrogate=lambda ratio, advantage, clip: ratio * advantage)
    made = shoal.train(agent, "CartPole-v1", folder=tmp_path / "own", **OPTIONS, **SILENT)
    assert made.policy()(np.zeros(4)).shape == ()
    with pytest.raises(
        ValueError, match=r"with a surrogate of your own, .* give agent= .* as in shoal.load\(run, agent=agent\)"
    ):
        shoal.load(made.folder)
    with pytest.raises(ValueError, match="give agent="):
        shoal.train(resume=made.folder)
    assert shoal.load(made.folder, agent=agent)(np.zeros(4)).shape == ()
    assert shoal.train(agent, resume=made.folder, **SILENT).summary["members"] == 1


def test_a_foreign_checkpoint_is_refused(result, tmp_path):
    other = shoal.train(
        "ppo",
        "CartPole-v1",
        fields=FIELDS,
        preset=None,
        folder=tmp_path / "o",
        **OPTIONS,
        **SILENT,
    )
    (checkpoint.newest(other.folder / "checkpoints")).rename(other.folder / "checkpoints" / "step-000000099999")
    for path in (result.folder / "spec.json", result.folder / "provenance.json"):
        (other.folder / path.name).write_text(path.read_text())
    with pytest.raises(CheckpointError, match="belongs to something else"):
        shoal.load(other.folder, 0)


def test_a_checkpoint_of_the_same_shapes_and_another_spec_is_refused(result, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(result.folder, copy)
    spec = (copy / "spec.json").read_text()
    (copy / "spec.json").write_text(spec.replace("0.001", "0.002"))
    for use in (shoal.load, lambda folder: shoal.load(folder, which="best"), lambda f: shoal.train(resume=f, **SILENT)):
        with pytest.raises(CheckpointError, match="belongs to something else: it is of a run with another"):
            use(copy)
    (copy / "spec.json").write_text(json.dumps(dict(reversed(json.loads(spec).items()))))
    assert shoal.load(copy, 0).name == "learning_rate=0.001 seed=0"


def rewritten(folder, change):
    """Write the newest checkpoint of a run again as an older version did: without the revision of the agent.

    `change(name, array)` gives the array in its place, or None for none.
    """
    path = checkpoint.newest(folder / "checkpoints")
    manifest = json.loads((path / "manifest.json").read_text())
    for part, entry in manifest["parts"].items():
        with np.load(path / f"{part}.npz") as file:
            arrays = {name: change(name, file[name]) for name in file.files}
        np.savez(path / f"{part}.npz", **{name: array for name, array in arrays.items() if array is not None})
        entry["leaves"] = {name: leaf for name, leaf in entry["leaves"].items() if arrays[name] is not None}
        entry["bytes"] = (path / f"{part}.npz").stat().st_size
        entry["sha256"] = checkpoint.hash_of_file(path / f"{part}.npz")
    del manifest["about"]["agent_revision"]
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def in_raw_units(name, array):
    """The weights of a Gaussian for actions of at most 2, as the first revision of ppo had learned them."""
    if name.endswith("weights/log_std"):
        return array + np.float32(np.log(2))
    return 2 * array if "weights/policy/" in name else array


def trained(env, folder):
    return shoal.train("ppo", env, fields=FIELDS, preset=None, folder=folder, **OPTIONS, **SILENT)


def test_policies_of_an_older_revision_act_as_they_did(tmp_path):
    run = trained("Pendulum-v1", tmp_path / "run")
    policy, obs = shoal.load(run.folder, member=0), np.asarray([0.5, 0.5, 1.0])
    rewritten(run.folder, in_raw_units)
    old = shoal.load(run.folder, member=0)
    np.testing.assert_allclose(old(obs), policy(obs), rtol=1e-5)
    np.testing.assert_allclose(old.sample(obs, 3), policy.sample(obs, 3), rtol=1e-5)
    with pytest.raises(CheckpointError, match="trained by an older revision of ppo.*cannot go on.*--init RUN"):
        shoal.train(resume=run.folder, steps=512, **SILENT)
    begun = shoal.train(
        "ppo", "Pendulum-v1", fields=FIELDS, preset=None, init=run.folder, folder=tmp_path / "on", **OPTIONS, **SILENT
    )
    assert begun.folder.is_dir()


def test_a_run_in_a_box_whose_units_did_not_change_goes_on(tmp_path):
    run = trained("MountainCarContinuous-v0", tmp_path / "run")
    rewritten(run.folder, lambda name, array: array)
    assert shoal.train(resume=run.folder, steps=512, **SILENT).summary["steps_per_member"] == 512


def test_a_checkpoint_without_the_rounding_of_sums_is_read(tmp_path):
    fields = {**FIELDS, "normalize_observation": True}
    options = {"fields": fields, "preset": None, **OPTIONS, **SILENT}
    run = shoal.train("ppo", "CartPole-v1", folder=tmp_path / "run", **options)
    before = shoal.load(run.folder, member=0)
    rewritten(run.folder, lambda name, array: None if "rounding" in name.split("/") else array)
    after = shoal.load(run.folder, member=0)
    np.testing.assert_array_equal(after.weights.obs_stats.mean, before.weights.obs_stats.mean)
    assert not np.any(after.weights.obs_stats.rounding[0])
    shoal.train("ppo", "CartPole-v1", folder=tmp_path / "begun", init=run.folder, **options)
    assert shoal.train(resume=run.folder, steps=512, **SILENT).summary["steps_per_member"] == 512


def test_weights_of_a_later_revision_are_refused(tmp_path):
    run = trained("Pendulum-v1", tmp_path / "run")
    path = checkpoint.newest(run.folder / "checkpoints") / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["about"]["agent_revision"] = 9
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="weights are of revision 9 of PPO, and here it has revision 2"):
        shoal.load(run.folder, member=0)
