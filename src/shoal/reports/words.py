"""Intervals, counts, durations and scores as texts of a report."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST
from shoal.viz.words import NONE, number


def interval(low: Any, high: Any) -> str:
    """Return an interval as `480.1 to 495`; a dash if there is none."""
    known = [bound for bound in (low, high) if bound is not None and np.isfinite(bound)]
    return f"{number(float(low))} to {number(float(high))}" if len(known) == 2 else NONE


def with_interval(value: Any, low: Any, high: Any) -> str:
    """Return a number and its interval as `487 (480.1 to 495)`; only the number if there is no interval."""
    limits = interval(low, high)
    return number(value) if limits == NONE else f"{number(value)} ({limits})"


def counted(count: int, noun: str) -> str:
    """Return `1 seed`, `16 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def few(numbers: Sequence[Any], most: int = 12) -> str:
    """Return a list as a text that ends with the number of items left out: `1, 4, 5 and 20 more`."""
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown} and {len(numbers) - most:,} more" if len(numbers) > most else shown


def seconds_in_words(seconds: float | None) -> str:
    """Return a duration: `0.4 s`, `35 s`, `4 min 5 s`, `2 h 4 min`."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size_in_words(count: int) -> str:
    """Return a number of bytes: `312 kB`, `4.2 MB`."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1000))} kB"


def score_in_words(score: Mapping[str, Any], unit: str) -> str:
    """Return the score of several members as a sentence, with its interval if it has one.

    `score` is that of `training.records.score_summary`, and `unit` the word for what the members are ("seed").
    """
    count = score.get("members", 0)
    if not count:
        return "No member has been evaluated."
    if count > 1 and score["min"] == score["max"]:
        return f"The return is {number(score['mean'])}, the same for all {counted(count, unit)}."
    if count < FEWEST:
        values = f"return is {number(score['mean'])}" if count == 1 else f"mean return is {number(score['mean'])}"
        return (
            f"The {values} ({counted(count, unit)}). From fewer than {FEWEST} {unit}s no confidence interval can be "
            f"computed, so other {unit}s may give quite different results."
        )
    middle = f"The interquartile mean (IQM) of the returns of {counted(count, unit)} is {number(score['iqm'])}"
    return (
        f"{middle}; its 95\u00a0% confidence interval reaches from {number(score['iqm_low'])} to "
        f"{number(score['iqm_high'])}. The mean is {number(score['mean'])}, and the worst {unit} reached "
        f"{number(score['min'])}."
    )
