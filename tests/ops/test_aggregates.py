"""Aggregates over environments against rliable, SciPy, and sums written out by hand."""

import numpy as np
import pytest
import scipy.stats

from shoal.ops.aggregates import (
    AGGREGATES,
    estimate,
    iqm_curve,
    paired_difference,
    performance_profile,
    pooled_iqm,
    probability_of_improvement,
    resample,
)
from shoal.ops.statistics import FEWEST, bootstrap_interval, iqm

X = [*np.random.RandomState(0).gamma(2.0, 0.4, (8, 3)).T]  # three environments, eight seeds
Y = [*np.random.RandomState(1).gamma(2.0, 0.3, (8, 3)).T]

# From benchmarks/rliable_numbers.py with rliable 1.2.0: the value, and the ends of the interval from 20,000 resamples.
RLIABLE = {
    "IQM": (0.918692, 0.58, 1.325),
    "median": (0.903651, 0.624, 1.311),
    "mean": (1.009175, 0.743, 1.292),
    "optimality gap": (0.301433, 0.171, 0.44),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_are_those_of_rliable(name):
    value, *interval = RLIABLE[name]
    found = estimate(AGGREGATES[name], X)
    assert found.value == pytest.approx(value, abs=1e-6)
    assert [found.low, found.high] == pytest.approx(interval, abs=0.04)  # Monte-Carlo error of 2,000 resamples


def test_probability_and_profile_are_those_of_rliable():
    found = probability_of_improvement(X, Y)
    assert found.value == 0.671875 and found[1:] == pytest.approx((0.5, 0.823), abs=0.02)
    profile = performance_profile(X, np.array([0.25, 0.5, 1.0]))
    np.testing.assert_allclose(profile.value, [20 / 24, 17 / 24, 10 / 24])
    np.testing.assert_allclose(profile[1:], [[16 / 24, 13 / 24, 5 / 24], [23 / 24, 21 / 24, 15 / 24]], atol=1e-9)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_agree_with_rliable_where_it_is_installed(name):
    metrics = pytest.importorskip("rliable.metrics")
    theirs = {"IQM": "iqm", "optimality gap": "optimality_gap"}.get(name, name)
    expected = getattr(metrics, f"aggregate_{theirs}")(np.stack(X, axis=1))
    assert estimate(AGGREGATES[name], X).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [6, 7, 16, 64])
def test_one_environment_has_the_mean_iqm_and_interval_of_a_population(count):
    x = np.sort(np.random.default_rng(count).gamma(2.0, size=count))
    for name, statistic in (("IQM", iqm), ("mean", np.mean)):
        expected = [statistic(x), *bootstrap_interval(x, statistic)]
        np.testing.assert_allclose(estimate(AGGREGATES[name], [x]), expected, rtol=1e-12)


def test_environments_count_equally_where_seeds_differ_in_number():
    assert estimate(AGGREGATES["mean"], [np.array([1.0, 2.0, 3.0]), np.array([6.0])]).value == (2 + 6) / 2
    # Weights 1/4 for 0 and 4, 1/2 for 8; of three scores floor(3 / 4) = 0 are cut off: the mean.
    assert estimate(pooled_iqm, [np.array([0.0, 4.0]), np.array([8.0])]).value == 0 / 4 + 4 / 4 + 8 / 2
    # Of five scores one fifth of the weight is cut off at each end. Weights 1/8 for 0, 1, 2, 3 and 1/2 for 9: from the
    # low end 1/8 of 0 and 3/40 of 1, from the high end 1/5 of 9.
    found = estimate(pooled_iqm, [np.arange(4.0), np.array([9.0])]).value
    assert found == pytest.approx((1 * (1 / 4 - 1 / 5) + 2 / 8 + 3 / 8 + 9 * (1 / 2 - 1 / 5)) / (3 / 5))


def test_resamples_are_stratified():
    counts = resample([3, 7], resamples=50)
    assert [each.shape for each in counts] == [(50, 3), (50, 7)]
    assert (counts[0].sum(axis=1) == 3).all() and (counts[1].sum(axis=1) == 7).all()
    # Scores that differ between environments only have no variance: every resample has the same environments.
    same = [np.full(8, value) for value in (0.0, 1.0, 5.0)]
    assert estimate(AGGREGATES["median"], same) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("count", [6, 7, 16, 64])
@pytest.mark.parametrize("paired", [True, False])
def test_b_against_a_is_the_mirror_image_of_a_against_b(count, paired):
    random = np.random.default_rng(count)
    a = [random.gamma(2.0, size=count), random.integers(0, 3, count).astype(float)]
    b = [random.normal(size=count), random.integers(0, 3, count).astype(float)]
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there.low < there.high and (back.value, back.low, back.high) == (-there.value, -there.high, -there.low)
    chance, turned = (probability_of_improvement(*each, paired=paired) for each in ((a, b), (b, a)))
    assert turned == (1 - chance.value, 1 - chance.high, 1 - chance.low)
    assert chance == (1 - turned.value, 1 - turned.high, 1 - turned.low)


def test_differences_that_are_symmetric_have_mirror_images_too():
    d = np.array([-3.0, -2, -1, 1, 2, 3])
    there, back = paired_difference([d], [0 * d]), paired_difference([0 * d], [d])
    assert (back.low, back.high) == (-there.high, -there.low)
    assert paired_difference([d], [d]) == (0.0, 0.0, 0.0)


def test_pairing_cancels_what_a_seed_does_to_both():
    seeds = 100.0 * np.arange(20)
    _, low, high = paired_difference([seeds + np.tile([1.0, 3.0], 10)], [seeds])
    assert 1.5 <= low < 2.0 < high <= 2.5  # differences 1 and 3: mean 2, standard error 1 / sqrt(20) = 0.22
    shifted = [seeds + 1]
    paired, alone = (probability_of_improvement(shifted, [seeds], paired=each) for each in (True, False))
    assert alone.low < 0.5 < paired.low and alone.value == paired.value


def test_probability_of_improvement_counts_pairs_and_halves_ties():
    found = probability_of_improvement([np.array([1.0, 2])], [np.array([2.0, 0, 1])]).value
    assert found == (0.5 + 1 + 0 + 1 + 1 + 0.5) / 6
    a, b = np.random.default_rng(4).integers(0, 5, (2, 30)).astype(float)
    expected = scipy.stats.mannwhitneyu(a, b).statistic / 900
    assert probability_of_improvement([a], [b]).value == pytest.approx(expected)


def test_a_curve_is_the_iqm_at_each_time():
    curves = [np.random.default_rng(e).gamma(2.0, size=(4, 8)) for e in range(2)]
    curves[1][2, 3] = np.nan
    found = iqm_curve(curves)
    assert np.isnan([each[2] for each in found]).all()
    for time in (0, 1, 3):
        expected = estimate(pooled_iqm, [each[time] for each in curves])
        np.testing.assert_allclose([each[time] for each in found], expected)


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_fewer_than_six_seeds_have_no_interval(count):
    scores = [np.arange(8.0), np.arange(count) + 1.0]
    every = [estimate(statistic, scores) for statistic in AGGREGATES.values()]
    every += [paired_difference(scores, scores), probability_of_improvement(scores, scores)]
    assert np.isnan([each[1:] for each in every]).all() and np.isfinite([each.value for each in every]).all()
    assert np.isnan(performance_profile(scores, np.array([0.5, 2.0]))[1:]).all()
    assert np.isnan(iqm_curve([each[None] for each in scores])[1:]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate(pooled_iqm, []), "there are no scores"),
        (lambda: estimate(pooled_iqm, [np.array([1.0, np.nan])]), "an environment got NaN for 1 of 2 members"),
        (lambda: estimate(pooled_iqm, [np.ones((2, 3))]), r"one number per member, shape \[M\]; got shape \[2, 3\]"),
        (lambda: estimate(pooled_iqm, X, level=95.0), "level=95.0 is not a confidence level"),
        (lambda: paired_difference([np.ones(3)], [np.ones(2)]), r"a has \[3\] seeds and b has \[2\]"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("how", [paired_difference, lambda a, b: probability_of_improvement(a, b, paired=True)])
def test_pairs_of_different_numbers_of_seeds_are_refused(how):
    with pytest.raises(ValueError, match=r"a has \[6\] seeds and b has \[8\], so they cannot be paired"):
        how([np.arange(6.0)], [np.arange(8.0)])
