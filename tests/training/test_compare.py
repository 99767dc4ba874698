"""`compare` pairs two runs seed by seed where they share their random numbers."""

import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal.cli.main import main
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_comparing_a_run_with_itself_finds_no_difference(result):
    found = shoal.compare(result.folder, result.folder)
    assert found["pairs"] == 4 and found["difference"] == 0 and found["probability_of_improvement"] == 0.5


@pytest.mark.parametrize("change", [{"seed": 1}, {"prng": "threefry2x32"}])
def test_only_members_that_share_their_random_numbers_are_paired(change, result, tmp_path):
    other = shutil.copytree(result.folder, tmp_path / "other")
    spec = {**json.loads((other / "spec.json").read_text()), **change}
    (other / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="belongs to something else: it is of a run with another spec.json"):
        shoal.compare(result.folder, other)
    shutil.rmtree(other / "checkpoints")
    found = shoal.compare(result.folder, other)
    assert found["pairs"] == 0 and "difference" not in found and found["members"] == [4, 4]


def test_members_without_a_score_are_counted_and_left_out(result, tmp_path, capsys):
    other = shutil.copytree(result.folder, tmp_path / "other")
    curves = {**result.curves, "eval_return": result.curves["eval_return"].copy()}
    curves["eval_return"][:, 2] = -np.inf
    np.savez(other / "curves.npz", **curves)
    found = shoal.compare(result.folder, other)
    assert found["members"] == [4, 3] and found["dropped"] == [0, 1] and found["pairs"] == 3
    assert main(["compare", str(result.folder), str(other)]) == 0
    assert "\n1 member of B left out: no finite score\n" in capsys.readouterr().out
    curves["eval_return"][:] = -np.inf
    np.savez(other / "curves.npz", **curves)
    with pytest.raises(ValueError, match="has no finite score to compare"):
        shoal.compare(result.folder, other)


def test_a_run_that_stopped_before_its_first_evaluation_is_said_to_be_unfinished(result, tmp_path):
    other = shutil.copytree(result.folder, tmp_path / "other")
    np.savez(other / "curves.npz", **{**result.curves, "eval_return": result.curves["eval_return"] * np.nan})
    with pytest.raises(ValueError, match="no evaluation to compare: train with --evaluations 1 or more"):
        shoal.compare(result.folder, other)
    (other / "summary.json").unlink()
    with pytest.raises(ValueError, match=r"did not finish \(256 of 256 steps\)\. Continue it with .* --resume"):
        shoal.compare(result.folder, other)


def test_unfinished_runs_and_different_environments_are_noted(result, tmp_path, capsys):
    assert shoal.compare(result.folder, result.folder)["notes"] == []
    other = shutil.copytree(result.folder, tmp_path / "other")
    (other / "summary.json").unlink()
    shutil.rmtree(other / "checkpoints")  # they are of the spec before
    spec = json.loads((other / "spec.json").read_text())
    spec["env_fields"]["gravity"], spec["steps"] = 5.0, 2 * spec["steps"]
    (other / "spec.json").write_text(json.dumps(spec))
    assert main(["compare", str(result.folder), str(other)]) == 0
    notes = capsys.readouterr().out.splitlines()[-2:]
    assert notes == [
        "note: B is not finished: 256 of 512 steps",
        "note: the environments differ: env.gravity=9.8 in A, 5.0 in B",
    ]
    spec["env"] = "Acrobot-v1"
    (other / "spec.json").write_text(json.dumps(spec))
    assert "the environments differ: CartPole-v1 in A, Acrobot-v1 in B" in shoal.compare(result.folder, other)["notes"]


def test_the_headline_of_a_sweep_is_that_of_its_best_setting(result):
    best = max(result.summary["settings"], key=lambda s: s["mean"])
    ((path, value),) = best["setting"].items()
    assert f"mean return {best['mean']:.4g} with the best of 2 settings, " in result.headline()
    assert f"{value}" in result.headline() and path in result.headline() and "4 members" in result.headline()


def test_comparisons_in_both_directions_are_mirror_images_and_few_pairs_have_no_interval(result, tmp_path, capsys):
    curves = {**result.curves, "eval_return": result.curves["eval_return"].copy()}
    curves["eval_return"][-1] += [0.5, -1.0, 3.0, 0.25]
    other = shutil.copytree(result.folder, tmp_path / "other")
    np.savez(other / "curves.npz", **curves)
    found, turned = shoal.compare(result.folder, other), shoal.compare(other, result.folder)
    assert found["pairs"] == 4 and found["difference"] == -turned["difference"] == pytest.approx(-2.75 / 4)
    assert np.isnan([*found["difference_interval"], *found["interval"][0], *turned["interval"][1]]).all()
    assert main(["compare", str(result.folder), str(other)]) == 0
    said = capsys.readouterr().out
    assert "= -0.6875 over 4 pairs" in said and "too few pairs to decide: an interval needs 6" in said


def test_one_pair_has_no_interval(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "seeds": 1, "seed": 3}
    folders = [shoal.train("ppo", "CartPole-v1", folder=tmp_path / x, **options, **SILENT).folder for x in "ab"]
    found = shoal.compare(*folders)
    assert found["pairs"] == 1 and found["difference"] == 0.0
    assert np.isnan([*found["difference_interval"], *found["interval"][0]]).all()
