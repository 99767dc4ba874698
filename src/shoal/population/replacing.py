"""The base class of `pbt` and `pb2`: the worst members become copies of the best ones, with other hyperparameters."""

import abc
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from shoal.core.env import Key
from shoal.core.schedules import with_peaks
from shoal.core.struct import Number, hyper, static, struct
from shoal.population.varying import Varying, check_scored, effective_score, generator, ranked
from shoal.specs.selector import Schedule, Standing, Turnover
from shoal.specs.settings import is_of_env


@struct
class Replacing(Varying):
    """A selector that replaces the worst members by copies of the best, with other hyperparameters.

    With `truncation`, each of the worst `quantile` of the members becomes a copy of a random one of the best
    `quantile`. With `tournament`, every member is compared with a random other one, and becomes a copy of it if that
    one is better. A member is replaced only by one with a higher score. A member without a score (NaN) counts as the
    worst. Members that stopped because of NaN or infinity are always replaced. Scores are returns of training, or of
    evaluations if every record has one; a member in the middle of a long episode keeps its score.

    A copy has the weights, optimizer state, normalization statistics and other hyperparameters of its original, and a
    random key of its own.
    It begins new episodes; with a replay buffer it continues the episodes of the original.

    A schedule keeps its shape: its number farthest from 0 changes, and all others are multiplied by the same factor. By
    default all hyperparameters of the agent vary that declare a range, that the user did not set, and that a member
    reads after it has begun: the initial standard deviation of PPO does not vary.
    """

    changes_members: ClassVar[bool] = True

    every: int = static(1, help="records between two replacements of members")
    exploit: str = static("truncation", choices=("truncation", "tournament"), help="which members are replaced")
    quantile: Number = hyper(0.25, valid=(0, 0.5), help="share of the members that truncation replaces")

    def check(self, schedule: Schedule) -> None:
        """Raise ValueError for a population too small for `quantile`, and for replacements without scores."""
        members, records = schedule.members, len(schedule.steps)
        if members < 2 or (self.exploit == "truncation" and _count(self.quantile, members) < 1):
            among = f"replaces nobody among {members} member{'s' * (members != 1)}"
            if self.exploit == "tournament":
                raise ValueError(f"{self._name} {among}: train at least 2, as with --seeds 2.")
            if not self.quantile:
                raise ValueError(f"{self._name} with quantile=0 {among}: use a larger one, such as 0.25.")
            least = max(2, math.ceil(1 / max(float(self.quantile), 1e-9)))
            raise ValueError(
                f"{self._name} with quantile={self.quantile:g} {among}: train at least {least}, as with --seeds "
                f"{least}, or use a larger quantile (0.5 at most)."
            )
        if self.every >= records:
            raise ValueError(
                f"{self._name} with every={self.every} never acts in a run of {records} record{'s' * (records != 1)}: "
                f"use a smaller --selector.every, or more --records."
            )
        check_scored(schedule, self.every, "the first replacement")

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Replace the worst members by copies of the best."""
        random = generator(key, "exploit")
        sources_of = self._truncation if self.exploit == "truncation" else self._tournament
        source = sources_of(standing, random)
        is_copy = source != np.arange(len(source))
        state, explored = self.explored(state, standing, source, key)
        changes = {}
        for path, values in standing.roster.hyperparameters.items():
            if path in explored or not is_of_env(path):
                copied = jax.tree.map(lambda x: np.asarray(x)[source], values)
                changes[path] = with_peaks(copied, explored[path], is_copy) if path in explored else copied
        best = int(ranked(standing)[0])
        replaced = f"{is_copy.sum()} of {len(source)} members replaced"
        note = f"{self._name}: {replaced}; the best score is {standing.score[best]:.4g}"
        notes = (note,) if is_copy.any() else ()
        return state, Turnover(source, changes, standing.roster.seed_index, notes, new_episodes=True)

    @abc.abstractmethod
    def explored(
        self, state: Any, standing: Standing, source: np.ndarray, key: Key
    ) -> tuple[Any, Mapping[str, np.ndarray]]:
        """Return (the next state, numbers [M] for copies, by path of all that varies).

        `source` [M] has the slot whose member each slot continues; where that is the slot itself, its numbers are not
        used. `key` is consumed.
        """

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _truncation(self, standing: Standing, random: np.random.Generator) -> np.ndarray:
        """Return the source of every slot [M]: one of the best members for each of the worst."""
        order, score = ranked(standing), effective_score(standing)
        count = _count(self.quantile, len(order))
        best, worst = order[:count], order[len(order) - count :]
        stopped = np.flatnonzero(~standing.alive & ~standing.roster.is_idle)
        source = np.arange(len(score))
        for slot in np.union1d(worst, stopped).astype(int) if count else ():
            other = best[random.integers(count)]
            source[slot] = other if score[other] > score[slot] else slot
        return source

    def _tournament(self, standing: Standing, random: np.random.Generator) -> np.ndarray:
        """Return the source of every slot [M]: the better one of its member and a random other member."""
        slots, score = np.flatnonzero(~standing.roster.is_idle), effective_score(standing)
        source = np.arange(len(score))
        for i, slot in enumerate(slots):
            other = slots[(i + 1 + random.integers(len(slots) - 1)) % len(slots)]  # any but the slot itself
            source[slot] = other if score[other] > score[slot] else slot
        return source


def _count(quantile: Number, members: int) -> int:
    """Return the number of members in a quantile, rounded down."""
    return math.floor(float(quantile) * members + 1e-9)
