"""The report of several runs: which is better, by how much, and what differs."""

import numpy as np
import pytest

import shoal
from folders import write_run
from pages import Page
from shoal.training.compare import compare


def test_a_comparison_says_which_run_is_better_and_what_differs(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.uniform(10, 20, 8)
    one = write_run(tmp_path / "a", base, fields={"learning_rate": 0.5})
    two = write_run(tmp_path / "b", base + rng.uniform(4, 6, 8), summary=False, steps=12_000)
    page = Page(shoal.report(one, two, out=tmp_path / "both.html"))
    found = compare(two, one).against(0, 1)
    difference, low, high = found.difference
    words = f"b is better than a by {difference:.4g} on average (95 % confidence interval {low:.4g} to {high:.4g}"
    assert f"{words}, over 8 pairs of the same setting and seed)" in page.text
    assert f"probability of {100 * found.probability.value:.0f} %" in page.text
    assert "b: This run is not finished." in page.text
    differing = {row[0]: row[1:] for row in page.table("hyperparameter")}
    assert differing == {"learning_rate": ["0.5", f"{shoal.PPO().learning_rate:g}"], "steps": ["6000", "12000"]}
    scores = page.table("run")
    assert (
        [row[0] for row in scores] == ["a", "b"]
        and scores[0][5] == "–"
        and scores[1][5].startswith(f"{difference:.4g} (")
    )
    worse = Page(shoal.report(two, one, out=tmp_path / "turned.html"))
    assert f"a is worse than b by {difference:.4g} on average" in worse.text


def test_runs_that_cannot_be_paired_or_have_no_score_are_said(tmp_path):
    one, two = write_run(tmp_path / "a", [1, 2, 3]), write_run(tmp_path / "b", [1, 2, 3], seed=5)
    bare = write_run(tmp_path / "c", [1, 2], summary=False)
    (bare / "curves.npz").unlink()
    page = Page(shoal.report(one, two, bare, out=tmp_path / "all.html"))
    assert "They share no setting and seed, so their members cannot be paired" in page.text
    assert "c cannot be compared:" in page.text and "3 runs compared" not in page.text  # one title fits all


def test_groups_are_compared_over_all_environments(tmp_path):
    random = np.random.default_rng(0)
    folders = [
        write_run(tmp_path / f"{agent}-{env}", random.normal(mean, 1, 8), agent=agent, env=f"my.py:{env}")
        for agent, mean in (("ppo", 5), ("dqn", 0))
        for env in ("One", "Two")
    ]
    page = Page(shoal.report(*folders, out=tmp_path / "all.html"))
    found = compare(folders)
    value, low, high = (abs(number) for number in found.against(1, 0).difference)
    assert f"dqn is worse than ppo by {value:.4g} of the normalized score on average" in page.text
    assert f"(95 % confidence interval {high:.4g} to {low:.4g}, over 8 pairs" in page.text
    assert [row[:2] for row in page.tables[0][1:]] == [["ppo", "2"], ["dqn", "2"]]
    assert page.tables[0][1][2].startswith(f"{found.aggregates[0]['IQM'].value:.3f} (")
    assert page.tables[1][1][0] == "ppo vs. dqn" and "Over all environments" in page.text
    assert "One: 0 and 1 are the lowest and the highest score of these runs" in page.text
    named = Page(shoal.report(*folders, label={"A": folders[:2], "B": folders[2:]}, out=tmp_path / "named.html"))
    assert "B is worse than A by" in named.text


def test_runs_that_make_no_groups_say_why_and_are_reported_still(tmp_path):
    envs = {"a": "One", "b": "One", "c": "Two"}
    folders = [write_run(tmp_path / name, [1.0, 2], env=f"my.py:{env}") for name, env in envs.items()]
    page = Page(shoal.report(*folders, out=tmp_path / "all.html"))
    assert "A group cannot be compared: " in page.text and "are both ppo in One" in page.text and page.table("run")
    with pytest.raises(ValueError, match="has no hyperparameter 'nothing'"):
        shoal.report(*folders, group="nothing", out=tmp_path / "x.html")
    with pytest.raises(ValueError, match="group is for a report of several runs"):
        shoal.report(folders[0], group="agent")
