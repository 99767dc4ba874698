"""Slots: trials of hyperparameters enter and leave the slots of one running program (continuous batching).

A trial is one choice of hyperparameters, trained with K seeds. As soon as it is complete, or is pruned because its
scores are low, the next trial begins in its slots. The source of the trials decides which ones: a list of settings, or
a sampler such as TPE in `shoal.tune`. Source of the idea: Yu et al. 2022, "Orca: A Distributed Serving System for
Transformer-Based Generative Models" (iteration-level scheduling), there for requests to a language model.
"""

import abc
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.core.agent import Agent, check_counts
from shoal.core.env import Env, Key
from shoal.core.kinds import fitted
from shoal.core.ranges import Range
from shoal.core.schedules import Scheduled
from shoal.core.struct import FieldInfo, static, struct
from shoal.ops.statistics import iqm
from shoal.population.varying import check_scored, read_range
from shoal.specs.points import from_settings
from shoal.specs.roster import Roster
from shoal.specs.selector import FRESH, REST, Schedule, Selector, Standing, Turnover, UserChoices
from shoal.specs.settings import AgentEnv, apply, get

NO_TRIAL = -1  # as number of a trial: the slots are free
SCORES = "mean, iqm (the interquartile mean), min, or a quantile such as q25"
QUANTILE = re.compile(r"q(\d{1,2}|100)")


class Trial(NamedTuple):
    """One choice of hyperparameters."""

    number: int  # never used again by the same source
    values: Mapping[str, Any]  # by path: numbers, as the fields of agent and environment hold them


class Source(abc.ABC):
    """Where trials come from, and where their scores go. It lives outside of the run: no file of the run holds it."""

    @property
    @abc.abstractmethod
    def is_exhausted(self) -> bool:
        """Whether no further trial will come."""

    @abc.abstractmethod
    def ask(self, count: int) -> Sequence[Trial]:
        """Return up to `count` trials that begin now."""

    @abc.abstractmethod
    def report(self, number: int, record: int, score: float) -> bool:
        """Take the score of a trial after its record `record` (1, 2, ...).

        Returns False if the trial is not to be trained here any more: its slots become free, and it is not told.
        """

    @abc.abstractmethod
    def should_prune(self, number: int) -> bool:
        """Return whether a trial ends now, because of the scores that were reported."""

    @abc.abstractmethod
    def tell(self, number: int, score: float | None, reason: str = "") -> None:
        """Take the end of a trial: the score of a complete one, None for one that was pruned.

        The `reason` is "diverged" if losses or weights of a member became NaN or infinite, and "unscored" if no episode
        ended in all its records.
        """


class Listed(Source):
    """A list of settings as a source of trials. Nothing is pruned."""

    def __init__(self, settings: Sequence[Mapping[str, Any]], begun: int) -> None:
        """Go on after the first `begun` settings."""
        self._settings, self._begun = settings, begun

    @property
    def is_exhausted(self) -> bool:
        """Whether all settings have begun."""
        return self._begun >= len(self._settings)

    def ask(self, count: int) -> list[Trial]:
        """The next settings, each with its index in the list."""
        first, self._begun = self._begun, min(self._begun + count, len(self._settings))
        return [Trial(number, self._settings[number]) for number in range(first, self._begun)]

    def report(self, number: int, record: int, score: float) -> bool:
        """True."""
        del number, record, score
        return True

    def should_prune(self, number: int) -> bool:
        """False."""
        del number
        return False

    def tell(self, number: int, score: float | None, reason: str = "") -> None:
        """Nothing."""


@struct
class Slots(Selector):
    """Train trials in P groups of `seeds` slots each; the next trial begins where one has ended.

        settings = [{"learning_rate": rate} for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)]
        slots = shoal.Slots(settings=settings, seeds=4, records=10)
        shoal.train("ppo", "CartPole-v1", selector=slots, seeds=8, records=10, evaluations=0)  # two trials at a time

    A trial has the seeds 0 to `seeds` - 1, and ends after `records` records. Its members are trained exactly as those
    of a run of its own. The score of a trial is the `score` over its members of their newest returns: those of the
    evaluation, or of the training episodes that ended in the record if it has none. A member in which no episode ended
    keeps the score that it had before. `shoal.tune` makes such a selector, whose trials come from Optuna.
    """

    settings: Any = FieldInfo(
        help="the trials, as a list of hyperparameters by path; None: they come from a study"
    ).field(None)
    vary: Any = FieldInfo(help="the range of each hyperparameter that differs between trials, by path").field(None)
    seeds: int = static(4, help="members of each trial")
    records: int = static(20, help="records of a trial")
    score: str = static("mean", help=f"of a trial over its members: {SCORES}")

    source: Any = FieldInfo(static=True).field(None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_counts(self, "seeds", "records")
        fitted("settings", self.settings, Sequence[Mapping[str, Any]] | None)
        check_score(self.score)

    @property
    def is_repeatable(self) -> bool:
        """Whether the trials are in the spec, and do not come from a study."""
        return self.settings is not None

    @property
    def ends_run(self) -> bool:
        """True: the run ends with its last trial."""
        return True

    @property
    def replaces_stopped(self) -> bool:
        """True: a trial with a member that stopped ends."""
        return True

    def bind(self, agent: Agent, env: Env, given: UserChoices) -> "Slots":
        """This selector with the range of everything that varies. Raises ValueError or TypeError for a wrong value."""
        setting, settings = AgentEnv(agent, env), self.settings
        if given.first:
            raise ValueError(
                f"the trials set the hyperparameters, but {', '.join(given.first)} differs between members too: leave "
                f"it out of the sweep."
            )
        if settings is not None:
            columns = from_settings(settings)
            settings = [
                {path: get(apply(setting, {path: value}), path) for path, value in own.items()} for own in settings
            ]
            values = {path: [own[path] for own in settings] for path in columns}
            for path, column in values.items():
                if any(isinstance(value, Scheduled) for value in column):
                    raise ValueError(f"{path} has a schedule in a trial, and trials choose numbers: use a sweep.")
            vary = {path: (min(column), max(column)) for path, column in values.items()}
        else:
            vary = dict(self.vary or {})
        if not vary and self.source is None:
            raise ValueError("nothing differs between the trials: give settings, such as [{'learning_rate': 1e-3}].")
        spans = {path: read_range(setting, path, span).written() for path, span in vary.items()}
        bound = self.replace(vary=spans, settings=settings)
        return bound.with_source(self.source)

    def check(self, schedule: Schedule) -> None:
        """Raise ValueError for sizes that do not fit, and for trials without a score at their end."""
        if self.settings is None and self.source is None:
            raise ValueError(
                "the trials of this run come from a study, which continues with `shoal tune --resume STUDY`; a run of "
                "its own needs settings=[...]."
            )
        if schedule.members % self.seeds:
            raise ValueError(
                f"{schedule.members} members cannot be split into trials with {self.seeds} seeds each: choose a "
                f"multiple, such as seeds={math.ceil(schedule.members / self.seeds) * self.seeds} for the run."
            )
        steps, records = schedule.steps, len(schedule.steps)
        if records != self.records:
            raise ValueError(
                f"every trial needs {self.records} records, and one of {steps[-1]:,} steps has {records}: choose more "
                f"steps, or records={records} for both the run and its selector."
            )
        lengths = np.diff([0, *steps])
        if len(set(lengths.tolist())) > 1:  # two lengths, which differ by one update
            per_update = int(lengths.max() - lengths.min())
            whole = int(lengths.max()) * records
            raise ValueError(
                f"{steps[-1]:,} steps are {steps[-1] // per_update:,} updates, which cannot be split into {records} "
                f"records of equal length: use {whole:,} steps."
            )
        if len(set(schedule.is_evaluated)) > 1:
            raise ValueError(
                f"either every record or none must have an evaluation, because trials begin at any record: use "
                f"evaluations=0 or evaluations={records}."
            )
        check_scored(schedule, records, "the end of a trial")

    def ranges(self, agent: Agent, env: Env) -> Mapping[str, tuple[float, float]]:
        """The lowest and the highest value of all that varies."""
        del agent, env
        spans = {path: Range.of(span) for path, span in self.vary.items()}
        return {path: (span.low, span.high) for path, span in spans.items()}

    def first_seeds(self, seed_index: np.ndarray) -> np.ndarray:
        """Seeds 0 to K - 1 for each trial."""
        return np.resize(np.arange(self.seeds, dtype=seed_index.dtype), len(seed_index))

    def columns(self, state: Any) -> Mapping[str, np.ndarray]:
        """The number of the trial in each slot; -1: none."""
        return {"trial": np.repeat(state["trial"], self.seeds)}

    def trials_in(self, state: Any) -> list[int]:
        """Return the numbers of the trials in the slots; `state` is None before the run has begun."""
        return [] if state is None else [number for number in state["trial"].tolist() if number != NO_TRIAL]

    def members_of(self, state: Any, number: int) -> slice:
        """Return the members of a trial that is in the slots."""
        group = state["trial"].tolist().index(number)
        return slice(group * self.seeds, (group + 1) * self.seeds)

    def age_of(self, state: Any, number: int) -> int:
        """Return how many records a trial in the slots has had before the present chunk."""
        return int(state["age"][state["trial"].tolist().index(number)])

    def is_busy(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return which members [M] had a trial in the newest of the records of a run, by its columns."""
        return np.asarray(columns["trial"][-1]) != NO_TRIAL

    def release(self, state: Any, number: int) -> Any:
        """Return the state without a trial that has ended elsewhere. Its members rest from the next chunk on."""
        return {**state, "trial": np.where(state["trial"] == number, NO_TRIAL, state["trial"])}

    def begin(self, roster: Roster, key: Key) -> tuple[Any, dict[str, Any]]:
        """No trial yet. State: number and age of the trial in each group [P], the newest scores [P, K], all begun."""
        del key
        groups = len(roster.occupant) // self.seeds
        return {
            "trial": np.full(groups, NO_TRIAL, np.int64),
            "age": np.zeros(groups, np.int64),  # in records
            "score": np.full((groups, self.seeds), np.nan),
            "begun": np.asarray(0, np.int64),
        }, {}

    def fill(self, state: Any, roster: Roster) -> tuple[Any, Turnover | None]:
        """Begin trials in the free slots."""
        source, trial, age, score = self._source(state), state["trial"].copy(), state["age"].copy(), state["score"]
        free = np.flatnonzero(trial == NO_TRIAL)
        entering = source.ask(len(free)) if len(free) else []
        begun = free[: len(entering)]
        trial[begun], age[begun] = [new.number for new in entering], 0
        values = {path: np.array(column) for path, column in roster.hyperparameters.items()}
        for group, new in zip(begun, entering, strict=True):
            for path, value in new.values.items():
                values[path][group * self.seeds : (group + 1) * self.seeds] = value
        is_new = np.isin(np.arange(len(trial)), begun)
        state = {
            "trial": trial,
            "age": age,
            "score": np.where(is_new[:, None], np.nan, score),
            "begun": state["begun"] + len(begun),
        }
        of_members, is_idle = np.repeat(is_new, self.seeds), np.repeat(trial == NO_TRIAL, self.seeds)
        if not is_new.any() and (is_idle == roster.is_idle).all():
            return state, None
        turned = np.where(of_members, FRESH, np.where(is_idle, REST, np.arange(len(is_idle))))
        return state, Turnover(turned, values, self.first_seeds(roster.seed_index))

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Report the scores of all trials; end those that are complete, are pruned or diverged."""
        del key
        source, trial, age = self._source(state), state["trial"].copy(), state["age"] + (state["trial"] != NO_TRIAL)
        shape = (len(trial), self.seeds)
        newest, alive = standing.score.reshape(shape), standing.alive.reshape(shape)
        scores, notes = np.where(np.isnan(newest), state["score"], newest), []
        held = [group for group in np.argsort(trial, kind="stable") if trial[group] != NO_TRIAL]
        of_trial = {group: score_of(scores[group], self.score) for group in held}
        for group in held:
            is_scored = alive[group].all() and not math.isnan(of_trial[group])
            if is_scored and not source.report(int(trial[group]), int(age[group]), of_trial[group]):
                trial[group] = NO_TRIAL
        for group in (group for group in held if trial[group] != NO_TRIAL):
            number, records = int(trial[group]), int(age[group])
            end = self._end(source, number, records, of_trial[group], bool(alive[group].all()))
            if end is not None:
                source.tell(number, *end)
                notes.append(_note(number, records, *end))
                trial[group] = NO_TRIAL
        is_idle = np.repeat(trial == NO_TRIAL, self.seeds)
        turnover = Turnover.none(standing)._replace(
            source=np.where(is_idle, REST, np.arange(len(is_idle))),
            notes=tuple(notes),
            finished=bool(is_idle.all()) and source.is_exhausted,
        )
        return {**state, "trial": trial, "age": age, "score": scores}, turnover

    def _end(
        self, source: Source, number: int, age: int, score: float, is_alive: bool
    ) -> tuple[float | None, str] | None:
        """Return (score, reason) of a trial that ends now, as `Source.tell` takes them; None if it goes on."""
        if not is_alive:
            return None, "diverged"
        if age >= self.records:
            return (None, "unscored") if math.isnan(score) else (score, "")
        return (None, "") if not math.isnan(score) and source.should_prune(number) else None

    def _source(self, state: Any) -> Source:
        return self.source or Listed(self.settings, int(state["begun"]))


def check_score(name: str) -> None:
    """Raise ValueError for an unknown score."""
    if name not in ("mean", "iqm", "min") and not QUANTILE.fullmatch(name):
        raise ValueError(f"score={name!r} is unknown. Choose {SCORES}.")


def score_of(scores: Float[np.ndarray, "K"], how: str) -> float:
    """Return the score of a trial from those of its members; members without one are left out. NaN: none has one."""
    known = scores[~np.isnan(scores)]
    if not len(known):
        return math.nan
    return float(statistic_of(how)(known))


def statistic_of(score: str) -> Callable[..., Any]:
    """Return the statistic with the name of a score, a function of an array. Raises ValueError for an unknown one."""
    check_score(score)
    if quantile := QUANTILE.fullmatch(score):
        return lambda values, axis=-1: np.quantile(values, int(quantile[1]) / 100, axis=axis)
    return {"mean": np.mean, "iqm": iqm, "min": np.min}[score]


def _note(number: int, records: int, score: float | None, reason: str) -> str:
    end = reason or ("pruned" if score is None else f"complete, score {score:.4g}")
    return f"trial {number}: {end} after {records} record{'s' * (records > 1)}"
