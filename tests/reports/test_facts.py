"""What a report reads of a run folder, and its warnings."""

import shoal
from folders import change_curves, write_population, write_run
from pages import Page
from shoal.reports.facts import Facts

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_an_unfinished_run_is_reported_as_far_as_it_is(tmp_path):
    page = page_of(write_run(tmp_path / "half", SCORES, steps=24_000, summary=False))
    assert "This run is not finished. Every member was trained for 6,000 of 24,000 steps (25 %)" in page.text
    assert f"shoal train --resume {tmp_path / 'half'}" in page.text and "is 400" in page.text


def test_missing_and_damaged_parts_are_said_and_do_not_matter(tmp_path):
    bare = write_run(tmp_path / "bare", SCORES, summary=False, provenance=None)
    (bare / "curves.npz").unlink()
    page = page_of(bare)
    assert "There is no result yet." in page.text and "no provenance.json" in page.text
    broken = write_run(tmp_path / "broken", SCORES)
    (broken / "summary.json").write_text("{}")
    (broken / "curves.npz").write_bytes((broken / "curves.npz").read_bytes()[:300])
    page = page_of(broken)
    assert "curves.npz is damaged" in page.text and "summary.json is damaged" in page.text


def test_stopped_members_and_episodes_that_were_cut_off_are_warned_of(tmp_path):
    cut = {"evaluation_episodes_cut_off": 7, "longest_evaluation_episode": 500}
    folder = write_run(tmp_path / "run", SCORES, summary=cut)
    change_curves(folder, alive=lambda value: value.__setitem__((slice(3, None), [1, 2]), False))
    page = page_of(folder)
    assert (
        "2 of 4 members were stopped early, because a loss or a weight became infinite or NaN: members 1, 2."
        in page.text
    )
    assert "7 of 400 evaluation episodes did not end within 500 steps" in page.text
    assert [row[0] for row in page.table("member") if row[-1] == "stopped"] == ["2", "1"]


def test_scores_are_those_of_settings_and_a_selector_is_named(tmp_path):
    grid = Facts(write_run(tmp_path / "grid", [[1, 2], [5, 8]], sweep={"clip": [0.1, 0.2]}))
    assert (grid.members, grid.steps_done, grid.seconds) == (4, 6000, 4.0)
    assert [score["mean"] for score in grid.score_of_settings] == [1.5, 6.5]
    population = Facts(write_population(tmp_path / "pbt"))
    assert (population.selector, population.has_lives) == ("pbt", True)
