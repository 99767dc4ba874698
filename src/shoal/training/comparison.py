"""Compare two runs, over the settings and seeds that both have."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from shoal.ops.statistics import bootstrap_interval, paired_difference_interval, probability_of_improvement
from shoal.training.records import member_scores
from shoal.training.result import Result

UNKNOWN = (math.nan, math.nan)  # the interval of a single number
ENOUGH_PAIRS = 6  # fewer differences of one sign are no proof: by chance that happens more often than once in twenty


def compare(a: Path | str, b: Path | str, metric: str = "last") -> dict[str, Any]:
    """How run `a` did against run `b`, over the seeds that both have: by the last evaluation, or the best.

    Gives the difference of means with a paired 95 % bootstrap interval where settings and random numbers match (base
    seed, generator and seed index), and the probability that a random member of `a` beats a random member of `b`. The
    interval of a single member or pair is NaN, and one of fewer than six pairs says little.
    Members without a finite score are left out: `dropped` says how many. Raises ValueError where no score is left.
    """
    if metric not in ("last", "best"):
        raise ValueError(f"metric={metric!r} is unknown. Choose 'last' or 'best'.")
    runs = [Result(folder) for folder in (a, b)]
    scores = [_scores(run, metric) for run in runs]
    common = [name for name in scores[0] if name in scores[1]]
    pooled = [np.asarray(list(s.values())) for s in scores]
    answer: dict[str, Any] = {
        "a": str(a),
        "b": str(b),
        "members": [len(s) for s in scores],
        "dropped": [len(run.members) - len(s) for run, s in zip(runs, scores, strict=True)],
        "mean": [float(p.mean()) for p in pooled],
        "interval": [bootstrap_interval(p, np.mean) if len(p) > 1 else UNKNOWN for p in pooled],
        "probability_of_improvement": probability_of_improvement(*pooled),
        "pairs": len(common),
    }
    if common:
        first, second = (np.asarray([s[name] for name in common]) for s in scores)
        answer["difference"] = float((first - second).mean())
        answer["difference_interval"] = paired_difference_interval(first, second) if len(common) > 1 else UNKNOWN
    return answer


def _scores(run: Result, metric: str) -> dict[str, float]:
    """Return of every member that has a finite one, by setting and by what its random numbers derive from."""
    values = member_scores(run.curves, metric)
    if np.isnan(values).all():
        raise ValueError(f"{run.folder} has no evaluation to compare: train with --evaluations 1 or more.")
    if not np.isfinite(values).any():
        raise ValueError(f"{run.folder} has no finite score to compare.")
    luck = f"{run.spec.prng} {run.spec.seed}"
    names = [" ".join([luck, *(f"{k}={v}" for k, v in member.items())]) for member in run.members]
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}
