"""Axes of figures and charts: the range of an axis, where its ticks are, and how values become positions."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.viz.words import number

MARGIN = 0.04  # of a range, added at both of its ends


class Scale(NamedTuple):
    """An axis from `low` to `high`, which are logarithms to the base 10 if it is logarithmic."""

    low: float
    high: float
    log: bool
    ticks: list[tuple[float, str]]  # (value, label)

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest value that the axis shows."""
        return (10**self.low, 10**self.high) if self.log else (self.low, self.high)

    def at(self, values: Any) -> np.ndarray:
        """Return positions from 0 (low) to 1 (high); NaN for values that the axis cannot show."""
        values = np.asarray(values, float)
        if self.log:
            values = np.log10(np.where(values > 0, values, np.nan))
        return np.asarray((values - self.low) / (self.high - self.low))


def scale_for(
    values: Iterable[Any],
    *,
    log: bool = False,
    ticks: int = 5,
    words: Callable[[float], str] = number,
    tight: bool = False,
    whole: bool = False,
) -> Scale:
    """Return an axis that shows all finite values, with about this number of ticks.

    `tight`: without margins. `whole`: with ticks at whole numbers only.
    """
    known = np.concatenate([np.zeros(0), *(np.asarray(some, float).ravel() for some in values)])
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    if log:
        known = np.log10(known)
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):  # one value: a range around it
        around = 0.5 if log else max(abs(low) * 0.1, 1e-12) if low else 1.0
        low, high = low - around, high + around
    elif not tight:
        low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
    places = _log_places(10**low, 10**high, ticks) if log else _round_places(low, high, ticks)
    return Scale(low, high, log, [(x, words(x)) for x in places if x % 1 == 0 or not whole])


def named_scale(names: Sequence[str]) -> Scale:
    """Return an axis with a name at each of the positions 0, 1, ..."""
    return Scale(-0.5, len(names) - 0.5, False, [*enumerate(names)])


def is_logarithmic(values: Any) -> bool:
    """Return whether values are positive and spread over more than a factor of 20, so that a logarithm shows them."""
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    return bool(known.size and known.min() > 0 and known.max() > 20 * known.min())


def _round_places(low: float, high: float, count: int) -> list[float]:
    """Return multiples of 1, 2, 2.5 or 5 times a power of ten in a range."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * factor for factor in (1, 2, 2.5, 5) if power * factor >= rough), power * 10)
    if math.floor(high / step) - math.ceil(low / step) < 2:  # fewer than three ticks
        step = next(power * factor for factor in (5, 2.5, 2, 1, 0.5) if power * factor < step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def _log_places(low: float, high: float, most: int) -> list[float]:
    """Return 2 to `most` places in a range above 0: powers of 10, with multiples of these if they are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        places = [float(f"{digit}e{power}") for power in powers for digit in digits]
        places = [place for place in places if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]
        if 2 <= len(places) <= most:
            return places
    return places[:: math.ceil(len(places) / most)] if places[most:] else _round_places(low, high, most)[:most]
