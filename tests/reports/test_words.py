"""Numbers, intervals, durations and scores as texts."""

from shoal.reports.words import counted, few, interval, score_in_words, seconds_in_words, size_in_words, with_interval


def test_durations():
    assert [*map(seconds_in_words, (0.42, 35, 245, 7500, None))] == ["0.42 s", "35 s", "4 min 5 s", "2 h 5 min", "–"]


def test_intervals_that_are_not_known_are_left_out():
    assert (interval(1.25, 2000.4), interval(1, float("nan")), interval(None, 2)) == ("1.25 to 2,000", "–", "–")
    assert (with_interval(1, 0, 2), with_interval(1, None, None)) == ("1 (0 to 2)", "1")


def test_counts_lists_and_sizes():
    assert (counted(1, "seed"), counted(1234, "seed")) == ("1 seed", "1,234 seeds")
    assert (few([1, 2]), few(range(5), 2)) == ("1, 2", "0, 1 and 3 more")
    assert [*map(size_in_words, (10, 312_400, 4_200_000))] == ["1 kB", "312 kB", "4.2 MB"]


def test_scores_are_told_with_what_is_known_of_them():
    score = {"members": 8, "min": 1.0, "max": 9.0, "mean": 5.0, "iqm": 6.0, "iqm_low": 4.0, "iqm_high": 7.0}
    assert "returns of 8 seeds is 6; its 95\u00a0% confidence interval reaches from 4 to 7" in score_in_words(
        score, "seed"
    )
    assert "mean return is 5 (3 seeds). From fewer than 6 seeds" in score_in_words({**score, "members": 3}, "seed")
    same = score_in_words({**score, "min": 5.0, "max": 5.0}, "member")
    assert same == "The return is 5, the same for all 8 members."
    assert score_in_words({}, "seed") == "No member has been evaluated."
