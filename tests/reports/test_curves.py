"""The sections of learning curves: what is drawn, and what is said instead."""

import numpy as np

import shoal
from folders import change_curves, write_run
from pages import Page


def test_other_metrics_have_small_charts_and_those_that_never_changed_are_named(tmp_path):
    columns = {"value_loss": np.arange(24.0).reshape(6, 4), "entropy": np.full((6, 4), 0.5)}
    page = Page(shoal.report(write_run(tmp_path / "run", [1, 2, 3, 4], columns=columns.items())))
    assert "Other metrics (1)" in page.text and "These never changed: entropy (0.5)." in page.text
    assert [each["aria-label"] for each in page.named("svg") if each.get("class") == "plot"][:2] == [
        "episode return over environment steps of each member",
        "value_loss over environment steps",
    ]


def test_a_run_without_episodes_says_so(tmp_path):
    folder = write_run(tmp_path / "run", [1, 2])
    change_curves(folder, train_return=lambda v: v.fill(np.nan), eval_return=lambda v: v.fill(np.nan))
    assert "No episode has ended yet, so there is no curve." in Page(shoal.report(folder)).text


def test_several_environments_have_a_chart_each_and_unfinished_runs_are_named(tmp_path):
    one, two = write_run(tmp_path / "a", [1, 2]), write_run(tmp_path / "b", [1, 2], env="Acrobot-v1", summary=False)
    page = Page(shoal.report(one, two, out=tmp_path / "both.html"))
    assert "ppo (unfinished: 100 % of its steps)" in page.text
    assert "CartPole-v1" in page.text and "Acrobot-v1" in page.text
    assert "The same over time" in page.text
