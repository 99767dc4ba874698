"""Results: members, curves, tables and the best member, read from the files of a run."""

import jax
import numpy as np
import pytest

import shoal
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_members_are_settings_times_seeds_setting_major(result):
    assert result.settings == [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
    assert [(m["learning_rate"], m["seed"]) for m in result.members] == [(1e-3, 0), (1e-3, 1), (1e-2, 0), (1e-2, 1)]
    assert len(result.policies) == 4


def test_curves_have_a_row_for_each_record(result):
    np.testing.assert_array_equal(result.curves["env_steps"], [64, 128, 192, 256])
    assert result.curves["train_return"].shape == (4, 4)
    assert (~np.isnan(result.curves["eval_return"])).sum() == 2 * 4  # two evaluations of four members
    assert result.summary["members"] == 4


def test_the_repr_shows_the_run_and_its_settings(result):
    assert "ppo on CartPole-v1: mean return" in repr(result)
    assert "learning_rate = 0.001" in result._repr_html_()


def test_a_data_frame_is_long_or_names_the_package_to_install(result):
    pandas = pytest.importorskip("pandas", reason="the message is tested in core")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 16
    row = frame[(frame.member == 3) & (frame.env_steps == 256)].iloc[0]
    assert row.learning_rate == 1e-2 and row.seed == 1 and row.train_return == result.curves["train_return"][3, 3]


def test_the_best_member_is_the_one_with_the_highest_last_evaluation(result):
    last = result.curves["eval_return"][-1]
    assert result.ranking()[0] == int(np.argmax(last))
    assert result.policy("best").name == result.policy(int(np.argmax(last))).name


def test_an_unknown_member_is_refused(result):
    with pytest.raises(IndexError, match="member 9 does not exist: the population has members 0 to 3"):
        result.policy(9)
    with pytest.raises(ValueError, match="member='worst' is unknown"):
        result.policy("worst")


def test_unknown_members_and_weights_are_refused(result):
    with pytest.raises(ValueError, match="which='final' is unknown. Choose 'last' or 'best'"):
        shoal.load(result.folder, which="final")
    with pytest.raises(ValueError, match="member='worst' is unknown. Give a number, or 'best'"):
        shoal.load(result.folder, "worst")
    assert result.policy(np.int64(1)).name == result.policy(1).name


def test_without_evaluations_there_is_no_best_member(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "evaluations": 0, "seeds": 2}
    made = shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", **options, **SILENT)
    with pytest.raises(ValueError, match="has not been evaluated, so no member is the best yet: give a number"):
        made.policy()
    assert made.policy(1) is not None
    (made.folder / "summary.json").unlink()
    assert "not finished" in made._repr_html_()
