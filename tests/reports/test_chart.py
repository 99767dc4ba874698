"""Charts: ticks, positions and colors by hand."""

import re

import numpy as np
import pytest

from shoal.reports.chart import Band, Dots, Line, Pieces, chart, evenly, shade
from shoal.reports.scale import is_logarithmic, scale_for
from shoal.reports.words import number, seconds_in_words


def drawn(mark, **how):
    """The paths of a chart, as lists of points."""
    paths = re.findall(r'<path class="([^"]*)" d="([^"]*)"', chart([mark], "x", "y", about="", **how))
    return {style: [tuple(map(int, at)) for at in re.findall(r"(-?\d+) (-?\d+)", steps)] for style, steps in paths}


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 100], ["0", "20", "40", "60", "80", "100"]),
        ([24_000, 500_000], ["100,000", "200,000", "300,000", "400,000", "500,000"]),
        ([-1, 1], ["-1", "-0.5", "0", "0.5", "1"]),
        ([3, 3], ["2.8", "3", "3.2"]),
        ([], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_ticks_are_at_round_numbers(values, labels):
    assert [label for _, label in scale_for([values], tight=True).ticks] == labels


def test_logarithmic_axes_have_ticks_at_powers_of_ten():
    scale = scale_for([[1e-4, 1e-1, -5, np.nan]], log=True, tight=True)
    assert [label for _, label in scale.ticks] == ["0.0001", "0.001", "0.01", "0.1"]
    np.testing.assert_allclose(scale.at([1e-4, 1e-2, 1e-1]), [0, 2 / 3, 1])
    assert np.isnan(scale.at([0.0])).all()
    assert is_logarithmic([0.001, 1]) and not is_logarithmic([-1, 1]) and not is_logarithmic([1, 20])


def test_whole_numbers_only():
    assert [label for _, label in scale_for([[1, 3]], tight=True, whole=True).ticks] == ["1", "2", "3"]


def test_a_line_goes_through_its_points_and_leaves_out_nan():
    # x from 0 to 10 is 0 to 2000; y has a margin of 4 % of 0 to 100, so 0 is at 4 / 108 from below
    (points,) = drawn(Line([0, 5, 7, 10], [0.0, 50.0, np.nan, 100.0], "c3")).values()
    assert points == [(0, round(1000 * (1 - 4 / 108))), (1000, 500), (2000, round(1000 * 4 / 108))]


def test_bands_go_around_and_pieces_are_separate():
    band = drawn(Band([0, 10], [0.0, 0.0], [1.0, 1.0]))["band c0"]
    top, below = round(1000 * 0.04 / 1.08), round(1000 * 1.04 / 1.08)
    assert band == [(0, top), (2000, top), (2000, below), (0, below)]
    text = chart([Pieces([0, 5], [0, 1], [5, 10], [0, 1], "v3")], "x", "y", about="")
    assert f'class="piece v3" d="M0 {below}L1000 {below}M1000 {top}L2000 {top}"' in text


def test_a_line_of_one_point_is_a_dot_and_rings_have_holes():
    assert [*drawn(Line([1], [2.0], "c1"))] == ["dot c1"]
    assert [*drawn(Dots([1, 2], [1, 2], "ring c1"))] == ["dot ring c1", "hole ring c1"]


def test_long_lines_are_thinned_evenly_with_both_ends():
    assert evenly(5).tolist() == [0, 1, 2, 3, 4] and evenly(0).tolist() == []
    kept = evenly(10_000)
    assert len(kept) == 240 and (kept[0], kept[-1]) == (0, 9_999) and np.ptp(np.diff(kept)) <= 1


def test_shades_go_from_the_lowest_to_the_highest_score():
    assert shade([0, 5, 10, 99, -3, np.nan], 0, 10).tolist() == [0, 6, 11, 11, 0, -1]
    assert shade([7.0, np.nan], 7, 7).tolist() == [6, -1]


def test_text_in_charts_is_escaped():
    text = chart([Line([0, 1], [0, 1], "c0", "<b>")], "<i>", "<u>", about='"<s>', legend=[("c0", "<q>")], title="<em>")
    assert not re.search(r"<(b|i|u|s|q|em)>", text) and "&lt;em&gt;" in text


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.00025, "0.00025"), (487.31, "487.3"), (12345.6, "12,346"), (3.0, "3"), (1e-5, "1e-05"), (-20.5, "-20.5")]
    + [(float("nan"), "–"), (None, "–"), (float("inf"), "infinite"), (True, "true"), (2e15, "2e+15")],
)
def test_numbers_have_four_digits(value, words):
    assert number(value) == words


def test_durations():
    assert [*map(seconds_in_words, (0.42, 35, 245, 7500, None))] == ["0.42 s", "35 s", "4 min 5 s", "2 h 5 min", "–"]
