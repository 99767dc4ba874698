"""Selectors: what may happen to a population between two chunks of training.

A selector sees how every member does (`Standing`) and says who is trained next (`Turnover`): each slot keeps its
member, takes a copy of another slot's, begins a fresh one, or rests. Hyperparameters may change with it. Nothing is
compiled again, since agents, environments and seeds are inputs of the compiled program.
"""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.core.struct import Struct
from shoal.training.roster import Roster

FRESH = -1  # as the source of a slot: a new member, with new weights
REST = -2  # no member: the slot is idle until it gets one

Range = tuple[float, float]


class Standing(NamedTuple):
    """How the population does at the end of a record. NumPy, one row for each slot."""

    record: int  # how many records there are before this one
    updates: int  # of the run, so far
    roster: Roster
    age: np.ndarray  # updates that each member was trained for, those of the members it was copied from included
    score: np.ndarray  # mean return: of the evaluation if this record has one, else of the episodes that ended in it
    alive: np.ndarray  # False: a number was not finite, so the member is trained no more; or the slot is idle


class Turnover(NamedTuple):
    """Who is trained next. NumPy, one row for each slot."""

    source: np.ndarray  # m itself: slot m keeps its member | j: it gets a copy of slot j's member | FRESH | REST
    hyperparameters: dict[str, Any]  # path -> [M, ...]: those that change, of every slot; others stay as they are
    seed_index: np.ndarray  # [M]; only that of a fresh member matters
    notes: tuple[str, ...] = ()  # lines for the log
    finished: bool = False  # whether the run ends here

    @classmethod
    def none(cls, standing: Standing) -> "Turnover":
        """Nothing changes."""
        return cls(np.arange(len(standing.age)), {}, standing.roster.seed_index)


class Selector(Struct, abc.ABC):
    """Decides between chunks who is trained on. A value, kept in `spec.json`; its own state is kept in checkpoints."""

    every: int  # records between two visits; a static field of each selector

    @property
    def ends_run(self) -> bool:
        """Whether the run has no fixed end, and goes on until a turnover says `finished`."""
        return False

    @abc.abstractmethod
    def ranges(self, agent: Agent, env: Env) -> Mapping[str, Range]:
        """The hyperparameters that may change, by path, with the lowest and the highest value that they may get.

        Sizes that depend on them (batches, reset banks) are planned for both ends.
        """

    @abc.abstractmethod
    def begin(self, roster: Roster, key: Key) -> tuple[Any, dict[str, Any]]:
        """(its state at the start: any tree of arrays; hyperparameters to begin with, as in `Turnover`).

        `key` is consumed.
        """

    @abc.abstractmethod
    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """(its next state, who is trained next). `key` is consumed."""


def check_turnover(turnover: Turnover, standing: Standing) -> None:
    """Raise ValueError for a turnover that cannot be carried out, naming the slot."""
    members, roster = len(standing.age), standing.roster
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
        if np.shape(value)[:1] != (members,):
            raise ValueError(f"{path} must have a value for each of {members} slots, not {np.shape(value)}.")
