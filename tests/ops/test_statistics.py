"""Population statistics against sums written out by hand, full enumeration, and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.stats

from shoal.ops.statistics import (
    FEWEST,
    bootstrap_interval,
    iqm,
    iqm_band,
    quantiles,
)
from shoal.training.records import score_summary


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


def test_bootstrap_of_six_members_matches_all_46656_resamples():
    x = [0.0, 1.0, 1.0, 2.0, 5.0, 9.0]
    means = np.asarray([*itertools.product(x, repeat=6)]).mean(axis=1)
    interval = bootstrap_interval(x, np.mean, resamples=20_000, level=0.9)
    assert interval == pytest.approx(np.quantile(means, (0.05, 0.95)), abs=0.17)  # means are 1/6 apart


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_fewer_than_six_members_have_no_interval(count):
    values = np.arange(count) + 1.0
    assert np.isnan(bootstrap_interval(values)).all()
    assert np.isnan(iqm_band(values[None])[1:]).all() and np.isfinite(iqm_band(values[None])[0])
    found = score_summary(values)
    assert np.isnan([found["iqm_low"], found["iqm_high"]]).all() and found["members"] == count


def test_bootstrap_agrees_with_scipy():
    x = np.random.default_rng(1).gamma(2.0, size=40)
    theirs = scipy.stats.bootstrap((x,), iqm, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    ours = bootstrap_interval(x, iqm, resamples=20_000)
    np.testing.assert_allclose(ours, theirs, atol=0.02)  # the interval is 0.75 wide; Monte-Carlo error is about 0.005
    assert bootstrap_interval(x, iqm) == bootstrap_interval(x[::-1], iqm)


@pytest.mark.parametrize(("count", "mean_covers", "iqm_covers"), [(6, 0.83, 0.89), (16, 0.91, 0.93), (30, 0.92, 0.93)])
def test_bootstrap_intervals_have_the_coverage_that_the_docs_say(count, mean_covers, iqm_covers):
    rows = np.random.default_rng(2).standard_normal((600, count))
    for statistic, expected in ((np.mean, mean_covers), (iqm, iqm_covers)):
        intervals = np.asarray([bootstrap_interval(row, statistic, resamples=500) for row in rows])
        covered = (intervals[:, 0] <= 0) & (intervals[:, 1] >= 0)
        assert abs(covered.mean() - expected) < 0.035  # 2.3 standard errors of 600 simulations


def test_band_of_a_curve_is_the_interval_of_each_record():
    x = np.random.default_rng(3).standard_normal((6, 10))
    x[2, 4] = x[3, [0, 9]] = x[4] = np.nan
    x[5, 1] = np.inf
    center, low, high = iqm_band(x)
    for row, *band in zip(x, center, low, high, strict=True):
        there = row[np.isfinite(row)]
        expected = [iqm(there), *bootstrap_interval(there)] if there.size else [np.nan] * 3
        np.testing.assert_allclose(band, expected, rtol=1e-9)


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
