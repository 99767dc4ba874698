"""Reports of populations, evolutions, comparisons and studies."""

import csv
import json

import numpy as np
import pytest

import shoal
from folders import HEAD, RUN, SEARCH, TRIALS, write_evolution, write_population, write_run, write_study
from pages import Page
from shoal.core.errors import DamagedError
from shoal.training.comparison import compare


def test_a_population_shows_its_best_members_and_their_lineage(tmp_path):
    page = Page(shoal.report(write_population(tmp_path / "pbt")))
    assert "The best of 3 members reaches a mean return of 45 with learning_rate 0.12." in page.text
    assert "4 members were trained in 3 slots; 1 of them began as copies of others" in page.text
    # member, slot, return, ancestors, learning rate: member 3 in slot 2 is a copy of member 0
    assert page.table("member") == [
        ["3", "2", "45", "0", "0.12"],
        ["0", "0", "40", "none", "0.1"],
        ["1", "1", "5", "none", "0.01"],
    ]
    assert "Ancestors of the best member: 3 from 0." in page.text
    rows = {row[0]: row[1:4] for row in page.table("hyperparameter")}
    assert rows["learning_rate"][0] == "0.001 to 0.12" and rows["learning_rate"][2] == "changes in training"
    assert "Selector: pbt" in page.text and "Rungs" not in page.text


def test_halving_shows_who_was_dropped(tmp_path):
    page = Page(shoal.report(write_population(tmp_path / "halving", "halving")))
    assert "Rungs" in page.text and "1 of 3 members were dropped at a rung" in page.text
    assert [row[1] for row in page.table("slot")] == ["0", "1", "idle"] and "Lineage" not in page.text


def test_an_evolution_shows_fitness_and_what_was_found(tmp_path):
    page = Page(shoal.report(write_evolution(tmp_path / "evolved")))
    # generation 1: (4 + 15) / 2, generation 2: (10 + 30) / 2
    assert "In 2 generations the mean fitness of the candidates went from 9.5 to 20." in page.text
    assert "The best single candidate had 30" in page.text and "2 candidates x 2 seeds" in page.text
    assert "learning_rate 0.002" in page.text and f"--found {tmp_path / 'evolved'} --seed 1" in page.text
    assert "without evaluations" not in page.text  # an evolution has none


def test_a_comparison_says_which_run_is_better_and_what_differs(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.uniform(10, 20, 8)
    one = write_run(tmp_path / "a", base, fields={"learning_rate": 0.5})
    two = write_run(tmp_path / "b", base + rng.uniform(4, 6, 8), summary=False, steps=12_000)
    page = Page(shoal.report(one, two, out=tmp_path / "both.html"))
    found = compare(two, one)
    low, high = found["difference_interval"]
    words = (
        f"b is better than a by {found['difference']:.4g} on average (95 % confidence interval {low:.4g} to {high:.4g}"
    )
    assert f"{words}, over 8 pairs of the same setting and seed)" in page.text
    assert f"probability of {100 * found['probability_of_improvement']:.0f} %" in page.text
    assert "b: This run is not finished." in page.text
    differing = {row[0]: row[1:] for row in page.table("hyperparameter")}
    assert differing == {"learning_rate": ["0.5", f"{shoal.PPO().learning_rate:g}"], "steps": ["6000", "12000"]}
    scores = page.table("run")
    assert (
        [row[0] for row in scores] == ["a", "b"]
        and scores[0][5] == "–"
        and scores[1][5].startswith(f"{found['difference']:.4g} (")
    )
    worse = Page(shoal.report(two, one, out=tmp_path / "turned.html"))
    assert f"a is worse than b by {found['difference']:.4g} on average" in worse.text


def test_runs_that_cannot_be_paired_or_have_no_score_are_said(tmp_path):
    one, two = write_run(tmp_path / "a", [1, 2, 3]), write_run(tmp_path / "b", [1, 2, 3], seed=5)
    bare = write_run(tmp_path / "c", [1, 2], summary=False)
    (bare / "curves.npz").unlink()
    page = Page(shoal.report(one, two, bare, out=tmp_path / "all.html"))
    assert "They share no setting and seed, so their members cannot be paired" in page.text
    assert "c cannot be compared:" in page.text and "3 runs compared" not in page.text  # one title fits all


def test_a_study_reports_the_best_trial_on_fresh_seeds(tmp_path):
    folder = write_study(tmp_path / "cart", fresh=[400, 420, 440, 500] * 2)
    page = Page(shoal.report(folder))
    assert "On fresh seeds the best trial reaches 430. Trial 3 is the best of 7 trials" in page.text
    assert "Its score in the study was 480; on seeds that the study never used it is lower by 50." in page.text
    assert "This study is not finished. 6 of 8 trials have ended." in page.text and "1 trial failed" in page.text
    assert "4 trained to the end, 1 pruned, 1 failed, 1 running" in page.text
    rows = page.table("trial")
    assert [row[0] for row in rows] == ["3", "5", "1", "0", "2", "4", "6"]  # complete ones first, by score
    assert rows[0][:6] == ["3", "480", "trained to the end", "0.004", "0.22", "adam"]
    assert {row[0]: row[1] for row in page.table("hyperparameter")} == {
        "learning_rate": "log(0.0001,0.1)",
        "clip": "0.1..0.3",
        "optimizer": "adam|sgd",
    }
    assert "--search 'learning_rate=log(0.0001,0.1)' --search clip=0.1..0.3 --search 'optimizer=adam|sgd'" in page.text
    assert f"--preset {folder / 'best.toml'}" in page.text and "95.0 %" in page.text


def test_a_study_without_evaluations_reports_the_score_on_fresh_seeds_of_its_summary(tmp_path):
    folder = write_study(tmp_path / "cart", fresh=[400, 420, 440, 500], run={**RUN, "evaluations": 0})
    words = "Trial 3 scored 480 in the study, the best of 7 trials, on 4 seeds, and 431.5 on 16 fresh seeds. Report it."
    fresh = {"trial": 3, "fresh_score": 431.5, "fresh_low": 402, "fresh_high": 467, "fresh_seeds": 16, "words": words}
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "best": {**summary["best"], **fresh}}))
    page = Page(shoal.report(folder))
    assert "On fresh seeds the best trial reaches 431.5. Trial 3 is the best of 7 trials" in page.text
    assert "and 431.5 on 16 fresh seeds. Scores are returns of training episodes." in page.text
    assert "402 to 467, 16 seeds" in page.text and "on fresh seeds it will be lower" not in page.text


def test_a_study_without_fresh_seeds_says_that_its_score_is_too_high(tmp_path):
    page = Page(shoal.report(write_study(tmp_path / "cart")))
    assert "The best score is 480." in page.text and "so its score is too high on average" in page.text


def test_a_password_in_the_storage_of_a_study_is_never_shown(tmp_path):
    path = shoal.report(write_study(tmp_path / "cart"))
    assert "secret" not in path.read_text() and "postgresql://me:***@db.example.org/studies" in path.read_text()


def test_several_objectives_show_the_trials_that_none_exceeds(tmp_path):
    head = [*HEAD[:2], "score_return", "score_speed", *HEAD[3:]]
    scores = [(1, 9), (5, 5), (9, 1), (4, 4), (5, 4)]  # the last two are exceeded by (5, 5)
    trials = [[i, "COMPLETE", *pair, *TRIALS[0][3:]] for i, pair in enumerate(scores)]
    page = Page(shoal.report(write_study(tmp_path / "two", trials, head)))
    assert "3 of 5 complete trials are on the Pareto front" in page.text and "Trade-off" in page.text


def test_a_study_of_many_trials_gives_a_small_page(tmp_path):
    rng = np.random.default_rng(0)
    trials = [[i, "COMPLETE", s, 20, "a", 0, 3.0, 10**-s, 0.2, "adam"] for i, s in enumerate(rng.uniform(1, 3, 10_000))]
    path = shoal.report(write_study(tmp_path / "large", trials, trials_asked=10_000))
    assert path.stat().st_size < 1_000_000 and len(Page(path).table("trial")) == 60


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


def test_values_of_a_study_are_escaped(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    trials = [[*TRIALS[3][:-1], evil], [*TRIALS[5][:-1], "adam"]]
    search = {**SEARCH, evil: [evil, "b"]}
    page = Page(shoal.report(write_study(tmp_path / "cart", trials, search=search, sampler=evil)))
    assert not page.named("img") and evil in page.text
