"""Successive halving and Hyperband: many members begin, and at every rung only the best ones go on.

Source: Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", algorithm 1 (rungs at
`first`, `first * eta`, `first * eta**2`, ...; brackets with later first rungs are smaller). Refilled slots follow Li et
al. 2020, "A System for Massively Parallel Hyperparameter Tuning" (ASHA), algorithm 2: a member that reaches a rung is
compared with all members that have reached it before, also those that were dropped there. Differences: a member that is
dropped leaves its slot, so it cannot be promoted later; equal scores are ordered at random, because otherwise all or
none of them would go on.
"""

import math
from typing import Any

import numpy as np

from shoal.core.agent import check_counts
from shoal.core.env import Key
from shoal.core.registry import selector
from shoal.core.struct import Number, hyper, static, struct
from shoal.population.varying import Varying, check_scored, effective_score, generator
from shoal.specs.selector import FRESH, REST, Schedule, Standing, Turnover

MOST_RUNGS = 24  # with eta of at least 2, later ones would come after more records than a run can have
KEPT = 4096  # scores that are kept for each rung: enough to know the best 1/eta of them, and 0.8 MB in a checkpoint


@selector("halving")
@struct
class Halving(Varying):
    """Successive halving: at each rung, the best 1/`eta` of the members that reach it go on.

    Rungs come after `first`, `first * eta`, `first * eta**2`, ... records of a member. The others are dropped. With
    `refill="idle"` their slots become idle, which takes no time on a CPU. With `refill="fresh"` a new member with newly
    sampled hyperparameters begins in each of them. New members reach a rung later than others. So the scores of all
    members that reach a rung are kept (the newest 4,096, or as many as there are slots), and a new member must be among
    the best 1/`eta` of them. This is asynchronous successive halving (ASHA).

    With `brackets` above 1 the slots are split into brackets, as in Hyperband. In bracket b (0, 1, ...) the first rung
    comes after `first * eta**b` records, and members are compared within their bracket.

    Of members with equal scores, those in lower slots go on; where slots are refilled, random ones. A member without a
    score (NaN), or one that stopped because of NaN or infinity, counts as the worst. Scores are returns of training, or
    of evaluations if every record has one; a member in the middle of a long episode keeps its score.
    """

    eta: Number = hyper(3.0, valid=(2, 1e6), help="at a rung, 1/eta of the members go on")
    first: int = static(1, help="records until the first rung")
    refill: str = static("idle", choices=("idle", "fresh"), help="what happens to the slots of dropped members")
    brackets: int = static(1, help="groups of slots with different first rungs, as in Hyperband")

    def __post_init__(self) -> None:
        check_counts(self, "first", "brackets")
        if self.brackets > MOST_RUNGS:
            raise ValueError(f"brackets={self.brackets} must be at most {MOST_RUNGS}.")

    def first_state(self, members: int) -> dict[str, np.ndarray]:
        """The record in which each member began [M]; scores of the members that reached each rung; NaN: none yet."""
        kept = max(KEPT, members) if self.refill == "fresh" else 0
        reached = np.full((self.brackets, MOST_RUNGS, kept), np.nan)  # the newest is the last
        return {"began": np.zeros(members, np.int64), "reached": reached}

    def check(self, schedule: Schedule) -> None:
        """Raise ValueError for rungs after the end, and for brackets in which no member would be dropped."""
        sizes, records = self.sizes(schedule.members), len(schedule.steps)
        eta, first = float(self.eta), [self.rung(bracket) for bracket in range(self.brackets)]
        for bracket, (size, rung) in enumerate(zip(sizes, first, strict=True)):
            where = f"bracket {bracket} of {self.brackets}" if self.brackets > 1 else "halving"
            if size < eta:
                least = math.ceil(eta * schedule.members / max(size, 1)) if self.brackets > 1 else math.ceil(eta)
                raise ValueError(
                    f"{where} has {size} member{'s' * (size != 1)}, of which 1/{eta:g} is less than one: train at "
                    f"least {least}, as with --seeds {least}{', or use fewer brackets' * (self.brackets > 1)}."
                )
            if rung >= records:
                raise ValueError(
                    f"{where} has its first rung after record {rung}, and the run has {records}: use a smaller "
                    f"--selector.first{', fewer brackets' * (self.brackets > 1)} or more --records."
                )
            check_scored(schedule, rung, "the first rung")

    def rung(self, number: int) -> int:
        """Return the records of a member before rung `number` (0, 1, ...). The first rung of bracket b is rung b."""
        return round(self.first * float(self.eta) ** number)

    def sizes(self, members: int) -> list[int]:
        """Return the number of slots of each bracket, in proportion to Hyperband's eta**s / (s + 1).

        With S brackets, s is S - 1 for bracket 0 and 0 for the last one. The slots that remain after rounding down go
        to bracket 0.
        """
        shares = np.asarray([float(self.eta) ** s / (s + 1) for s in reversed(range(self.brackets))])
        sizes = np.floor(members * shares / shares.sum() + 1e-9).astype(int)
        sizes[0] += members - sizes.sum()
        return sizes.tolist()

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Drop the worse members of every rung that was reached in this record."""
        is_dropped, reached, notes = np.zeros(len(standing.score), bool), state["reached"].copy(), []
        score, done = effective_score(standing), standing.record + 1 - state["began"]  # records of each member
        random = generator(key, "equal scores")
        for bracket, slots in enumerate(self._slots(len(done))):
            for rung in range(bracket, MOST_RUNGS):
                arrived = slots[(done[slots] == self.rung(rung)) & ~standing.roster.is_idle[slots]]
                if not len(arrived):
                    continue
                if self.refill == "idle":
                    compared, order = score[arrived], np.arange(len(arrived))
                else:
                    before = reached[bracket, rung]
                    reached[bracket, rung] = np.append(before, score[arrived])[len(arrived) :]
                    compared = np.append(score[arrived], before[~np.isnan(before)])
                    order = random.permutation(len(compared))
                dropped = arrived[~self._is_best(compared, order)[: len(arrived)]]
                is_dropped[dropped] = True
                notes.append(self._note(bracket, rung, len(arrived), len(dropped)))
        state = {**state, "reached": reached}
        if self.refill == "idle":
            source = np.where(is_dropped, REST, np.arange(len(done)))
            return state, Turnover.none(standing)._replace(source=source, notes=tuple(notes))
        state = {**state, "began": np.where(is_dropped, standing.record + 1, state["began"])}
        state, values, seeds = self.with_fresh(state, standing.roster, is_dropped, key)
        return state, Turnover(np.where(is_dropped, FRESH, np.arange(len(done))), values, seeds, tuple(notes))

    def _slots(self, members: int) -> list[np.ndarray]:
        """Return the slots of each bracket."""
        return np.split(np.arange(members), np.cumsum(self.sizes(members))[:-1])

    def _is_best(self, scores: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return which of the scores [N] are the best N / `eta`, at least one; equal scores are in the given order."""
        kept = max(1, math.floor(len(scores) / float(self.eta) + 1e-9))
        is_best = np.zeros(len(scores), bool)
        is_best[np.lexsort((order, -scores))[:kept]] = True
        return is_best

    def _note(self, bracket: int, rung: int, arrived: int, dropped: int) -> str:
        where = f", bracket {bracket}" * (self.brackets > 1)
        return f"halving: rung {rung - bracket}{where}: {arrived - dropped} of {arrived} members go on"
