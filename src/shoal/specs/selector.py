"""Selectors: objects that may change a population between two chunks of training, as in population-based training.

A selector gets the scores of all members (`Standing`) and decides what each slot trains next (`Turnover`): its present
member, a copy of another slot's member, a new member, or none. It may also change hyperparameters. Nothing compiles
again, because agents, environments and seeds are inputs of the compiled program.
"""

import abc
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.core.kinds import python_number
from shoal.core.struct import Struct, number_fields
from shoal.specs.roster import Roster

FRESH = -1
"""A value of `Turnover.source`: the slot gets a new member, with new weights."""

REST = -2
"""A value of `Turnover.source`: the slot has no member (it is idle) until a later turnover gives it one."""

Bound = TypeVar("Bound", bound="Selector")


class Standing(NamedTuple):
    """The ages and scores of a population at the end of a record. NumPy arrays [M], one row for each slot."""

    record: int  # the index of this record, from 0
    updates: int  # of the run, so far
    roster: Roster
    age: np.ndarray  # updates that each member was trained for, including those of the members it was copied from
    score: np.ndarray  # newest mean return of each member; all of one kind: see `Schedule.is_scored_by_evaluations`
    alive: np.ndarray  # False: a loss or weight was not finite, so the member is not trained any more; or an idle slot
    returns: np.ndarray = np.zeros((0, 0))  # [R, M], as `lives.training_returns` has them, of R = `every`


class Turnover(NamedTuple):
    """The members that the slots train next. NumPy arrays [M], one row for each slot."""

    source: np.ndarray  # for slot m: m keeps its member | j copies the member of slot j | FRESH | REST
    hyperparameters: dict[str, Any]  # path -> [M, ...]: new values for all slots; those of other paths do not change
    seed_index: np.ndarray  # [M]; used only for new members
    notes: tuple[str, ...] = ()  # lines for the log
    finished: bool = False  # whether the run ends now; a bool of NumPy or JAX without dimensions is taken too
    new_episodes: bool = False  # whether copies begin new episodes (`Agent.new_episodes`), or go on with those copied

    @classmethod
    def none(cls, standing: Standing) -> "Turnover":
        """Return the turnover that changes nothing."""
        return cls(np.arange(len(standing.age)), {}, standing.roster.seed_index)


class Schedule(NamedTuple):
    """The sizes and times of a run that are known before anything compiles, for `Selector.check`."""

    members: int  # M, the number of slots
    steps: tuple[int, ...]  # environment steps of each member at the end of every record that was planned
    is_evaluated: tuple[bool, ...]  # whether each of these records has an evaluation
    learns_from: float  # environment steps before the first gradient step, the largest number of all members
    scored_from: float  # about how many steps until the first episodes end in training; inf: training has no episodes

    @property
    def is_scored_by_evaluations(self) -> bool:
        """Whether the scores of a run are the returns of evaluations; otherwise they are training returns.

        Greedy evaluations and training returns must not be compared with each other. So the scores of a run are of one
        kind: evaluations if every record has one, or if training has no episodes; training returns otherwise.
        """
        return all(self.is_evaluated) or (math.isinf(self.scored_from) and any(self.is_evaluated))


class UserChoices(NamedTuple):
    """Which values and ranges of hyperparameters the user gave, for `Selector.bind`."""

    fixed: Collection[str] = ()  # paths that have one value for all members
    first: Mapping[str, Sequence] = {}  # paths whose first values differ between members, with these values
    search: Mapping[str, Sequence | None] = {}  # the ranges that first values were sampled from; None: as declared


class Selector(Struct, abc.ABC):
    """The base class of selectors. Subclass it, decorate the class with `@struct`, and write `select`.

    A selector that changes hyperparameters also writes `ranges`; one that has a state also writes `begin`. One that
    depends on the agent, or on the length of the run, may also write `bind` and `check`. A selector is described in
    `spec.json`, and checkpoints hold its state, so a run with a selector resumes with the same bits.
    """

    every: int = 1  # records between two calls of `select`; a subclass may declare a static field of this name
    source: Any = None  # what decisions need from outside of the run; a subclass may declare a static field of it

    def _check_last(self) -> None:
        """Raise ValueError for an `every` that is no count of records, and for arrays in the place of a number."""
        if type(every := python_number(self.every)) is not int or every < 1:
            raise ValueError(
                f"every={self.every!r} of the selector must be a whole number, 1 or more: the records between two "
                f"calls."
            )
        for name in number_fields(self):
            if shape := np.shape(getattr(self, name)):
                raise ValueError(f"{type(self).__name__}.{name} has shape {shape}: a selector needs one number.")

    def with_source(self: Bound, source: Any) -> Bound:
        """Return a copy with this `source`, which `spec.json` does not hold."""
        fed = self.replace()
        object.__setattr__(fed, "source", source)  # no field of `__init__`, so that it is never described
        return fed

    @property
    def ends_run(self) -> bool:
        """Whether the run has no fixed length, and ends when a turnover has `finished=True`."""
        return False

    @property
    def trainings(self) -> float | None:
        """How many members each slot trains one after the other, about; None: not known. Used only by displays."""
        return None if self.ends_run else 1.0

    @property
    def replaces_stopped(self) -> bool:
        """Whether members that stopped because of NaN or infinity are replaced, and so not reported one by one."""
        return False

    @property
    def is_repeatable(self) -> bool:
        """Whether its decisions follow from the spec, and not from something outside of the run folder."""
        return True

    def bind(self: Bound, agent: Agent, env: Env, given: UserChoices) -> Bound:
        """Return this selector with the fields filled in that follow from the agent and the environment of a run.

        `given` has the values and ranges that the user gave. `spec.json` describes the selector that is returned; to
        bind it again must not change it. Raises ValueError or TypeError for fields that do not fit. Default: self.
        """
        del agent, env, given
        return self

    def check(self, schedule: Schedule) -> None:
        """Raise ValueError if this selector cannot work in such a run. Default: raise nothing."""
        del schedule

    def ranges(self, agent: Agent, env: Env) -> Mapping[str, tuple[float, float]]:
        """Return the hyperparameters that may change, by path, with the lowest and the highest value of each.

        The sizes of the run (batches, reset banks) are planned so that they hold for both values. Default: none.
        """
        del agent, env
        return {}

    def first_seeds(self, seed_index: np.ndarray) -> np.ndarray:
        """Return the seed index [M] of each slot's first member. Default: `seed_index`, which follows from the spec."""
        return seed_index

    def found(self, state: Any, roster: Roster) -> dict[str, Any]:
        """Return the result of the selector's search so far, by path: numbers and structs. Default: nothing.

        It is written to `found.json` in the run folder.
        """
        del state, roster
        return {}

    def columns(self, state: Any) -> Mapping[str, np.ndarray]:
        """Return what each slot holds, by name: whole numbers [M], recorded beside `occupant`. Default: none."""
        del state
        return {}

    def begin(self, roster: Roster, key: Key) -> tuple[Any, dict[str, Any]]:
        """Return (the selector's first state: a tree of arrays, the first hyperparameters as in `Turnover`).

        `key` is consumed. Default: no state (None), and no hyperparameter changes.
        """
        del roster, key
        return None, {}

    def fill(self, state: Any, roster: Roster) -> tuple[Any, Turnover | None]:
        """Return (the next state, the turnover before a chunk begins, or None for no change). Default: no change.

        A turnover after a chunk is in the checkpoint of this chunk; one before it is not, and a resumed run asks again.
        So a selector that takes its members from elsewhere, such as a storage of trials, takes them here.
        """
        del roster
        return state, None

    @abc.abstractmethod
    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Return (the selector's next state, the turnover). `key` is consumed."""


def taken_turnover(answer: Any, standing: Standing) -> tuple[Any, Turnover]:
    """Return the (state, turnover) that a `select` returned; `finished` is then a bool of Python.

    Raises TypeError if the answer is of another kind, ValueError for a turnover that cannot be carried out.
    """
    state, turnover = answer if type(answer) is tuple and len(answer) == 2 else (None, None)
    if not isinstance(turnover, Turnover):
        raise TypeError(f"select must return (state, Turnover), not {_kind(answer)}.")
    finished = turnover.finished
    if np.shape(finished) != () or np.asarray(finished).dtype != np.bool_:
        raise TypeError(f"finished of a Turnover must be True or False, not {finished!r}. For an array use .all().")
    check_turnover(turnover, standing.roster)
    return state, turnover._replace(finished=bool(finished))


def _kind(answer: Any) -> str:
    """The type of a value in words; of a plain tuple the types of its parts too."""
    if type(answer) is tuple:
        return f"({', '.join(map(_kind, answer))})"
    return type(answer).__name__


def check_turnover(turnover: Turnover, roster: Roster) -> None:
    """Raise ValueError for a turnover that cannot be carried out. The message names the slot."""
    members = len(roster.occupant)
    source = np.asarray(turnover.source)
    if source.shape != (members,) or not np.issubdtype(source.dtype, np.integer):
        raise ValueError(f"a turnover needs a source for each of {members} slots, as whole numbers, not {source!r}.")
    for slot, of in enumerate(source):
        if of in (FRESH, REST):
            continue
        if not 0 <= of < members:
            raise ValueError(f"slot {slot} cannot become a copy of slot {of}: there are slots 0 to {members - 1}.")
        if of != slot and roster.is_idle[of]:
            raise ValueError(f"slot {slot} cannot become a copy of slot {of}, which is idle.")
    for path, value in turnover.hyperparameters.items():
        if path not in roster.hyperparameters:
            known = ", ".join(roster.hyperparameters) or "none"
            raise ValueError(f"{path!r} was not declared by the selector's `ranges`. What may change: {known}.")
        for leaf in jax.tree.leaves(value):
            if np.shape(leaf)[:1] != (members,):
                raise ValueError(f"{path} must have a value for each of {members} slots, not {np.shape(leaf)}.")
