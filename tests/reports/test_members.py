"""The result of a run in words, and the tables of its settings and members."""

import numpy as np

import shoal
from folders import change_curves, write_run
from pages import Page
from shoal.ops.statistics import bootstrap_interval
from shoal.viz.words import number

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_a_page_states_the_result_with_its_interval(tmp_path):
    page = page_of(write_run(tmp_path / "first", SCORES * 2))
    low, high = bootstrap_interval(SCORES * 2)
    words = "The interquartile mean (IQM) of the returns of 8 seeds is 250; its 95 % confidence interval reaches from "
    assert f"{words}{number(low)} to {number(high)}. The mean is 400, and the worst seed reached 100." in page.text
    assert "ppo on CartPole-v1" in page.text and "100 fresh episodes" in page.text
    assert [row[0] for row in page.table("member")] == [*"37261504"]  # the best first
    assert [row[2] for row in page.table("member")][::2] == ["1,000", "300", "200", "100"]


def test_one_member_has_no_interval_and_equal_members_need_none(tmp_path):
    assert "The return is 7.5 (1 seed). From fewer than 6" in page_of(write_run(tmp_path / "one", [7.5])).text
    assert "confidence interval reaches" not in page_of(write_run(tmp_path / "five", [1, 2, 3, 4, 5])).text
    page = page_of(write_run(tmp_path / "same", [500, 500, 500]))
    assert "The return is 500, the same for all 3 seeds." in page.text


def test_the_best_setting_of_a_sweep_comes_first_and_is_not_called_unbiased(tmp_path):
    sweep = {"learning_rate": [1e-3, 1e-4], "clip": [0.1, 0.2]}
    scores = [[1, 2, 3], [10, 20, 30], [4, 5, 6], [7, 8, 9]]
    page = page_of(write_run(tmp_path / "grid", scores, sweep=sweep))
    assert "The best of 4 settings is learning_rate 0.001, clip 0.2." in page.text
    assert "its score is somewhat too high" in page.text
    rows = page.table("learning_rate")
    assert [(row[0], row[1], row[2].split()[0]) for row in rows] == [
        ("0.001", "0.2", "20"),
        ("0.0001", "0.2", "8"),
        ("0.0001", "0.1", "5"),
        ("0.001", "0.1", "2"),
    ]
    heat = next(rows for rows in page.tables if rows[0][0].startswith("learning_rate ↓"))
    assert heat[1:] == [["0.0001", "5", "8"], ["0.001", "2", "20"]]  # rows ascend, columns are clip 0.1 and 0.2
    assert "by learning_rate" in page.text and "by clip" in page.text


def test_a_run_before_its_first_evaluation_shows_the_returns_of_training(tmp_path):
    folder = write_run(tmp_path / "early", [10, 30], summary=False)
    change_curves(folder, eval_return=lambda value: value.fill(np.nan))
    assert "After 6,000 steps, the mean return in training is 20 (2 members)" in page_of(folder).text
    change_curves(folder, train_return=lambda value: value.fill(np.nan))
    assert "No episode has ended yet" in page_of(folder).text


def test_a_large_population_gives_a_small_page_with_the_best_and_the_worst(tmp_path):
    scores = np.random.default_rng(0).permutation(1000.0 + np.arange(1000))
    path = shoal.report(write_run(tmp_path / "many", scores, records=100))
    page = Page(path)
    assert path.stat().st_size < 1_000_000
    shown = [row[2] for row in page.table("member")]
    assert shown == [f"{v:,}" for v in (*range(1999, 1969, -1), *range(1009, 999, -1))]
    assert "960 in between are left out" in page.text


def test_two_hyperparameters_that_are_words_or_numbers_have_a_table_of_colors(tmp_path):
    sweep = {"optimizer": ["adam", "sgd"], "clip": [0.1, 0.2]}
    page = page_of(write_run(tmp_path / "grid", [[1, 1], [2, 2], [3, 3], [np.nan, np.nan]], sweep=sweep))
    colors = [each.get("class") for name, each in page.elements if name == "td" and "v" in each.get("class", "")[:1]]
    assert colors == ["v0", "v6", "v11"]  # of 1, 2 and 3; a score that is not known has no color
