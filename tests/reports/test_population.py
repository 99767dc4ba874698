"""The section of a run with a selector: best members, lineage, rungs."""

import numpy as np

import shoal
from folders import write_population
from pages import Page
from shoal.reports.population import _slots_to_show
from shoal.training.lives import Life


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


def test_of_many_slots_those_of_the_lineage_are_shown_and_others_spread_evenly():
    none = np.zeros(0)
    lives = {slot: Life(slot, -1, slot, none, none, none, {}) for slot in range(1000)}
    slots = _slots_to_show(1000, lives, [7, 993])
    assert len(slots) == 64 and {7, 993, 0, 999} <= set(slots) and slots == sorted(slots)
    assert _slots_to_show(3, lives, [1]) == [0, 1, 2]
