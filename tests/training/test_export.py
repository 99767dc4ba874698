"""A policy exported from a run acts, scores and loads as it did in the run."""

import importlib
import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from commands import MY_ENV
from shoal.core.errors import CheckpointError
from shoal.training import checkpoint
from shoal.training.export import export
from shoal.training.folder import ZOO, RunFolder, locate, zoo
from shoal.training.policy import load_policies
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two settings with two seeds each."""
    return shoal.train(
        "ppo",
        "CartPole-v1",
        seeds=2,
        fields=FIELDS,
        sweep={"learning_rate": [1e-3, 1e-2]},
        env_sweep={"gravity": [9.8]},
        root=tmp_path_factory.mktemp("runs"),
        cache=False,
        **OPTIONS,
        **SILENT,
    )


@pytest.mark.parametrize(("member", "which"), [(3, "last"), (0, "best"), ("best", "last")])
def test_an_exported_policy_is_the_member_it_came_from(run, member, which, tmp_path):
    path = export(run.folder, tmp_path / "policy", member, which)
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    there = shoal.load(run.folder, member, which)
    for chosen in ("last", "best"):  # it holds one policy, whichever is asked for
        here = shoal.load(path, which=chosen)
        np.testing.assert_array_equal(here(obs), there(obs))
    chosen = run.ranking(which)[0] if member == "best" else member
    plan, policies = load_policies(path)
    assert len(policies) == 1 and plan.spec.fields["learning_rate"] == [1e-3, 1e-3, 1e-2, 1e-2][chosen]
    np.testing.assert_allclose(plan.env.gravity, 9.8)
    result = shoal.load_result(path)
    np.testing.assert_array_equal(result.curves["eval_return"][:, 0], run.curves["eval_return"][:, chosen])
    assert result.summary["last"]["mean"] == run.summary["per_member"][chosen]["last"]
    assert "mean return" in result.headline()


@pytest.mark.parametrize("which", ["last", "best"])
def test_a_policy_is_loaded_without_the_agent_states(run, which, tmp_path):
    copy = shutil.copytree(run.folder, tmp_path / "run")
    for learners in copy.rglob("learners.npz"):
        learners.unlink()
    _, there = load_policies(run.folder, which)
    _, here = load_policies(copy, which)
    assert jax.tree.structure(here.weights) == jax.tree.structure(there.weights)
    for left, right in zip(jax.tree.leaves(here.weights), jax.tree.leaves(there.weights), strict=True):
        np.testing.assert_array_equal(left, right)
    newest = checkpoint.newest(run.folder / "checkpoints")
    with np.load(newest / "learners.npz") as learners, np.load(newest / "policies.npz") as policies:
        kernel = "weights/actor/params/Dense_0/kernel"
        np.testing.assert_array_equal(policies[kernel], learners[f"state/{kernel}"])


def test_half_precision_halves_the_size_and_keeps_almost_all_actions(run, tmp_path):
    whole, half = (export(run.folder, tmp_path / str(half), 3, half=half) for half in (False, True))
    sizes = []
    for path in (whole, half):
        with np.load(path / "policy" / "policies.npz") as file:
            sizes.append(sum(file[name].nbytes for name in file.files))
    assert sizes[1] == sizes[0] / 2
    (_, there), (_, here) = load_policies(whole), load_policies(half)
    for exact, rounded in zip(jax.tree.leaves(there.weights), jax.tree.leaves(here.weights), strict=True):
        assert rounded.dtype == exact.dtype
        np.testing.assert_array_equal(rounded, exact.astype(np.float16).astype(np.float32))
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    assert np.mean(shoal.load(half)(obs) == shoal.load(whole)(obs)) > 0.95


def test_statistics_of_observations_keep_their_precision(tmp_path):
    _, whole = load_policies("zoo:ppo/Acrobot-v1")
    _, half = load_policies(export("zoo:ppo/Acrobot-v1", tmp_path / "policy", half=True))
    ours, theirs = (jax.tree.leaves(known.weights.obs_stats) for known in (half, whole))
    assert any(np.any(x != np.float32(np.float16(np.clip(x, -6e4, 6e4)))) for x in map(np.asarray, theirs))
    for mine, given in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, given)


def test_a_run_does_not_resume_from_half_precision(run, tmp_path):
    path = export(run.folder, tmp_path / "policy", half=True)
    folder, (_, policies) = RunFolder(path), load_policies(path)
    with pytest.raises(CheckpointError, match="is float16.* there, float32.* here"):
        checkpoint.restore(folder.policy, "policies", policies.weights, folder.spec_hash)


def test_values_out_of_the_range_of_half_precision_stay_float32(run, tmp_path, monkeypatch):
    plan, known = load_policies(run.folder)
    known.weights = jax.tree.map(lambda x: x * 0 + 1e6, known.weights)
    monkeypatch.setattr(
        importlib.import_module("shoal.training.export"), "load_policies", lambda *_, **__: (plan, known)
    )
    _, policies = load_policies(export(run.folder, tmp_path / "policy", 0, half=True))
    assert all((x == 1e6).all() for x in jax.tree.leaves(policies.weights))


def test_an_exported_policy_contains_no_local_paths(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "my_env.py").write_text(MY_ENV)
    own = f"{tmp_path}/home/my_env.py:MyEnv"
    monkeypatch.setattr("sys.argv", [f"{tmp_path}/bin/shoal", "train", "ppo", own, f"--root={tmp_path}/home"])
    options = {"fields": FIELDS, **OPTIONS, **SILENT, "check": False}
    first = shoal.train("ppo", own, folder=tmp_path / "home" / "first", **options)
    second = shoal.train("ppo", own, init=first.folder, folder=tmp_path / "home" / "second", **options)
    path = export(second.folder, tmp_path / "policy", trust_source=True)
    texts = {file: file.read_text() for file in path.rglob("*.json")}
    assert len(texts) == 4 and not [file for file, text in texts.items() if str(tmp_path) in text]
    spec = RunFolder(path).read_spec()
    assert (spec.env, spec.init["run"]) == ("source/my_env.py:MyEnv", "first")
    assert json.loads(texts[path / "provenance.json"])["argv"][1:] == ["train", "ppo", "my_env.py:MyEnv", "--root=home"]
    shutil.rmtree(tmp_path / "home")
    with pytest.raises(ValueError, match="use --trust-source"):
        shoal.load(path)
    assert shoal.load(path, trust_source=True)(np.zeros(2, np.float32)) in (0, 1)


def test_an_export_of_the_zoo_has_every_field(tmp_path):
    path = export("zoo:q-learning/CliffWalking-v1", tmp_path / "policy")
    fields, there = RunFolder(path).read_spec().fields, RunFolder("zoo:q-learning/CliffWalking-v1").read_spec().fields
    assert (
        {**fields, **there} == fields
        and {"num_steps", "learning_rate", "discount"} <= fields.keys()
        and len(fields) > len(there)
    )


def test_an_export_is_compared_by_the_seed_that_it_had(run, tmp_path):
    path = export(run.folder, tmp_path / "policy", 3)
    assert shoal.load_result(path).members == [{"seed": 1}]
    one = shoal.load_result(export(run.folder, tmp_path / "other", 2))
    assert one.members == [{"seed": 0}] and shoal.compare(path, one.folder).against(0, 1).pairs == 0
    twin = shutil.copytree(path, tmp_path / "twin")
    assert shoal.compare(path, twin).against(0, 1).pairs == 1


def test_a_folder_with_a_run_is_not_overwritten_by_an_export(run, tmp_path):
    export(run.folder, tmp_path / "policy")
    with pytest.raises(FileExistsError, match="policy already holds an exported policy: choose another --out"):
        export(run.folder, tmp_path / "policy")
    with pytest.raises(FileExistsError, match="already holds a run. Continue it with .*, or choose another --out"):
        export(run.folder, run.folder)
    with pytest.raises(ValueError, match="member=9 is unknown: give 'best', or a number from 0 to 3"):
        export(run.folder, tmp_path / "other", 9)


def test_an_exported_policy_is_not_resumed_or_changed(run, tmp_path):
    path = export(run.folder, tmp_path / "policy")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for folder in (path, "zoo:ppo/CartPole-v1"):
        with pytest.raises(ValueError, match="holds an exported policy, not a run that can go on"):
            shoal.train(resume=folder, progress=False, figures=False, cache=False)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_run_that_is_not_finished_is_exported_from_its_newest_checkpoint(run, tmp_path):
    whole = shoal.load_result(export(run.folder, tmp_path / "whole", 1))
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    made = shoal.load_result(export(tmp_path / "run", tmp_path / "policy", 1))
    assert {**made.summary, "settings": 0} == {**whole.summary, "settings": 0}
    shutil.rmtree(checkpoint.newest(tmp_path / "run" / "checkpoints"))
    early = shoal.load_result(export(tmp_path / "run", tmp_path / "early", 1))
    assert early.summary["steps_per_member"] == early.curves["env_steps"][-1] == 192
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        export(tmp_path / "run", tmp_path / "none", 1)
    assert not (tmp_path / "none").exists()


def test_a_policy_that_was_never_evaluated_has_no_score(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    summary = run.summary
    summary["per_member"] = [{**member, "last": None, "best": None} for member in summary["per_member"]]
    RunFolder(tmp_path / "run").write_json("summary.json", summary)
    made = shoal.load_result(export(tmp_path / "run", tmp_path / "policy"))
    assert made.summary["last"] == made.summary["best"] == {"members": 0} and "no evaluation" in repr(made)
    assert "nan" in made._repr_html_()


def test_a_damaged_policy_is_refused(run, tmp_path):
    path = export(run.folder, tmp_path / "policy")
    arrays = path / "policy" / "policies.npz"
    content = bytearray(arrays.read_bytes())
    content[len(content) // 2] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        shoal.load(path)


def test_an_unknown_zoo_policy_suggests_the_nearest_name():
    with pytest.raises(ValueError, match=r"the zoo has no 'ppo/CartPole-v2'. Did you mean ppo/CartPole-v1"):
        locate("zoo:ppo/CartPole-v2")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", zoo())
def test_every_zoo_policy_reaches_its_recorded_return(name):
    policy = shoal.load(f"zoo:{name}")
    said = RunFolder(f"zoo:{name}").read_json("summary.json")["checked"]
    returns = np.asarray(shoal.evaluate(policy, episodes=100, seed=2).episode_return)
    spread = max(returns.std() / np.sqrt(len(returns)), 0.01 * abs(said["mean"]), 1e-3)
    assert abs(returns.mean() - said["mean"]) < 5 * spread
    size = sum(file.stat().st_size for file in (ZOO / name).rglob("*") if file.is_file())
    assert size < 100_000
