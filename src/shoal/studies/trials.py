"""The trials of a study as one worker process uses them: ask, report, tell, and take over from workers that died.

`trial_states.py` describes what can become of a trial.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from shoal.studies.heartbeat import Heartbeat
from shoal.studies.journal import JournalFile
from shoal.studies.trial_states import (
    COMPLETE,
    DEATHS,
    DIED,
    ENOUGH,
    FAIL,
    FAILED,
    PRUNED,
    RETRY_OF,
    RUNNING,
    SECOND_COPY,
    WAITING,
    WORKER,
    counted,
    deaths_of,
    first_attempts,
    is_interrupted,
    records,
    waiting_copy,
)

GRACE = 120.0  # seconds
CONSTRAINT = "constraints:"  # how the system attributes of a trial begin that `optuna.Trial.set_constraint` sets
RETRIES = 3  # after more deaths without a new record a trial has failed: it may be the trial that kills its workers


class Trial(NamedTuple):
    """One setting to train."""

    number: int  # in the study, from 0
    params: dict[str, Any]


class Held(NamedTuple):
    """The memory of a worker about a trial that it trains."""

    trial_id: int  # in the storage
    steps: set[int]  # that have a score


class TrialStore:
    """The trials of a study, for one worker. Use it in a `with` statement, which claims the worker's name.

    study: from `open_study`. distributions: the search space. trials: how many the whole study shall finish.
    worker: a name that no other running worker of the study has. A worker that is started again under its name gets
        the trials back that it was training (`own_running`). grace: seconds without a heartbeat after which other
        workers count as dead. say: receives messages for the user.
    Raises WorkerError, on entering, where a running worker has this name.
    """

    def __init__(
        self,
        study: optuna.Study,
        distributions: Mapping[str, BaseDistribution],
        trials: int,
        worker: str = "w0",
        grace: float = GRACE,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.study, self.distributions, self.trials, self.worker = study, dict(distributions), trials, worker
        self._say = say
        self._storage, self._study_id = study._storage, study._study_id
        self._heartbeat = Heartbeat(study, worker, grace, say)
        self._held: dict[int, Held] = {}
        self._uncopied: set[int] = set()  # interrupted trials without a copy, when last looked for
        self._outages = 0

    def __enter__(self) -> "TrialStore":
        """Claim the worker's name, start the heartbeat, and count the death of an earlier process of this name."""
        if self._heartbeat.start():
            self._count_death()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the heartbeat. Running trials wait for this worker to come back; later others take them over."""
        self._heartbeat.stop()
        self._flush()

    def ask(self, count: int) -> list[Trial]:
        """Return at most `count` trials to train, which are now this worker's: waiting ones first, then new ones.

        Fewer, or none, where the study's other trials are finished or are being trained: see `is_over`.
        Raises WorkerError where another process has taken this worker's name.
        """
        self.heartbeat()
        begun = self._lost_answers()[:count]
        trials = self._trials()
        waiting = [t for t in trials if t.state is WAITING]
        while len(begun) < count:
            if waiting:
                frozen = self._start(waiting.pop(0))
            elif self._needs_more():
                frozen = self._create()
            else:
                break
            if frozen is not None and (trial := self._suggested(frozen)) is not None:
                begun.append(trial)
        self._flush()
        return begun

    def report(self, number: int, step: int, value: float) -> bool:
        """Store the score of a trial at a step (a record). A step that has a score keeps it.

        Returns False where the trial is not running any more: it was told, or taken over while this worker counted
        as dead. Stop it then; `tell` will return False too.
        """
        held = self._hold(number)
        if step in held.steps:
            return self._is_running(held.trial_id)
        try:
            self._storage.set_trial_intermediate_value(held.trial_id, step, float(value))
        except UpdateFinishedTrialError:
            return False
        held.steps.add(step)
        return True

    def should_prune(self, number: int) -> bool:
        """Return whether the study's pruner stops this trial, from what was reported. Several objectives: never."""
        if len(self.study.directions) > 1:
            return False
        try:
            trial = self._storage.get_trial(self._hold(number).trial_id)
            return bool(self.study.pruner.prune(self.study, trial))  # some pruners return NumPy's
        except UpdateFinishedTrialError:
            return True  # taken over: `tell` returns False

    def tell(
        self, number: int, value: float | Sequence[float] | None, state: TrialState = COMPLETE, reason: str = ""
    ) -> bool:
        """Finish a trial: COMPLETE with its value (one for each objective); PRUNED or FAIL without.

        A trial that failed does not count and is not tried again; `reason` says why it failed. Tell a trial whose
        score is not a number as PRUNED, with a `reason`: it counts, and samplers avoid it. For Optuna it is infeasible.
        Otherwise TPE would rank it by its last report before it diverged, and take it for one of the best trials while
        few are complete.
        Returns False, and changes nothing, where the trial was told before or was taken over.
        Raises ValueError for a value that is NaN, and for values that do not match the objectives.
        """
        values = self._values(number, value) if state is COMPLETE else None
        trial_id = self._hold(number).trial_id
        del self._held[number]
        outages = self._failed_calls()
        try:
            if state is PRUNED and values is None and len(self.study.directions) > 1:
                self._end_in_nan(trial_id)
            if state is PRUNED and reason:
                self._storage.set_trial_system_attr(trial_id, f"{CONSTRAINT}{reason}", 1.0)  # above 0: infeasible
            if state is FAIL:
                self._storage.set_trial_user_attr(trial_id, FAILED, reason or "told")
            self.study.tell(number, values, state)
        except UpdateFinishedTrialError:  # or it was this worker, and the answer did not arrive
            return self._failed_calls() > outages and self._was_told(trial_id, values, state)
        except ValueError:
            if self._is_running(trial_id):
                raise
            return False  # `Study.tell` saw that it was finished
        return True

    def note(self, number: int, **attributes: Any) -> bool:
        """Store attributes (JSON values) of a running trial, such as `group`. Returns False where it does not run."""
        try:
            for key, value in attributes.items():
                self._storage.set_trial_user_attr(self._hold(number).trial_id, key, value)
        except (UpdateFinishedTrialError, KeyError):  # KeyError: a damaged journal was cut off before this trial
            return False
        return True

    def trial(self, number: int) -> FrozenTrial:
        """Return what the storage has of a trial."""
        return self._storage.get_trial(self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number))

    def own_running(self) -> dict[int, dict[str, Any]]:
        """Return number -> params of this worker's running trials, such as those of an earlier process of its name."""
        own = [t for t in self._trials(RUNNING) if t.user_attrs.get(WORKER) == self.worker]
        return dict(trial for t in own if (trial := self._suggested(t)) is not None)

    def finished(self) -> int:
        """Return how many trials of the study are complete or pruned."""
        return len(self._trials(COMPLETE, PRUNED))

    def remaining(self) -> int:
        """Return how many trials are to be started: all that were asked for, less the finished and running ones."""
        return max(0, self.trials - len(self._trials(COMPLETE, PRUNED, RUNNING)))

    def is_over(self) -> bool:
        """Return whether all trials that were asked for are finished. Until then another worker may die."""
        return self.finished() >= self.trials

    def heartbeat(self) -> None:
        """Take over the trials of workers that died. Call it between chunks; it looks every few seconds.

        A thread keeps this worker's own heartbeat.
        Raises WorkerError where another process has taken this worker's name.
        """
        self._heartbeat.check()
        if self._heartbeat.is_time_to_search():
            self._take_over()

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study_id, deepcopy=False, states=states or None)

    def _flush(self) -> None:
        """Wait until a journal is on the disk, before trials of this worker begin and before it ends."""
        if isinstance(self._storage, JournalFile):
            self._storage.flush()

    def _is_running(self, trial_id: int) -> bool:
        return self._storage.get_trial(trial_id).state is RUNNING

    def _hold(self, number: int) -> Held:
        """The memory of this worker about a trial; from the storage if an earlier process asked for it."""
        if number not in self._held:
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            self._held[number] = Held(trial_id, set(self._storage.get_trial(trial_id).intermediate_values))
        return self._held[number]

    def _values(self, number: int, value: float | Sequence[float] | None) -> list[float]:
        values = [float(v) for v in (value if isinstance(value, Sequence) else [value]) if v is not None]
        if len(values) != len(self.study.directions) or any(math.isnan(v) for v in values):
            raise ValueError(
                f"trial {number}: {value} is not one number for each of the {len(self.study.directions)} objectives. "
                f"Tell a trial without a score as PRUNED."
            )
        return values

    def _end_in_nan(self, trial_id: int) -> None:
        """Report NaN after the last score of a pruned trial of several objectives.

        TPE ranks pruned trials by their last report, in the direction of the study, of which there are several here;
        NaN it puts last without a direction (`_get_pruned_trial_score` in Optuna 5).
        """
        reports = self._storage.get_trial(trial_id).intermediate_values
        if reports and not math.isnan(reports[max(reports)]):
            self._storage.set_trial_intermediate_value(trial_id, max(reports) + 1, math.nan)

    def _was_told(self, trial_id: int, values: list[float] | None, state: TrialState) -> bool:
        trial = self._storage.get_trial(trial_id)
        return (
            trial.state is state
            and trial.user_attrs.get(WORKER) == self.worker
            and (values is None or trial.values == values)
            and (state is not FAIL or FAILED in trial.user_attrs)
        )

    def _failed_calls(self) -> int:
        return getattr(self._storage, "outages", 0)

    def _lost_answers(self) -> list[Trial]:
        """Trials that this worker started when the storage's answer was lost: only an outage makes some."""
        if self._failed_calls() == self._outages:
            return []
        self._outages = self._failed_calls()
        held = set(self._held)
        return [Trial(number, params) for number, params in self.own_running().items() if number not in held]

    def _start(self, trial: FrozenTrial) -> FrozenTrial | None:
        """Start a waiting trial. None where another worker did, and where the study has enough."""
        if not self._is_needed(trial.number):
            return None
        try:
            if not self._storage.set_trial_state_values(trial._trial_id, RUNNING):
                return None
            self._storage.set_trial_user_attr(trial._trial_id, WORKER, self.worker)
        except UpdateFinishedTrialError:
            return None
        return trial

    def _create(self) -> FrozenTrial:
        """Create a running trial of this worker. It may be one too many: then `_suggested` withdraws it."""
        new = optuna.trial.create_trial(state=RUNNING, user_attrs={WORKER: self.worker})
        return self._storage.get_trial(self._storage.create_new_trial(self._study_id, new))

    def _needs_more(self) -> bool:
        """Whether the study may need one more trial, as far as this worker sees."""
        trials = self._trials()
        return len(trials) < self.trials or len(counted(trials)) < self.trials

    def _withdraw(self, trial_id: int, reason: str) -> None:
        """End a trial that is not tried again. The reason comes first: a trial that has ended cannot be changed."""
        self._storage.set_trial_user_attr(trial_id, FAILED, reason)
        self._storage.set_trial_state_values(trial_id, FAIL)

    def _is_needed(self, number: int) -> bool:
        """Whether the study still needs this trial. Of workers that ask at once, exactly enough get True.

        That is, whether its first attempt is among the first `trials` ones that are `counted`. The trial with the
        highest number among those that got True saw all others before it.
        """
        if number < self.trials:
            return True
        trials = self._trials()
        own = first_attempts(trials)[number]
        return sum(first <= own for first in counted(trials)) <= self.trials

    def _surplus(self, trial: FrozenTrial) -> str | None:
        """Return why the study does not need a trial that was started, or None where it does."""
        if not self._is_needed(trial.number):
            return ENOUGH
        return SECOND_COPY if self._is_second_copy(trial) else None

    def _is_second_copy(self, trial: FrozenTrial) -> bool:
        """Whether two workers made a copy of the same trial, and this is the later one."""
        original = trial.user_attrs.get(RETRY_OF)
        return original is not None and any(
            t.user_attrs.get(RETRY_OF) == original and t.number < trial.number for t in self._trials()
        )

    def _suggested(self, frozen: FrozenTrial) -> Trial | None:
        """A running trial with all its parameters; the sampler suggests those that it lacks.

        None where it is lost, and where the study does not need it: it is withdrawn then. Its worker may have been
        killed between starting and withdrawing it.
        """
        number, trial_id = frozen.number, frozen._trial_id
        try:
            if reason := frozen.user_attrs.get(FAILED) or self._surplus(frozen):
                return self._withdraw(trial_id, reason)
            params = dict(frozen.params)
            if any(name not in params for name in self.distributions):
                trial = optuna.trial.Trial(self._fresh_study(), trial_id)
                params = {
                    name: _suggest(trial, name, distribution) for name, distribution in self.distributions.items()
                }
        except UpdateFinishedTrialError:  # taken over while this worker counted as dead
            return None
        self._held[number] = Held(trial_id, set(frozen.intermediate_values))
        return Trial(number, params)

    def _fresh_study(self) -> optuna.Study:
        """The study without the list of trials that a study object keeps, so that samplers see the newest."""
        study = self.study
        return optuna.load_study(
            study_name=study.study_name, storage=self._storage, sampler=study.sampler, pruner=study.pruner
        )

    def _take_over(self) -> None:
        """Set the trials of dead workers to FAIL and make copies; also copies that a worker died before making."""
        for trial in self._trials(RUNNING):
            worker = trial.user_attrs.get(WORKER)
            if worker != self.worker and self._heartbeat.is_dead(worker, trial.number):
                self._interrupt(trial, worker)
        trials = self._trials()
        copied = {t.user_attrs.get(RETRY_OF) for t in trials}
        uncopied = {t.number: t for t in trials if is_interrupted(t) and t.number not in copied}
        for number in uncopied.keys() & self._uncopied:
            self._copy(uncopied[number])
        self._uncopied = uncopied.keys() - self._uncopied

    def _interrupt(self, trial: FrozenTrial, worker: str | None) -> None:
        """Fail a trial whose worker died, and copy it.

        It is not copied where `RETRIES` copies have ended like this before, where the study does not need it, and where
        its worker was about to withdraw it.
        """
        deaths = deaths_of(trial, self._trials())
        unwanted = trial.user_attrs.get(FAILED) or self._surplus(trial)
        reason = unwanted or (DIED.format(deaths) if deaths > RETRIES else None)
        try:
            if reason:
                self._withdraw(trial._trial_id, reason)
            else:
                self._storage.set_trial_state_values(trial._trial_id, FAIL)
        except UpdateFinishedTrialError:
            return  # another worker was first, or the trial's own worker is back and told it
        who = f"worker {worker or 'without a name'} died"
        if reason and not unwanted:
            self._say(f"{who}; its trial {trial.number} has failed and is not tried again: {reason}")
        elif not reason:
            self._copy(trial)
            self._say(f"{who}; its trial {trial.number} is tried again")

    def _count_death(self) -> None:
        """Note in this worker's running trials that a process died with them; fail those with which too many died."""
        for trial in self._trials(RUNNING):
            if trial.user_attrs.get(WORKER) != self.worker or FAILED in trial.user_attrs:
                continue
            deaths = deaths_of(trial, self._trials())
            if deaths <= RETRIES:
                self._storage.set_trial_user_attr(
                    trial._trial_id, DEATHS, [*trial.user_attrs.get(DEATHS, []), records(trial)]
                )
                continue
            reason = DIED.format(deaths)
            self._withdraw(trial._trial_id, reason)
            self._say(f"the trial {trial.number} has failed and is not tried again: {reason}")

    def _copy(self, trial: FrozenTrial) -> None:
        self.study.add_trial(waiting_copy(trial))


def _suggest(trial: optuna.trial.Trial, name: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_float(name, low, high, step=step, log=log)
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case CategoricalDistribution(choices=choices):
            return trial.suggest_categorical(name, choices)
    raise TypeError(f"{name}: {type(distribution).__name__} is not one of Optuna's distributions.")
