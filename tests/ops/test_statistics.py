"""Population statistics against sums written out by hand, full enumeration, and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.stats

from shoal.ops.statistics import (
    bootstrap_interval,
    iqm,
    iqm_band,
    paired_difference_interval,
    probability_of_improvement,
    quantiles,
)


def test_iqm_cuts_a_quarter_off_each_end():
    assert iqm([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -50.0]) == (2 + 3 + 4 + 5) / 4


def test_iqm_of_fewer_than_four_is_the_mean():
    assert iqm([1.0, 2.0, 6.0]) == 3.0


@pytest.mark.parametrize("count", [1, 3, 4, 5, 10, 16, 129])
def test_iqm_agrees_with_scipy(count):
    x = np.random.default_rng(count).standard_normal((3, count))
    np.testing.assert_allclose(iqm(x), scipy.stats.trim_mean(x, 0.25, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(iqm(x.T, axis=0), iqm(x), rtol=0)


def test_iqm_of_no_members_is_an_error():
    with pytest.raises(ValueError, match="at least one member"):
        iqm([])


def test_quantiles_interpolate_and_skip_missing_members():
    x = [[0.0, 10.0, 20.0, 30.0, 40.0], [np.nan, 4.0, np.nan, 2.0, np.nan], [np.nan] * 5]
    expected = [[2.0, 20.0, 38.0], [2.1, 3.0, 3.9], [np.nan] * 3]  # 0.05 of the way along 4 gaps; along 1 gap; nothing
    np.testing.assert_allclose(quantiles(x, (0.05, 0.5, 0.95)), expected)


def test_bootstrap_of_three_members_matches_all_27_resamples():
    x = [0.0, 1.0, 5.0]
    means = sorted(np.mean(draw) for draw in itertools.product(x, repeat=3))
    # 27 resamples: 1 has mean 0 and 1 has mean 5 (3.7 % each), so the middle 90 % reaches from 1/3 to 11/3 or nearly.
    assert means[0] == 0 and means[1] == pytest.approx(1 / 3) and means[-2] == pytest.approx(11 / 3)
    interval = bootstrap_interval(x, np.mean, resamples=20_000, level=0.9)
    assert interval == pytest.approx((1 / 3, 11 / 3))


def test_bootstrap_agrees_with_scipy():
    x = np.random.default_rng(1).gamma(2.0, size=40)
    theirs = scipy.stats.bootstrap((x,), iqm, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    ours = bootstrap_interval(x, iqm, resamples=20_000)
    np.testing.assert_allclose(ours, theirs, atol=0.02)  # the interval is 0.75 wide; Monte-Carlo error is about 0.005
    assert bootstrap_interval(x, iqm) == bootstrap_interval(x[::-1], iqm)


def test_bootstrap_intervals_have_about_their_nominal_coverage():
    rows = np.random.default_rng(2).standard_normal((400, 30))
    covered = [low <= 0 <= high for low, high in (bootstrap_interval(row, np.mean, resamples=500) for row in rows)]
    assert 0.89 < np.mean(covered) < 0.97  # percentile bootstrap of 30: a little under 0.95


def test_band_of_a_curve_is_the_interval_of_each_record():
    x = np.random.default_rng(3).standard_normal((6, 10))
    x[2, 4] = x[3, [0, 9]] = x[4] = np.nan
    x[5, 1] = np.inf
    center, low, high = iqm_band(x)
    for row, *band in zip(x, center, low, high, strict=True):
        there = row[np.isfinite(row)]
        expected = [iqm(there), *bootstrap_interval(there)] if there.size else [np.nan] * 3
        np.testing.assert_allclose(band, expected, rtol=1e-9)


def test_pairing_cancels_what_a_seed_does_to_both():
    seeds = 100.0 * np.arange(20)
    low, high = paired_difference_interval(seeds + np.tile([1.0, 3.0], 10), seeds)
    assert 1.5 < low < 2.0 < high < 2.5  # differences 1 and 3: mean 2, standard error 1 / sqrt(20) = 0.22


def test_unequal_populations_cannot_be_paired():
    with pytest.raises(ValueError, match="a has 3 members and b has 2"):
        paired_difference_interval([1, 2, 3], [1, 2])


def test_probability_of_improvement_counts_pairs_and_halves_ties():
    assert probability_of_improvement([1, 2], [2, 0, 1]) == (0.5 + 1 + 0 + 1 + 1 + 0.5) / 6
    a, b = np.random.default_rng(4).integers(0, 5, (2, 30))
    expected = scipy.stats.mannwhitneyu(a, b).statistic / 900
    assert probability_of_improvement(a, b) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval([1.0, np.nan]), "NaN for 1 of 2 members"),
        (lambda: bootstrap_interval(np.ones((2, 3))), r"shape \[M\]; got shape \[2, 3\]"),
        (lambda: bootstrap_interval([1.0], level=95.0), "level=95.0 is not a confidence level"),
        (lambda: bootstrap_interval([1.0], resamples=0), "resamples=0 gives no bootstrap sample"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
