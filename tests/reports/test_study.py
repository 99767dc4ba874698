"""The report of a study: its best trial, its trials, what was asked."""

import json

import numpy as np

import shoal
from folders import HEAD, RUN, SEARCH, TRIALS, write_study
from pages import Page


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


def test_values_of_a_study_are_escaped(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    trials = [[*TRIALS[3][:-1], evil], [*TRIALS[5][:-1], "adam"]]
    search = {**SEARCH, evil: [evil, "b"]}
    page = Page(shoal.report(write_study(tmp_path / "cart", trials, search=search, sampler=evil)))
    assert not page.named("img") and evil in page.text


def test_the_trials_of_a_pareto_front_have_a_table_and_a_command(tmp_path):
    head = [*HEAD[:2], "score_return", "score_speed", *HEAD[3:]]
    trials = [[i, "COMPLETE", *pair, *TRIALS[0][3:]] for i, pair in enumerate([(1, 9), (9, 1), (0, 0)])]
    page = Page(shoal.report(write_study(tmp_path / "two", trials, head)))
    assert [row[:3] for row in page.table("trial")] == [["0", "1", "9"], ["1", "9", "1"]]
    assert f"shoal trials {tmp_path / 'two'} --preset 0 > chosen.toml" in page.text


def test_pictures_of_a_study_are_in_the_page_or_the_page_says_why_not(tmp_path):
    folder = write_study(tmp_path / "cart")
    (folder / "figures").mkdir()
    (folder / "figures" / "history.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "figures" / "odd.png").write_bytes(b"<svg>")
    page = Page(shoal.report(folder))
    assert [each["alt"] for each in page.named("img")] == ["history"]
    assert "odd.png is not shown here: it is no PNG" in page.text
