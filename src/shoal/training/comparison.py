"""Compare the scores of two runs, paired over the settings and seeds that both have."""

from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.kinds import checked_kinds
from shoal.ops.statistics import bootstrap_interval, paired_difference_interval, probability_of_improvement
from shoal.specs.spec import RunSpec, plain
from shoal.training.generations import is_evolution, planned_steps
from shoal.training.records import member_scores
from shoal.training.result import Result

METRICS = ("last", "best", "whole")


@checked_kinds()
def compare(a: Path | str, b: Path | str, metric: str = "last") -> dict[str, Any]:
    """Compare run `a` with run `b` by the members' last or best evaluation (`metric` is "last" or "best").

    With `metric="whole"` the score of a member is its mean return over the whole training, which also measures how fast
    it learns.

    Returns a dict with the mean scores, their 95 % bootstrap intervals, and the probability that a random member of `a`
    has a higher score than a random member of `b`. Two members form a pair if they have the same setting and the same
    random numbers (base seed, generator and seed index); the dict has the mean difference over all pairs, and its
    interval. The interval of fewer than six members or pairs is NaN. Members without a finite score are left out;
    `dropped` is their number. `notes` are sentences about runs that are not finished and environments that differ.
    Raises ValueError if no score is left, and for an evolution.
    """
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is unknown. Choose one of {', '.join(METRICS)}.")
    runs = [Result(folder) for folder in (a, b)]
    if evolved := [str(run.folder) for run in runs if is_evolution(run)]:
        raise ValueError(
            f"{evolved[0]} is an evolution, whose members are candidates with other values in every generation: train "
            f"with what it has found (`shoal train AGENT ENV --found {evolved[0]}`), and compare that run."
        )
    scores = [_scores(run, metric) for run in runs]
    common = [name for name in scores[0] if name in scores[1]]
    pooled = [np.asarray(list(s.values())) for s in scores]
    answer: dict[str, Any] = {
        "a": str(a),
        "b": str(b),
        "members": [len(s) for s in scores],
        "dropped": [len(run.members) - len(s) for run, s in zip(runs, scores, strict=True)],
        "mean": [float(p.mean()) for p in pooled],
        "interval": [bootstrap_interval(p, np.mean) for p in pooled],
        "probability_of_improvement": probability_of_improvement(*pooled),
        "pairs": len(common),
        "notes": _notes(runs),
    }
    if common:
        first, second = (np.asarray([s[name] for name in common]) for s in scores)
        answer["difference"] = float((first - second).mean())
        answer["difference_interval"] = paired_difference_interval(first, second)
    return answer


def trained_share(run: Result) -> float:
    """Return the share of its steps that a run has been trained for: 1 if it is finished."""
    return 1.0 if run.is_finished else min(1.0, float(run.curves["env_steps"][-1]) / planned_steps(run))


def env_differences(a: RunSpec, b: RunSpec) -> dict[str, tuple[Any, Any]]:
    """Return what differs between the environments of two runs: `{"env": names}`, or the values of fields by path."""
    if a.env_name != b.env_name:
        return {"env": (a.env_name, b.env_name)}
    fields = {name: (a.env_fields.get(name), b.env_fields.get(name)) for name in {**a.env_fields, **b.env_fields}}
    return {f"env.{name}": both for name, both in fields.items() if plain(both[0]) != plain(both[1])}


def _notes(runs: list[Result]) -> list[str]:
    """Return what a reader must know before trusting a comparison: unfinished runs, and environments that differ."""
    notes = [
        f"{label} is not finished: {_steps_done(run)}"
        for label, run in zip("AB", runs, strict=True)
        if not run.is_finished
    ]
    differences = env_differences(runs[0].spec, runs[1].spec)
    return notes + [
        f"the environments differ: {'' if name == 'env' else f'{name}='}{one} in A, {other} in B"
        for name, (one, other) in differences.items()
    ]


def _steps_done(run: Result) -> str:
    """The steps that a run was trained for, in words: `256 of 512 steps`."""
    return f"{int(run.curves['env_steps'][-1]):,} of {run.spec.steps:,} steps"


def _scores(run: Result, metric: str) -> dict[str, float]:
    """Return {name: score} of the members with a finite score. A name has the generator, the seed and the setting."""
    values = member_scores(run.curves, metric)
    if metric == "whole" and np.isnan(values).all():
        raise ValueError(f"{run.folder} has no score to compare: no episode has ended in training.")
    if np.isnan(values).all() and not run.is_finished:
        raise ValueError(
            f"{run.folder} has no evaluation to compare: the run did not finish ({_steps_done(run)}). "
            f"Continue it with `shoal train --resume {run.folder}`."
        )
    if np.isnan(values).all():
        raise ValueError(f"{run.folder} has no evaluation to compare: train with --evaluations 1 or more.")
    if not np.isfinite(values).any():
        raise ValueError(f"{run.folder} has no finite score to compare.")
    random_source = f"{run.spec.prng} {run.spec.seed}"
    names = [" ".join([random_source, *(f"{k}={v}" for k, v in member.items())]) for member in run.members]
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}
