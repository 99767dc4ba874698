"""The report of several runs: which is better, by how much, and what differs."""

import numpy as np

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
