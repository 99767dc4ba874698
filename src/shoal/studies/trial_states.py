"""The life of a trial of a study, as its state, its attributes, and its copies in the storage say.

The storage is the only truth. A trial counts once it is COMPLETE or PRUNED. A trial whose worker died is set to FAIL,
and a copy of it with the attribute `retry_of` waits for a worker, until four deaths have followed one another without
a new record. A trial that fails for another reason has the attribute `failed`, and is not tried again.

    WAITING ──ask──► RUNNING ──tell──► COMPLETE | PRUNED | FAIL with `failed`
       ▲                └───its worker died───► FAIL ──┐
       └───────────── a copy with `retry_of` ◄─────────┘
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from shoal.specs.spec import RunSpec
from shoal.tracking.events import TrialEnded
from shoal.training.folder import RunFolder

COMPLETE, PRUNED, FAIL = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL
RUNNING, WAITING = TrialState.RUNNING, TrialState.WAITING
WORKER, RETRY_OF, FAILED = "worker", "retry_of", "failed"  # attributes of trials
DEATHS = "deaths"  # attribute: records of a trial at each death of a process that came back under its name
OF_A_WORKER = (WORKER, DEATHS, "group", "seconds")  # attributes that a copy of a trial does not take over
ENOUGH, SECOND_COPY = "the study had enough trials", "another copy of the same trial exists"  # values of FAILED
RUNG = "completed_rung_"  # nor those of successive halving that begin with this
ENDED = {COMPLETE: "complete", PRUNED: "pruned", FAIL: "failed"}  # in words
DIED = "its worker died {} times without a new record"  # why a trial has failed


def trials_of(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials of a study, without those that workers made at the same time and gave back unused."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if trial.user_attrs.get(FAILED) not in (ENOUGH, SECOND_COPY)]


def records(trial: FrozenTrial) -> int:
    """Return how many scores a trial has."""
    return len(trial.intermediate_values)


def deaths_of(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> int:
    """Return how many processes died with a trial, the present one included, since it last had a new record.

    The trials of which it is a copy count too; `trials` are all trials of the study, by number. A worker that is only
    interrupted, by a cluster for example, comes further from time to time; one that its trial kills does not.
    """
    lives = [trial]
    while (original := lives[0].user_attrs.get(RETRY_OF)) is not None:
        lives.insert(0, trials[original])
    count, most = 0, -1
    for reached in [number for life in lives for number in (*life.user_attrs.get(DEATHS, []), records(life))]:
        count, most = (1, reached) if reached > most else (count + 1, most)
    return count


def waiting_copy(trial: FrozenTrial) -> FrozenTrial:
    """Return a copy of an interrupted trial that waits for a worker."""
    kept = {key: value for key, value in trial.user_attrs.items() if key not in OF_A_WORKER}
    return optuna.trial.create_trial(
        state=WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={**kept, RETRY_OF: trial.number},
        system_attrs={key: value for key, value in trial.system_attrs.items() if not key.startswith(RUNG)},
    )


def is_interrupted(trial: FrozenTrial) -> bool:
    """Return whether the worker of a trial died, so that it is tried again."""
    return trial.state is FAIL and FAILED not in trial.user_attrs


def first_attempts(trials: Sequence[FrozenTrial]) -> dict[int, int]:
    """Return the number of the first trial by that of its copies and copies of copies; an original is its own."""
    found: dict[int, int] = {}
    for trial in trials:  # by number: an original has a smaller one than its copy
        found[trial.number] = found.get(trial.user_attrs.get(RETRY_OF, -1), trial.number)
    return found


def counted(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the first attempts that are complete, pruned, running, waiting, or will be retried."""
    first_of, copied = first_attempts(trials), {t.user_attrs.get(RETRY_OF) for t in trials}
    return {first_of[t.number] for t in trials if t.state is not FAIL or (is_interrupted(t) and t.number not in copied)}


class TrialEvents:
    """Makes `TrialEnded` events of the trials of one study."""

    def __init__(self, folder: Path, run: RunSpec) -> None:
        """`folder` is that of the study, `run` the spec of its trials. Nothing is read yet."""
        self._folder, self._run = folder, run
        self._steps: dict[tuple[Any, Any], int] = {}  # environment steps of a member in a record, by worker and group

    def of(self, trial: FrozenTrial) -> TrialEnded:
        """Return the event of a trial that has ended. Scores that are not finite are left out."""
        begun, ended = trial.datetime_start or trial.datetime_complete, trial.datetime_complete
        assert ended is not None and begun is not None
        values = trial.values or []  # of a pruned trial: its newest score
        names = ["score"] if len(values) == 1 else [f"score_{i}" for i in range(len(values))]
        per_record = self._steps_per_record(trial)
        return TrialEnded(
            number=trial.number,
            state=ENDED[trial.state],
            scores={name: x for name, x in zip(names, values, strict=True) if math.isfinite(x)},
            parameters=trial.params,
            started=begun.timestamp(),
            seconds=(ended - begun).total_seconds(),
            curve=[(i * per_record, x) for i, x in sorted(trial.intermediate_values.items()) if math.isfinite(x)],
            tags={name: str(x) for name, x in trial.user_attrs.items()},
        )

    def ended(self, study: optuna.Study, worker: str) -> Iterator[TrialEnded]:
        """Yield the events of all trials of a worker that have ended, by number."""
        own = (t for t in trials_of(study) if t.user_attrs.get(WORKER) == worker)
        return (self.of(trial) for trial in own if trial.state.is_finished())

    def _steps_per_record(self, trial: FrozenTrial) -> int:
        """From the run folder of the trial's group; what was asked for where that folder is not here."""
        at = trial.user_attrs.get(WORKER), trial.user_attrs.get("group")
        if at not in self._steps:
            group = RunFolder(self._folder / "workers" / str(at[0]) / str(at[1]))
            run = group.read_spec() if group.has("spec.json") else self._run
            self._steps[at] = run.steps // run.records
        return self._steps[at]
