"""The files of a study: what they say, and what of them is shown."""

import csv

import numpy as np
import pytest

import shoal
from folders import write_run, write_study
from pages import Page
from shoal.core.errors import DamagedError
from shoal.reports.trials import Study, as_numbers, is_study


def test_a_password_in_the_storage_of_a_study_is_never_shown(tmp_path):
    path = shoal.report(write_study(tmp_path / "cart"))
    assert "secret" not in path.read_text() and "postgresql://me:***@db.example.org/studies" in path.read_text()


def test_studies_that_are_damaged_or_mixed_with_runs_are_refused(tmp_path):
    folder = write_study(tmp_path / "cart")
    with pytest.raises(ValueError, match="is a study, and a study has a report of its own"):
        shoal.report(folder, write_run(tmp_path / "run", [1]))
    with open(folder / "trials.csv", "a", newline="") as file:
        csv.writer(file).writerow([1, 2])
    assert "trials.csv is damaged" in Page(shoal.report(folder)).text
    (folder / "trials.csv").unlink()
    assert "There is no table of trials yet" in Page(shoal.report(folder)).text
    (folder / "study.json").write_text("[]")
    with pytest.raises(DamagedError, match="study.json is damaged"):
        shoal.report(folder)


def test_the_best_trial_of_a_study_that_minimizes_is_the_lowest_and_a_number_may_be_a_word(tmp_path):
    folder = write_study(tmp_path / "cart", direction="minimize")
    assert [Study(folder).numbers[row] for row in Study(folder).best] == [0]  # 120.5
    assert Study(folder).parameters["optimizer"][:2] == ["adam", "sgd"] and is_study(folder)
    np.testing.assert_array_equal(as_numbers(["1e-3", "True", "adam", ""]), [0.001, 1, np.nan, np.nan])
