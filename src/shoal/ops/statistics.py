"""Statistics over the members of a population, for reports from few seeds. NumPy only, on the host.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice" (interquartile mean,
bootstrap over seeds); Efron 1979 for the percentile bootstrap. The last axis is that of the members. All random numbers
derive from `seed`, so that a report is the same each time it is made. `ops.aggregates` compares learners over several
environments.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

Statistic = Callable[..., Any]  # called as statistic(samples, axis=-1)


def iqm(x: ArrayLike, axis: int = -1) -> Float[np.ndarray, "..."] | float:
    """Interquartile mean: the mean of the values without the floor(n / 4) smallest and the floor(n / 4) largest.

    A few failed members change it less than the mean; it uses more of the values than the median.
    """
    ordered = np.sort(np.moveaxis(np.asarray(x, float), axis, -1), axis=-1)
    middle = _middle(_population(ordered, "iqm"))
    return ordered[..., middle].mean(axis=-1)


def quantiles(x: ArrayLike, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Float[np.ndarray, "... levels"]:
    """Quantiles over the last axis, linearly interpolated. NaN members are left out; NaN if all members are NaN."""
    values = np.asarray(x, float)
    empty = np.isnan(values).all(axis=-1, keepdims=True)
    found = np.nanquantile(np.where(empty, 0.0, values), levels, axis=-1)
    return np.where(empty, np.nan, np.moveaxis(found, 0, -1))


# The smallest number of values with an interval. With five or fewer, not even differences that all have one sign are
# significant (sign test: 2 / 2**5 > 0.05), and a bootstrap interval would cover too little: of the mean of 5 normal
# values 84 % instead of 95 %, of 3 values 75 % (for an IQM of 6 it is 89 %, of 16 values 93 %).
FEWEST = 6


def bootstrap_interval(
    x: ArrayLike, statistic: Statistic = iqm, seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval (low, high) of a statistic of independent members [M].

    Both ends are NaN for fewer than `FEWEST` members, which say too little about the uncertainty.
    """
    values, tails = np.sort(checked_sample(x, "bootstrap_interval")), tails_of(level)
    resampled = values[resampled_indices(values.size, seed, resamples)]
    if values.size < FEWEST:
        return np.nan, np.nan
    low, high = np.quantile(statistic(resampled, axis=-1), tails)
    return float(low), float(high)


def iqm_band(
    x: Float[np.ndarray, "R M"], seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> tuple[Float[np.ndarray, "R"], Float[np.ndarray, "R"], Float[np.ndarray, "R"]]:
    """Interquartile mean of each record of a curve, with its bootstrap interval: (iqm [R], low [R], high [R]).

    The result is that of `bootstrap_interval(row, iqm)` for each row, but takes only one matrix product: for sorted
    values, an interquartile mean is a weighted sum whose weights do not depend on the values. Members that are NaN or
    infinite in a record are left out of it; a record without finite members gives NaN, and one with fewer than
    `FEWEST` has no interval (NaN).
    """
    values = np.asarray(x, float)
    finite = np.isfinite(values)
    ordered = np.sort(np.where(finite, values, np.nan), axis=-1)  # NaN last
    present = finite.sum(axis=-1)
    center, low, high = np.full((3, len(ordered)), np.nan)
    for count in np.unique(present[present > 0]):
        rows = present == count
        kept = ordered[rows, :count]
        means = kept @ _middle_weights(int(count), seed, resamples).T
        center[rows] = iqm(kept)
        if count >= FEWEST:
            low[rows], high[rows] = np.quantile(means, tails_of(level), axis=-1)
    return center, low, high


def _middle(count: int) -> slice:
    cut = count // 4
    return slice(cut, count - cut)


def resampled_indices(
    count: int, seed: int | np.random.Generator, resamples: int
) -> Int[np.ndarray, "resamples count"]:
    """Return bootstrap samples as indices of `count` values, drawn with replacement; a generator is consumed."""
    if resamples < 1:
        raise ValueError(f"resamples={resamples} gives no bootstrap sample. Use 1 or more; 2000 is the default.")
    return np.random.default_rng(seed).integers(count, size=(resamples, count))


def _middle_weights(count: int, seed: int, resamples: int) -> np.ndarray:
    """[resamples, count]: row r holds the weight of each sorted value in the interquartile mean of resample r."""
    middle = np.sort(resampled_indices(count, seed, resamples), axis=-1)[:, _middle(count)]
    cells = middle + count * np.arange(resamples)[:, None]
    return np.bincount(cells.ravel(), minlength=resamples * count).reshape(resamples, count) / middle.shape[1]


def tails_of(level: float) -> tuple[float, float]:
    """Return the quantiles at both ends of an interval. Raises ValueError for a level that is not within (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(
            f"level={level} is not a confidence level. It lies strictly between 0 and 1; 0.95 is the default."
        )
    return (1 - level) / 2, (1 + level) / 2


def checked_sample(x: ArrayLike, name: str) -> Float[np.ndarray, "M"]:
    """Return one number per member. Raises ValueError, in the name of the caller, for other shapes and for NaN."""
    values = np.asarray(x, float)
    if values.ndim != 1:
        raise ValueError(f"{name} takes one number per member, shape [M]; got shape {list(values.shape)}.")
    _population(values, name)
    if np.isnan(values).any():
        raise ValueError(
            f"{name} got NaN for {int(np.isnan(values).sum())} of {values.size} members. Leave those members out, with "
            "x[~np.isnan(x)], and report how many they were."
        )
    return values


def _population(values: np.ndarray, name: str) -> int:
    if not values.ndim or not values.shape[-1]:
        raise ValueError(f"{name} needs at least one member; got shape {list(values.shape)}.")
    return values.shape[-1]
