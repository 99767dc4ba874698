"""Two runs are compared seed by seed where they share their random numbers."""

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


def test_one_pair_proves_nothing(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "seeds": 1, "seed": 3}
    folders = [shoal.train("ppo", "CartPole-v1", folder=tmp_path / x, **options, **SILENT).folder for x in "ab"]
    found = shoal.compare(*folders)
    assert found["pairs"] == 1 and found["difference"] == 0.0
    assert np.isnan([*found["difference_interval"], *found["interval"][0]]).all()
