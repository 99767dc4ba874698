"""The trials of a study as one worker process uses them: ask, report, tell, and take over from workers that died.

The storage is the only truth. A trial counts once it is COMPLETE or PRUNED. A trial whose worker died is set to FAIL,
and a copy of it (`retry_of`) is put in the queue; a trial that failed for another reason has the attribute `failed`.

    WAITING ──ask──► RUNNING ──tell──► COMPLETE | PRUNED | FAIL with `failed`
       ▲                └──its worker died──► FAIL ──┐
       └───────────── copy, `retry_of` ◄─────────────┘
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from shoal.studies.heartbeat import Heartbeat

COMPLETE, PRUNED, FAIL = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL
RUNNING, WAITING = TrialState.RUNNING, TrialState.WAITING
RUNG = "completed_rung_"  # attributes of successive halving, which a copy of a trial earns itself


class Trial(NamedTuple):
    """One setting to train."""

    number: int  # of the study, from 0
    params: dict[str, Any]


class TrialStore:
    """The trials of a study, for one worker. Use it in a `with` statement: that starts and ends its heartbeat.

    study: from `open_study`. distributions: the search space. trials: how many the whole study shall finish.
    worker: a name that no other running worker of the study has; a worker that is started again under its name gets
        its running trials back. grace: seconds without a heartbeat after which a worker counts as dead.
    say: receives messages for the user.
    Raises WorkerError, on entering, where a running worker has this name.
    """

    def __init__(
        self,
        study: optuna.Study,
        distributions: Mapping[str, BaseDistribution],
        trials: int,
        worker: str = "w0",
        grace: float = 120.0,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.study, self.distributions, self.trials, self.worker = study, dict(distributions), trials, worker
        self._say = say
        self._storage, self._study_id = study._storage, study._study_id
        self._beat = Heartbeat(study, worker, grace, say)
        self._held: dict[int, _Held] = {}
        self._orphans: set[int] = set()  # failed trials without a copy, seen by the search before this one

    def __enter__(self) -> "TrialStore":
        """Claim the worker's name, and start the heartbeat."""
        self._beat.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the heartbeat. Running trials stay: they wait for this worker, or others take them over."""
        self._beat.stop()

    def ask(self, count: int) -> list[Trial]:
        """Return at most `count` trials to train, which are now this worker's: waiting ones first, then new ones.

        Fewer, or none, where the others of the study are being trained or were told: see `remaining` and `is_over`.
        """
        self.heartbeat()
        waiting = self._trials(WAITING)
        asked: list[Trial] = []
        while len(asked) < count:
            trial_id = self._start_waiting(waiting) if waiting else self._create()
            if trial_id is None and not waiting:
                break
            if trial_id is not None and (trial := self._suggest(trial_id)) is not None:
                asked.append(trial)
        return asked

    def report(self, number: int, step: int, value: float) -> bool:
        """Store the score of a trial at a step (a record). A step that has one keeps it.

        Returns False where the trial is not running any more: it was told, or taken over while this worker counted
        as dead. Stop it then, and do not tell it.
        """
        held = self._hold(number)
        if step in held.steps:
            return not self._storage.get_trial(held.trial_id).state.is_finished()
        try:
            self._storage.set_trial_intermediate_value(held.trial_id, step, float(value))
        except UpdateFinishedTrialError:
            return False
        held.steps.add(step)
        return True

    def should_prune(self, number: int) -> bool:
        """Return whether the study's pruner stops this trial, from what was reported. Multi-objective: never."""
        if len(self.study.directions) > 1:
            return False
        try:
            return self.study.pruner.prune(self.study, self._storage.get_trial(self._hold(number).trial_id))
        except UpdateFinishedTrialError:
            return True  # taken over: `tell` will return False

    def tell(
        self, number: int, value: float | Sequence[float] | None, state: TrialState = COMPLETE, reason: str = ""
    ) -> bool:
        """Finish a trial: COMPLETE with its value (one for each objective), PRUNED or FAIL without.

        A failed trial does not count and is not tried again; `reason` says why it failed. A trial whose score is not a
        number is better told as PRUNED, which counts and which samplers avoid.
        Returns False, and changes nothing, where the trial was told before or was taken over.
        Raises ValueError for NaN.
        """
        values = None if value is None else [float(v) for v in (value if isinstance(value, Sequence) else [value])]
        if values is not None and any(math.isnan(v) for v in values):
            raise ValueError(f"trial {number}: the value {value} is not a number. Tell it as PRUNED, without a value.")
        trial_id = self._hold(number).trial_id
        self._held.pop(number)
        if self._storage.get_trial(trial_id).state.is_finished():
            return False
        try:
            if state is FAIL:
                self._storage.set_trial_user_attr(trial_id, "failed", reason or "told")
            self.study.tell(number, values if state is COMPLETE else None, state)
        except UpdateFinishedTrialError:
            return False
        except RuntimeError:  # the grid sampler stops `optimize` after its last point; nothing to stop here
            return self._storage.get_trial(trial_id).state is state
        return True

    def note(self, number: int, **attributes: Any) -> bool:
        """Store attributes of a running trial (JSON values), such as `group`. False where it is not running."""
        try:
            for key, value in attributes.items():
                self._storage.set_trial_user_attr(self._hold(number).trial_id, key, value)
        except UpdateFinishedTrialError:
            return False
        return True

    def own_running(self) -> dict[int, dict[str, Any]]:
        """Return number -> params of this worker's running trials, such as those of an earlier process of its name."""
        own = [t for t in self._trials(RUNNING) if t.user_attrs.get("worker") == self.worker]
        return {t.number: self._complete(t) for t in own}

    def finished(self) -> int:
        """Return how many trials of the study are complete or pruned."""
        return len(self._trials(COMPLETE, PRUNED))

    def remaining(self) -> int:
        """Return how many trials are still to be started: all that were asked for, less finished and running ones."""
        states = [t.state for t in self._trials(COMPLETE, PRUNED, RUNNING)]
        return max(0, self.trials - len(states))

    def is_over(self) -> bool:
        """Return whether the study has all trials that were asked for. Until then another worker may still die."""
        return self.finished() >= self.trials

    def heartbeat(self) -> None:
        """Show that this worker lives, and take over trials of workers that do not. Call it between chunks.

        Cheap: it does something only every few seconds. Between calls a thread keeps the heartbeat.
        Raises WorkerError where another process has taken this worker's name.
        """
        self._beat.check()
        if self._beat.is_time_to_search():
            self._take_over()

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study_id, deepcopy=False, states=states or None)

    def _hold(self, number: int) -> "_Held":
        """What this worker remembers of a trial; read from the storage for one that an earlier process asked for."""
        if number not in self._held:
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            self._held[number] = _Held(trial_id, set(self._storage.get_trial(trial_id).intermediate_values))
        return self._held[number]

    def _start_waiting(self, waiting: list[FrozenTrial]) -> int | None:
        """Take the first waiting trial from the list and start it. None where another worker did, or it is too many."""
        trial = waiting.pop(0)
        if not self._is_within(trial.number):
            return None
        try:
            started = self._storage.set_trial_state_values(trial._trial_id, RUNNING)
        except UpdateFinishedTrialError:
            return None
        if not started:
            return None
        self._storage.set_trial_user_attr(trial._trial_id, "worker", self.worker)
        if self._is_second_copy(trial):
            return self._withdraw(trial._trial_id, "another copy of the same trial exists")
        return trial._trial_id

    def _create(self) -> int | None:
        """Create a running trial of this worker. None where the study has enough."""
        trials = self._trials()
        if len(trials) >= self.trials and len(_places(trials)) >= self.trials:
            return None
        new = optuna.trial.create_trial(state=RUNNING, user_attrs={"worker": self.worker})
        trial_id = self._storage.create_new_trial(self._study_id, new)
        if not self._is_within(self._storage.get_trial(trial_id).number):
            return self._withdraw(trial_id, "the study had enough trials")
        return trial_id

    def _withdraw(self, trial_id: int, reason: str) -> None:
        self._storage.set_trial_user_attr(trial_id, "failed", reason)
        self._storage.set_trial_state_values(trial_id, FAIL)

    def _is_within(self, number: int) -> bool:
        """Whether the trial is among the first `trials` places of the study. Workers that ask at once agree on it."""
        if number < self.trials:
            return True
        trials = self._trials()
        root = _roots(trials)
        return sum(place <= root[number] for place in _places(trials)) <= self.trials

    def _is_second_copy(self, trial: FrozenTrial) -> bool:
        original = trial.user_attrs.get("retry_of")
        if original is None:
            return False
        return any(t.user_attrs.get("retry_of") == original for t in self._trials()[: trial.number])

    def _suggest(self, trial_id: int) -> Trial | None:
        frozen = self._storage.get_trial(trial_id)
        try:
            return Trial(frozen.number, self._complete(frozen))
        except UpdateFinishedTrialError:
            return None  # taken over while this worker counted as dead

    def _complete(self, frozen: FrozenTrial) -> dict[str, Any]:
        """The parameters of a running trial; those that it lacks are suggested now."""
        self._hold(frozen.number)
        if all(name in frozen.params for name in self.distributions):
            return dict(frozen.params)
        # A study object keeps the list of trials of its last `ask`; a new one reads it again.
        study = optuna.load_study(
            study_name=self.study.study_name,
            storage=self._storage,
            sampler=self.study.sampler,
            pruner=self.study.pruner,
        )
        trial = optuna.trial.Trial(study, frozen._trial_id)
        return {name: _suggested(trial, name, each) for name, each in self.distributions.items()}

    def _take_over(self) -> None:
        """Put copies of the trials of dead workers in the queue."""
        for trial in self._trials(RUNNING):
            owner = trial.user_attrs.get("worker")
            if owner != self.worker and self._beat.is_dead(owner, trial.number):
                self._fail(trial, owner)
        copied = {t.user_attrs.get("retry_of") for t in self._trials()}
        orphans = {t.number: t for t in self._trials(FAIL) if _is_interrupted(t) and t.number not in copied}
        for number in orphans.keys() & self._orphans:  # whoever set it to FAIL died before making the copy
            self._copy(orphans[number])
        self._orphans = orphans.keys() - self._orphans

    def _fail(self, trial: FrozenTrial, owner: str | None) -> None:
        try:
            self._storage.set_trial_state_values(trial._trial_id, FAIL)
        except UpdateFinishedTrialError:
            return  # another worker was faster
        self._copy(trial)
        self._say(f"worker {owner or 'without a name'} died; trial {trial.number} is tried again")

    def _copy(self, trial: FrozenTrial) -> None:
        kept = {k: v for k, v in trial.user_attrs.items() if k not in ("worker", "group")}
        attributes = {k: v for k, v in trial.system_attrs.items() if not k.startswith(RUNG)}
        self.study.add_trial(
            optuna.trial.create_trial(
                state=WAITING,
                params=trial.params,
                distributions=trial.distributions,
                user_attrs={**kept, "retry_of": trial.number},
                system_attrs=attributes,
            )
        )


class _Held:
    """What a worker remembers of a trial that it trains."""

    def __init__(self, trial_id: int, steps: Iterable[int]) -> None:
        self.trial_id, self.steps = trial_id, set(steps)


def _is_interrupted(trial: FrozenTrial) -> bool:
    return trial.state is FAIL and "failed" not in trial.user_attrs


def _roots(trials: Sequence[FrozenTrial]) -> dict[int, int]:
    """Number of each trial -> number of the trial that it is, directly or not, a copy of; itself if it is none."""
    root: dict[int, int] = {}
    for trial in trials:  # in the order of their numbers: a copy has a higher number than its original
        root[trial.number] = root.get(trial.user_attrs.get("retry_of", -1), trial.number)
    return root


def _places(trials: Sequence[FrozenTrial]) -> set[int]:
    """The roots that take a place among the trials that were asked for: all but those that failed for good."""
    root = _roots(trials)
    copied = {t.user_attrs.get("retry_of") for t in trials}
    return {root[t.number] for t in trials if t.state is not FAIL or (_is_interrupted(t) and t.number not in copied)}


def _suggested(trial: optuna.trial.Trial, name: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case FloatDistribution():
            d = distribution
            return trial.suggest_float(name, d.low, d.high, step=d.step, log=d.log)
        case IntDistribution():
            return trial.suggest_int(
                name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
            )
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
    raise TypeError(f"{name}: {type(distribution).__name__} is no distribution of Optuna that shoal knows.")
