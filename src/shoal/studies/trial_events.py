"""The trials of a study as events, read from the study's storage."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from shoal.studies.study import StudySpec
from shoal.studies.trial_states import COMPLETE, FAIL, PRUNED, WORKER, trials_of
from shoal.tracking.events import TrialEnded
from shoal.training.folder import RunFolder

STATES = {COMPLETE: "complete", PRUNED: "pruned", FAIL: "failed"}


class TrialEvents:
    """Makes `TrialEnded` events of the trials of one study."""

    def __init__(self, folder: Path, spec: StudySpec) -> None:
        """`folder` is that of the study. Nothing is read yet."""
        self._folder, self._spec = folder, spec
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
            state=STATES[trial.state],
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
            run, group = self._spec.run, RunFolder(self._folder / "workers" / str(at[0]) / str(at[1]))
            run = group.read_spec() if group.has("spec.json") else run
            self._steps[at] = run.steps // run.records
        return self._steps[at]
