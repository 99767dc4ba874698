"""Axes and marks of charts: ticks, positions and ranges by hand."""

import numpy as np
import pytest

from shoal.viz.chart import Band, Chart, Dots, Levels, Line, Pieces, evenly
from shoal.viz.scale import is_logarithmic, named_scale, scale_for


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


@pytest.mark.parametrize("low, high", [(0.0123, 0.9), (1.3e-6, 0.2), (2.1, 3.7), (0.03, 0.031), (0.9, 1e5)])
def test_logarithmic_axes_have_few_ticks(low, high):
    ticks = [value for value, _ in scale_for([[low, high]], log=True, ticks=4, tight=True).ticks]
    assert 2 <= len(ticks) <= 4 and low <= min(ticks) and max(ticks) <= high


def test_whole_numbers_only():
    assert [label for _, label in scale_for([[1, 3]], tight=True, whole=True).ticks] == ["1", "2", "3"]


def test_long_lines_are_thinned_evenly_with_both_ends():
    assert evenly(5, 240).tolist() == [0, 1, 2, 3, 4] and evenly(0, 240).tolist() == []
    kept = evenly(10_000, 240)
    assert len(kept) == 240 and (kept[0], kept[-1]) == (0, 9_999) and np.ptp(np.diff(kept)) <= 1


def test_the_axes_show_every_mark():
    marks = [
        Line([0, 10], [1, 2]),
        Band([0], [-3], [1]),
        Dots([20], [0]),
        Pieces([-5], [0], [0], [7]),
        Levels([30], [9]),
    ]
    x, y = Chart(marks, "x", "y").scales()
    assert x.limits == (-5, 30)
    np.testing.assert_allclose(y.limits, (-3 - 0.04 * 12, 9 + 0.04 * 12))


def test_names_stand_at_their_positions_and_logarithms_have_limits_in_values():
    scale = named_scale(["a", "b"])
    assert (scale.limits, scale.ticks) == ((-0.5, 1.5), [(0, "a"), (1, "b")])
    np.testing.assert_allclose(scale_for([[0.01, 100]], log=True, tight=True).limits, (0.01, 100))
