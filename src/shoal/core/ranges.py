"""Ranges of numbers: what a hyperparameter may be, and where a search, a selector or an action takes its values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

DIGITS = 4  # significant digits of a sampled number: as many as tables and curves show
SCALES = ("linear", "log", "near1")


class Range(NamedTuple):
    """The numbers from `low` to `high` inclusive, or a list of `values` that are equally likely.

    The `scale` says what is uniform: the number, its logarithm, or with "near1", for discounts and the like, the
    logarithm of its distance from 1.
    """

    low: float
    high: float
    scale: str = "linear"
    values: tuple = ()
    is_whole: bool = False  # whether samples are rounded to whole numbers

    @classmethod
    def of(cls, written: Sequence, is_whole: bool = False) -> "Range":
        """Return the range that is written as `(low, high)`, `(low, high, scale)` or `(a, b, c, "choice")`."""
        if written[-1] == "choice":
            return cls(min(written[:-1]), max(written[:-1]), values=tuple(written[:-1]), is_whole=is_whole)
        low, high, *scale = written
        return cls(low, high, *scale, is_whole=is_whole)

    def written(self) -> tuple:
        """Return the range as `of` reads it."""
        return (*self.values, "choice") if self.values else (self.low, self.high, self.scale)

    def fault(self) -> str:
        """Return what is wrong with the range, in words; empty if it is one."""
        if self.scale not in SCALES:
            return 'has an unknown scale: write "log" or "near1", or leave it out'
        if not self.low <= self.high:
            return "is empty: write the lower bound first"
        if self.scale == "log" and self.low <= 0:
            return f"must start above 0: the logarithm of {self.low} does not exist"
        if self.scale == "near1" and self.high >= 1:
            return f"must end below 1: the logarithm of 1 - {self.high} does not exist"
        return ""

    def position(self, number: Any) -> Any:
        """Return where a number lies between the ends, on the scale: 0 at `low`, 1 at `high`."""
        low, high = (_on(self.scale, end) for end in self[:2])
        return (_on(self.scale, number) - low) / (high - low)

    def at(self, position: Any, numpy: Any = np) -> Any:
        """Return the number at a position, the inverse of `position`; a whole one is rounded.

        `numpy` may be `jax.numpy`.
        """
        low, high = (float(_on(self.scale, end)) for end in self[:2])
        x = low + position * (high - low)
        number = numpy.exp(x) if self.scale == "log" else -numpy.expm1(-x) if self.scale == "near1" else x
        number = numpy.clip(number, self.low, self.high)
        return numpy.rint(number) if self.is_whole else number

    def sample(self, generator: np.random.Generator, count: int) -> list:
        """Return `count` independent samples, rounded to four digits, which are those of 1 - x near 1."""
        if self.values:
            return [self.values[i] for i in generator.integers(len(self.values), size=count)]
        return self._rounded(self.at(generator.random(count)))

    def spaced(self, count: int) -> list:
        """Return `count` numbers from `low` to `high`, evenly spaced on the scale and rounded as samples are.

        They are fewer where whole numbers are the same. Of a list these are its values.
        """
        if self.values:
            return [*self.values]
        numbers = self._rounded(self.at(np.linspace(0, 1, count)))
        if not self.is_whole:
            numbers[0], numbers[-1] = float(self.low), float(self.low if count == 1 else self.high)
        return [*dict.fromkeys(numbers)]

    def stepped(self, numbers: np.ndarray, factor: float, is_up: np.ndarray) -> np.ndarray:
        """Return numbers one step up or down, inside of the range: the next value of a list, or a factor on the scale.

        On a linear scale a step is `factor - 1` times the width of the range. Whole numbers change by at least 1.
        """
        numbers, sign = np.asarray(numbers, np.float64), np.where(is_up, 1, -1)
        if self.values:
            choices = np.sort(np.asarray(self.values, np.float64))
            nearest = np.abs(numbers[:, None] - choices).argmin(axis=1)
            return choices[np.clip(nearest + sign, 0, len(choices) - 1)]
        if self.scale == "log":
            moved = numbers * factor**sign
        elif self.scale == "near1":
            moved = 1 - (1 - numbers) / factor**sign
        else:
            moved = numbers + sign * (factor - 1) * (self.high - self.low)
        if self.is_whole:
            rounded = np.rint(moved)
            moved = np.where(rounded == numbers, numbers + sign, rounded)
        return np.clip(moved, self.low, self.high)

    def _rounded(self, numbers: np.ndarray) -> list:
        """Return numbers of the range as Python's: whole ones, or those with four digits, of 1 - x near 1."""
        if self.is_whole:
            return [int(number) for number in numbers]
        digits = [float(f"{x:.{DIGITS}g}") for x in (1 - numbers if self.scale == "near1" else numbers).tolist()]
        return [min(max(1 - x if self.scale == "near1" else x, self.low), self.high) for x in digits]


def _on(scale: str, number: Any) -> Any:
    """Return a number on a scale."""
    number = np.asarray(number, np.float64)
    return np.log(number) if scale == "log" else -np.log1p(-number) if scale == "near1" else number
