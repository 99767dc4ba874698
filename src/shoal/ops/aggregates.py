"""Compare learners over several environments: aggregates, intervals, profiles, probability of improvement. NumPy only.

The scores of a learner are a list with an array [S_e] for each of E environments: a score of each seed, normalized so
that scores of different environments can be averaged (0: random play, 1: the target, for example). Every environment
counts equally in every statistic, also where the numbers of seeds differ.

Intervals are percentile intervals of the stratified bootstrap: a resample draws S_e seeds with replacement in every
environment. So they are about other seeds in the same environments, not about other environments. A resample is kept as
the number of times that it has each seed; then all statistics are sums, and none needs the resampled scores.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice", sections 4.1 to
4.3, and its package rliable 1.2.0 (`metrics.py`, `library.py`), which has the same values. Differences from it: numbers
of seeds may differ, there is no interval of fewer than six seeds, two learners with the same seeds are resampled
together, and the statistics of B against A are those of A against B with the sign changed, to the last bit.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.ops.statistics import FEWEST, checked_sample, resampled_indices, tails_of

Scores = Sequence[np.ndarray]  # of each environment: [S_e]
Counts = Sequence[np.ndarray]  # of each environment: [R, S_e], how often each of R resamples has each seed
Statistic = Callable[[Scores, Counts], np.ndarray]  # the value [R] of each resample


class Estimate(NamedTuple):
    """A statistic and its 95 % interval, which is NaN with fewer than six seeds in an environment."""

    value: Any  # a float; an array for a curve
    low: Any
    high: Any


def mean(scores: Scores, counts: Counts) -> Float[np.ndarray, "R ..."]:
    """The mean over environments of the mean over seeds; of T values for each seed [S_e, T] too."""
    return np.mean(_means(scores, counts), axis=0)


def median(scores: Scores, counts: Counts) -> Float[np.ndarray, "R"]:
    """The median over environments of the mean over seeds."""
    return np.median(_means(scores, counts), axis=0)


def optimality_gap(scores: Scores, counts: Counts) -> Float[np.ndarray, "R"]:
    """The mean of max(0, 1 - score): how much is missing to a score of 1. Lower is better."""
    return mean([np.maximum(1 - values, 0) for values in scores], counts)


def pooled_iqm(scores: Scores, counts: Counts) -> Float[np.ndarray, "R"]:
    """The mean of the middle half of all scores: of n scores, floor(n / 4) are left out at each end.

    With unequal numbers of seeds, scores weigh 1 / S_e, and the same share of the weight is left out at each end.
    """
    multiple = math.lcm(*map(len, scores))  # so that weights are whole numbers, and sums of them exact
    values = np.concatenate(scores)
    order = np.argsort(values, kind="stable")
    weights = np.concatenate([count * (multiple // count.shape[1]) for count in counts], axis=1)[:, order]
    total = len(scores) * multiple
    cut = values.size // 4 * total / values.size
    ends = np.cumsum(weights, axis=1)
    inside = np.clip(ends, cut, total - cut) - np.clip(ends - weights, cut, total - cut)
    return inside @ values[order] / (total - 2 * cut)


AGGREGATES: dict[str, Statistic] = {
    "IQM": pooled_iqm,
    "median": median,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def resample(sizes: Sequence[int], seed: int = 0, resamples: int = 2000) -> list[Float[np.ndarray, "R _"]]:
    """Return bootstrap samples for environments with these numbers of seeds, as counts of each seed.

    They depend on nothing but the arguments, so that learners with the same seeds are resampled together.
    """
    return [*_resample(tuple(sizes), seed, resamples)]


@functools.lru_cache(maxsize=8)  # one comparison uses the same ones many times
def _resample(sizes: tuple[int, ...], seed: int, resamples: int) -> tuple[np.ndarray, ...]:
    random, rows = np.random.default_rng(seed), np.arange(resamples)[:, None]
    found = []
    for size in sizes:
        cells = resampled_indices(size, random, resamples) + size * rows
        found.append(np.bincount(cells.ravel(), minlength=resamples * size).reshape(resamples, size).astype(float))
        found[-1].flags.writeable = False
    return tuple(found)


def estimate(statistic: Statistic, scores: Scores, counts: Counts | None = None, level: float = 0.95) -> Estimate:
    """Return a statistic of the scores of one learner, with its interval. `counts` are resamples of these scores."""
    scores = _checked(scores)
    counts = resample([*map(len, scores)]) if counts is None else counts
    (value,) = statistic(scores, _ones(scores))
    return _estimate(value, statistic(scores, counts), scores, level)


def iqm_curve(scores: Sequence[Float[np.ndarray, "T _"]], level: float = 0.95) -> Estimate:
    """Return the interquartile mean over environments and seeds at T times, with its interval at each: arrays [T].

    NaN at times at which a score is not known. Source: Agarwal et al. 2021, figure 7 (sample efficiency).
    """
    counts = resample([curves.shape[1] for curves in scores])
    found = np.full((3, len(scores[0])), np.nan)
    for time in np.flatnonzero(np.all([np.isfinite(curves).all(axis=1) for curves in scores], axis=0)):
        found[:, time] = estimate(pooled_iqm, [curves[time] for curves in scores], counts, level)
    return Estimate(*found)


def performance_profile(scores: Scores, thresholds: Float[np.ndarray, "T"], level: float = 0.95) -> Estimate:
    """Return the share of runs with a score above each threshold, averaged over environments: arrays [T].

    Source: Agarwal et al. 2021, section 4.2: F(tau) = mean over environments and seeds of 1[score > tau].
    """
    scores = _checked(scores)
    above = [(values[:, None] > thresholds).astype(float) for values in scores]
    (value,) = mean(above, _ones(scores))
    return _estimate(value, mean(above, resample([*map(len, scores)])), scores, level)


def paired_difference(a: Scores, b: Scores, level: float = 0.95) -> Estimate:
    """Return the mean difference of pairs (seed s of `a` minus seed s of `b`), averaged over environments.

    What a seed does to both cancels. Raises ValueError for different numbers of seeds.
    """
    first, second = _checked(a), _checked(b)
    _check_pairs(first, second)
    return estimate(mean, [x - y for x, y in zip(first, second, strict=True)], level=level)


def probability_of_improvement(a: Scores, b: Scores, *, paired: bool = False, level: float = 0.95) -> Estimate:
    """Return the probability that a random seed of `a` is better than one of `b`, averaged over environments.

        P = mean over environments of (1 / S_a S_b) sum over i, j of 1[a_i > b_j] + 1[a_i = b_j] / 2

    If `paired`, the scores at one position have the same seed, and are drawn together in resamples. Raises ValueError
    for different numbers of seeds then.
    Source: Agarwal et al. 2021, section 4.3; Mann and Whitney 1947 for one environment.
    """
    first, second = _checked(a), _checked(b)
    if paired:
        _check_pairs(first, second)
    signs = [np.sign(x[:, None] - y) for x, y in zip(first, second, strict=True)]

    def excess(counts_a: Counts, counts_b: Counts) -> np.ndarray:
        """P - 1/2 [R]. Its sums are whole numbers, so that it changes its sign, and nothing else, with the roles."""
        triples = zip(counts_a, signs, counts_b, strict=True)
        return np.mean([((x @ sign) * y).sum(axis=1) / (2 * sign.size) for x, sign, y in triples], axis=0)

    (value,) = excess(_ones(first), _ones(second))
    streams = [(0, 0)] if paired else [(0, 1), (1, 0)]  # of both roles, so that neither is special
    sizes, others = [*map(len, first)], [*map(len, second)]
    resampled = [excess(resample(sizes, one), resample(others, other)) for one, other in streams]
    return Estimate(*map(_above_half, _estimate(value, np.concatenate(resampled), [*first, *second], level)))


def _check_pairs(first: Scores, second: Scores) -> None:
    if (sizes := [*map(len, first)]) != (others := [*map(len, second)]):
        raise ValueError(
            f"a has {sizes} seeds and b has {others}, so they cannot be paired: give the seeds that both have, in the "
            "same order, or compare them unpaired with probability_of_improvement."
        )


def _means(scores: Scores, counts: Counts) -> list[np.ndarray]:
    """Of each environment the mean over seeds in every resample."""
    return [count @ values / len(values) for values, count in zip(scores, counts, strict=True)]


def _ones(scores: Scores) -> list[np.ndarray]:
    """The resample that has every seed once: the scores themselves."""
    return [np.ones((1, len(values))) for values in scores]


def _estimate(value: Any, resampled: np.ndarray, scores: Scores, level: float) -> Estimate:
    """A value with the interval of its resamples. That of values with the other sign is its mirror image."""
    tail, _ = tails_of(level)
    if min(map(len, scores)) < FEWEST:
        unknown = np.full_like(value, np.nan)[()]
        return Estimate(value, unknown, unknown)
    return Estimate(value, 0.0 + np.quantile(resampled, tail, axis=0), 0.0 - np.quantile(-resampled, tail, axis=0))


def _above_half(excess: Any) -> Any:
    """1/2 + excess, rounded such that the results for an excess and its negative add up to exactly 1."""
    return 0.5 + excess if excess >= 0 else 1 - (0.5 - excess)


def _checked(scores: Scores) -> list[np.ndarray]:
    if not len(scores):
        raise ValueError("there are no scores: give an array of one number per seed for each environment.")
    return [checked_sample(values, "an environment") for values in scores]
