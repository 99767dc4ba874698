"""The scores of an agent on a suite: a row for each environment, and one normalized score over all of them."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.ops.aggregates import AGGREGATES, Estimate, estimate
from shoal.specs.spec import RunSpec
from shoal.training.records import member_scores
from shoal.training.references import Reference, known_references, reference_for
from shoal.training.result import Result
from shoal.training.suite_folder import SuiteFolder

STATISTIC = "IQM"  # over the members of an environment, as in `shoal compare`
OVERALL = ("IQM", "mean")  # over all members of all environments that can be normalized


class Row(NamedTuple):
    """An environment of a suite. Scores are returns of the last evaluation, over members that have a finite one."""

    env: str  # its label in the suite
    members: int  # with a finite score
    random: float | None  # mean return of random play; None: not known
    target: float | None  # the return that is normalized to 1; None: not known
    score: Estimate | None  # interquartile mean of the returns; None: no evaluation yet
    normalized: Estimate | None  # the same of normalized scores; None: random play or the target is not known
    is_finished: bool
    cut_off: int  # evaluation episodes, of all members, that were ended before their end: returns are those so far


class SuiteScores(NamedTuple):
    """The scores of an agent on a suite. An interval is NaN with fewer than six members in an environment."""

    suite: str
    agent: str
    rows: list[Row]
    normalized: dict[str, Estimate]  # by the names in `OVERALL`; empty where no environment can be normalized
    left_out: dict[str, str]  # environments that are not trained, each with the reason

    @property
    def notes(self) -> list[str]:
        """Sentences about what the normalized scores do not cover."""
        unknown = [row.env for row in self.rows if row.score is not None and row.normalized is None]
        unscored = [row.env for row in self.rows if row.score is None]
        unfinished = [row.env for row in self.rows if row.score is not None and not row.is_finished]
        said = {
            "not in the normalized scores, because random play or a target is not known": unknown,
            "not in the normalized scores, because it has no evaluation yet": unscored,
            "not finished": unfinished,
        }
        said["evaluation episodes were cut off, so returns are those so far"] = [
            f"{row.env} ({row.cut_off:,})" for row in self.rows if row.cut_off
        ]
        notes = [f"{words}: {', '.join(envs)}" for words, envs in said.items() if envs]
        return [*notes, *(f"{env} is left out: {reason}" for env, reason in self.left_out.items())]


def suite_scores(folder: Path | str) -> SuiteScores:
    """Return the scores of a suite from its folder, of the runs that have begun so far. Errors are those of runs."""
    suite = SuiteFolder(folder)
    rows, known = [], {}
    for label, spec_data in suite.specs.items():
        spec = RunSpec.from_json(spec_data)
        reference = reference_for(label, spec, suite.references)
        scores, is_finished, cut_off = _scores(suite.begun.get(label))
        normalized = None
        if reference is not None and scores.size:
            known[label] = np.sort(reference.normalized(scores))
            normalized = estimate(AGGREGATES[STATISTIC], [known[label]])
        rows.append(
            Row(
                label,
                scores.size,
                *_ends(label, spec, suite, reference),
                estimate(AGGREGATES[STATISTIC], [scores]) if scores.size else None,
                normalized,
                is_finished,
                cut_off,
            )
        )
    in_order = [known[label] for label in sorted(known)]  # they share a stream of random numbers, as in `compare`
    overall = {name: estimate(AGGREGATES[name], in_order) for name in OVERALL} if in_order else {}
    return SuiteScores(suite.name, suite.agent, rows, overall, suite.left_out)


def as_json(scores: SuiteScores, **more: Any) -> dict[str, Any]:
    """Return the scores as data for a JSON file; numbers that are not finite are null there."""
    rows = {
        row.env: {**row._asdict(), "score": _named(row.score), "normalized": _named(row.normalized)}
        for row in scores.rows
    }
    normalized = {name: _named(found) for name, found in scores.normalized.items()}
    about = {"suite": scores.suite, "agent": scores.agent, "normalized": normalized, "notes": scores.notes}
    return {**about, **more, "environments": rows}


def _scores(path: Path | None) -> tuple[np.ndarray, bool, int]:
    """Return (the finite scores of a run in increasing order, whether it is finished, episodes that were cut off)."""
    if path is None:
        return np.zeros(0), False, 0
    run = Result(path)
    if not run.is_finished and not (path / "curves.npz").exists():
        return np.zeros(0), False, 0
    scores = member_scores(run.curves, "last")
    cut_off = run.summary.get("evaluation_episodes_cut_off", 0) if run.is_finished else 0
    return np.sort(scores[np.isfinite(scores)]), run.is_finished, cut_off


def _ends(
    label: str, spec: RunSpec, suite: SuiteFolder, reference: Reference | None
) -> tuple[float | None, float | None]:
    """Return the returns of random play and of the target; of an environment with no target random play alone."""
    if reference is not None:
        return reference.low, reference.high
    random = suite.references.get(label, known_references().get(spec.env_name, {})).get("random")
    return random, None


def _named(found: Estimate | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    return {name: None if math.isnan(value) else float(value) for name, value in found._asdict().items()}
