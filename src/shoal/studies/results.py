"""The results of a study: the table of its trials, the best one as a preset file, and its score on fresh seeds.

The best of many trials is chosen for its score, so this score is too high on average: partly its seeds were lucky (the
winner's curse). Therefore the best trial is trained again with random numbers that no trial had, and both scores are
reported.
"""

import csv
import dataclasses
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from jaxtyping import Float
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.ops.statistics import bootstrap_interval
from shoal.population.slots import statistic_of
from shoal.specs.disk import replace
from shoal.specs.options import StudyOptions
from shoal.specs.settings import separate, setting_in_words
from shoal.specs.spec import RunSpec, opaque_fields, resolved
from shoal.studies.runs import run_job
from shoal.studies.trial_states import trials_of
from shoal.tracking.events import Sink
from shoal.training.export_config import preset_text
from shoal.training.folder import RunFolder, json_ready
from shoal.training.jobs import Job
from shoal.training.lives import scores_in
from shoal.training.result import Result

TABLE, PRESET, FRESH, FIGURES = "trials.csv", "best.toml", "fresh", "figures"
COLUMNS = ("number", "state", "score", "records", "worker", "group", "seconds")  # before the parameters
FRESH_SEEDS = StudyOptions.fresh_seeds


# The table of trials.


def trial_columns(study: optuna.Study) -> list[str]:
    """Return the columns of the table of trials. With several objectives there is a score for each: `score_return`."""
    scores = ["score"] if len(study.directions) == 1 else [f"score_{name}" for name in objective_names(study)]
    names = dict.fromkeys(name for trial in trials_of(study) for name in trial.params)
    return [*COLUMNS[:2], *scores, *COLUMNS[3:], *names]


def trial_rows(study: optuna.Study) -> Iterator[list[Any]]:
    """Yield a row for each trial, with the values of `trial_columns`; None where it has none."""
    names = trial_columns(study)[len(COLUMNS) - 1 + len(study.directions) :]
    for trial in trials_of(study):
        begun, ended = trial.datetime_start, trial.datetime_complete
        seconds = (ended - begun).total_seconds() if begun and ended else None
        scores = trial.values if trial.values is not None else [None] * len(study.directions)
        where = [trial.user_attrs.get("worker"), trial.user_attrs.get("group")]
        own = [trial.params.get(name) for name in names]
        yield [trial.number, trial.state.name.lower(), *scores, len(trial.intermediate_values), *where, seconds, *own]


def sorted_rows(study: optuna.Study, column: str = "") -> list[list[Any]]:
    """Return the rows of all trials, by default the complete ones with the best score first, then all others.

    With a column they are in the order of its values, and those without a value come last. Raises ValueError for a
    column that does not exist.
    """
    columns, rows = trial_columns(study), list(trial_rows(study))
    if column and column not in columns:
        raise ValueError(f"the table has no column {column!r}.{did_you_mean(column, columns)}")
    if not column or column == "score":
        order = {trial.number: rank for rank, trial in enumerate(best_trials(study, len(rows)))}
        return sorted(rows, key=lambda row: (order.get(row[0], len(rows)), row[0]))
    at = columns.index(column)
    words = any(isinstance(row[at], str) for row in rows)

    def rank_of(row: list[Any]) -> tuple:
        return (row[at] is None, "" if row[at] is None else str(row[at]) if words else row[at])

    return sorted(rows, key=rank_of)


def objective_names(study: optuna.Study) -> list[str]:
    """Return the names of the objectives, or their numbers if the study has no names."""
    return study.metric_names or [f"{i}" for i in range(len(study.directions))]


def pareto_front(study: optuna.Study) -> list[dict[str, Any]]:
    """Return the trials that no other one beats in all objectives: number, scores by objective, and parameters."""
    names = objective_names(study)
    return [
        {"trial": trial.number, "scores": dict(zip(names, trial.values, strict=True)), "params": trial.params}
        for trial in best_trials(study)
    ]


def write_trials(study: optuna.Study, path: Path) -> Path:
    """Write the table of trials as a CSV file and return its path."""

    def write(target: Path) -> None:
        with open(target, "w", newline="") as file:
            csv.writer(file).writerows([trial_columns(study), *trial_rows(study)])

    replace(path, write)
    return path


def best_trials(study: optuna.Study, count: int = 1) -> list[FrozenTrial]:
    """Return the complete trials with the best scores, the best first, the earlier of equals first.

    With several objectives: the trials of the Pareto front, in their order, and all of them.
    """
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(study.directions) > 1:
        return study.best_trials if complete else []
    sign = -1 if study.direction == StudyDirection.MAXIMIZE else 1
    finite = [trial for trial in complete if trial.value is not None and math.isfinite(trial.value)]
    return sorted(finite, key=lambda trial: (sign * (trial.value or 0.0), trial.number))[:count]


# The best trial.


def trial_spec_in(folder: Path, trial: FrozenTrial) -> RunSpec:
    """Return the spec of a run that trains one trial alone, from the run folder of its group.

    `workers/WORKER/GROUP/` is named by the trial's attributes `worker` and `group`. Static fields are those of the
    group; the values of all others are the trial's parameters. Raises FileNotFoundError if the folder is not here.
    """
    worker, name = trial.user_attrs.get("worker"), trial.user_attrs.get("group")
    if not (isinstance(worker, str) and isinstance(name, str)):
        raise FileNotFoundError(f"trial {trial.number} does not say which worker trained it, in which group.")
    group = RunFolder(folder / "workers" / worker / name).read_spec()
    vary = getattr(group.selector, "fields", {}).get("vary")
    traced = {path: value for path, value in trial.params.items() if vary is None or path in vary.fields}
    fields, env_fields = separate(traced)
    seeds = getattr(group.selector, "fields", {}).get("seeds", group.seeds)
    return dataclasses.replace(
        group,
        fields={**group.fields, **fields},
        env_fields={**group.env_fields, **env_fields},
        selector=None,
        points={},
        seeds=seeds,
    )


def trial_preset(study: optuna.Study, folder: Path, number: int) -> str:
    """Return the text of a preset file that trains one trial again. Nothing is built or executed.

    Raises IndexError for a trial that does not exist, FileNotFoundError if the folder of its group is not here, and
    ValueError for parts that were given in Python.
    """
    trials = {trial.number: trial for trial in trials_of(study)}
    if number not in trials:
        raise IndexError(f"trial {number} does not exist: `shoal trials {folder} --best 0` lists all.")
    trial = trials[number]
    spec = trial_spec_in(folder, trial)
    if opaque := opaque_fields(spec):
        raise ValueError(
            f"trial {number} has parts that were given in Python, which no file holds: {', '.join(opaque)}."
        )
    evaluated = "" if spec.evaluations else " --evaluations 1"
    names = ["score"] if len(study.directions) == 1 else objective_names(study)
    scores = zip(names, trial.values or [], strict=False)
    words = ", ".join(f"{name} {value:.6g}" for name, value in scores) or "no score"
    origin = [
        f"Trial {number} of the study {study.study_name}: {setting_in_words(trial.params)}.",
        f"In the study it is {trial.state.name.lower()}, with {words}, on {spec.seeds} seed{'s' * (spec.seeds > 1)}.",
        f"Report a score on fresh seeds: train it with --seed {spec.seed + 1}{evaluated}.",
    ]
    return preset_text(spec, {}, origin, f"trial {number} of the study {study.study_name}: {words}")


def retrain(
    spec: RunSpec,
    folder: Path,
    seeds: int = FRESH_SEEDS,
    agent: Agent | None = None,
    env: Env | None = None,
    sinks: Sequence[Sink] = (),
) -> Float[np.ndarray, "N"]:
    """Train a trial again with `seeds` members whose random numbers no trial had; return their last scores.

    The seed of the run is the next one after that of the study, so that initial weights, training and evaluation all
    differ from those of every trial. The score of a member is its newest mean return, as in the study; NaN without one.
    A folder that has this run is used or resumed; one with another run is kept as `NAME-before`.
    """
    fresh = resolved(dataclasses.replace(spec, seed=spec.seed + 1, seeds=seeds), agent, env)
    run = RunFolder(folder)
    if run.has("spec.json") and run.read_spec().to_json() != fresh.to_json():
        kept = folder.with_name(f"{folder.name}-before")
        shutil.rmtree(kept, ignore_errors=True)
        folder.rename(kept)
    is_new = not run.has("spec.json")
    if is_new or not run.has("summary.json"):
        job = Job(fresh, agent, env)
        run_job(job, job.plan(resume=not is_new), run, resume=not is_new, figures=False, sinks=sinks)
    return last_scores(Result(folder, agent, env).curves)


def last_scores(curves: Mapping[str, np.ndarray]) -> Float[np.ndarray, "M"]:
    """Return the newest score of each member, of one kind for all (see `scores_in`)."""
    scores = scores_in(curves)
    rows = np.arange(len(scores))[:, None]
    newest = np.where(np.isnan(scores), -1, rows).max(axis=0)
    return np.where(newest >= 0, np.take_along_axis(scores, np.maximum(newest, 0)[None], 0)[0], np.nan)


def confirm(study: optuna.Study, folder: Path, score: str = "mean", seeds: int = FRESH_SEEDS, **how: Any) -> dict:
    """Train the best trial again on fresh seeds in `fresh/`, and write it to `best.toml`; return both scores, for JSON.

    `how` has further arguments of `retrain`. Raises ValueError if no trial is complete, or for several objectives.
    """
    if len(study.directions) > 1:
        raise ValueError("a study of several objectives has no single best trial: choose one of its Pareto front.")
    if not (best := next(iter(best_trials(study)), None)):
        raise ValueError("no trial of the study is complete, so there is no best one.")
    spec = resolved(trial_spec_in(folder, best), how.get("agent"), how.get("env"))
    scores = retrain(spec, folder / FRESH, seeds, **how)
    about = _about(best, scores, statistic_of(score), spec, len(trials_of(study)))
    words = f"Trial {best.number} of the study {study.study_name}: {setting_in_words(best.params)}."
    text = preset_text(spec, {}, [words, about["words"]], about["words"])
    replace(folder / PRESET, lambda path: path.write_text(text, encoding="utf-8"))
    return {**about, "params": best.params, "folder": FRESH, "metric": score}


def conclude(
    study: optuna.Study,
    folder: Path | str,
    *,
    figures: bool = True,
    page: bool = True,
    importance: str = StudyOptions.importance,
    **how: Any,
) -> dict[str, Any]:
    """Write all results of a study into its folder, and return the data that they add to `summary.json`.

    `trials.csv`, `figures/` and, if a trial is complete, `best.toml` and `fresh/`. importance: a name of
    `shoal.viz.importance.IMPORTANCES`. how: arguments of `confirm`. What cannot be done is said in `notes`.
    """
    folder, notes, best = Path(folder), [], {}
    write_trials(study, folder / TABLE)
    if figures:
        from shoal.viz.study import draw_study

        try:
            drawn = draw_study(study, folder / FIGURES, page=page, importance=importance)
        except ImportError as error:
            notes.append(f"`shoal report {folder}` makes a page of this study; {error}")
            drawn = draw_study(study, folder / FIGURES, page=False, importance=importance)
        notes += [f"no figure {title!r}: {why}" for title, why in drawn.left_out.items()]
    if len(study.directions) > 1:
        notes.append(
            f"several objectives have no single best trial, so there is no {PRESET}. To train one of the Pareto front: "
            f"shoal trials {folder} --preset TRIAL > chosen.toml"
        )
    elif best_trials(study) and how.get("seeds", FRESH_SEEDS):
        best = confirm(study, folder, **how)
    elif not best_trials(study):
        notes.append("no trial is complete, so there is no best one")
    return json_ready({"best": best, "notes": notes})


def trial_counts(study: optuna.Study) -> dict[str, int]:
    """Return how many trials are in each state (complete, pruned, fail, ...), and how many of them diverged."""
    trials = trials_of(study)
    states = Counter(trial.state.name.lower() for trial in trials)
    diverged = sum("diverged" in trial.user_attrs for trial in trials)
    return {**states, **({"diverged": diverged} if diverged else {})}


def _about(
    best: FrozenTrial, scores: np.ndarray, statistic: Callable[..., Any], spec: RunSpec, trials: int
) -> dict[str, Any]:
    """Return the scores of a trial in the study and on fresh seeds, with an interval, and a sentence about them."""
    score, finite = best.values[0], scores[np.isfinite(scores)]
    low, high = bootstrap_interval(finite, statistic) if len(finite) else (math.nan, math.nan)
    fresh = float(statistic(finite)) if len(finite) else math.nan
    words = (
        f"Trial {best.number} scored {score:.4g} in the study, the best of {trials} trials, on {spec.seeds} "
        f"seed{'s' * (spec.seeds > 1)}, and {fresh:.4g} on {len(finite)} fresh seeds"
    )
    if math.isnan(low):
        words += "; too few for an interval."
    else:
        side = "within" if low <= score <= high else "above" if score > high else "below"
        words += f", 95 % interval [{low:.4g}, {high:.4g}]. The score in the study lies {side} this interval."
    words += " Report the score on fresh seeds: the other one is that of a trial that was chosen for its score."
    return {
        "trial": best.number,
        "score": score,
        "seeds": spec.seeds,
        "fresh_score": fresh,
        "fresh_low": low,
        "fresh_high": high,
        "fresh_seeds": len(finite),
        "fresh_failed": len(scores) - len(finite),
        "fresh_seed": spec.seed + 1,
        "words": words,
    }
