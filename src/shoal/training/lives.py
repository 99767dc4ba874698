"""The lives of the members of a run with a selector, read from its curves: who was copied from whom, and what varied.

Between two turnovers a slot holds one occupant. A life is all that the curves say about one occupant.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from shoal.specs.roster import NOBODY
from shoal.training.records import member_scores


class Life(NamedTuple):
    """One occupant, over the n records in which it was trained."""

    occupant: int
    parent: int  # the occupant that it was copied from; -1: it is not a copy
    slot: int
    records: np.ndarray  # [n], the indices of its records
    env_steps: np.ndarray  # [n], environment steps of a member of the run at the end of each record
    score: np.ndarray  # [n], as `scores_in` has them
    hyperparameters: dict[str, np.ndarray]  # [n] by path

    @property
    def last_score(self) -> float:
        """The score of its last record that has one; NaN if there is none."""
        known = self.score[~np.isnan(self.score)]
        return float(known[-1]) if len(known) else float("nan")


def hyperparameters_in(curves: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names of the columns that hold hyperparameters: in a run with a selector, those behind `parent`."""
    names = list(curves)
    return names[names.index("parent") + 1 :] if "parent" in names else []


def scores_in(curves: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the scores [records, M], all of one kind as in `Schedule.is_scored_by_evaluations`; NaN: none in a record.

    They are the mean returns of the evaluations if every record has one, or if no episode ended in training; otherwise
    those of training.
    """
    evaluated, trained = curves["eval_return"], curves["train_return"]
    is_evaluated = ~np.isnan(evaluated).all(axis=1)
    return evaluated if is_evaluated.all() or np.isnan(trained).all() else trained


def newest_returns(curves: Mapping[str, Any], record: int, *, of_evaluations: bool) -> np.ndarray:
    """Return the newest mean return [M] of the member in each slot, up to a record of a run with a selector.

    `curves` has the columns of the run by name, as arrays or as lists of rows.
    A member that has none of this record, because it is in the middle of a long episode, keeps the one that it had
    before. A copy has the return of its original until it has one of its own. NaN: none yet, and in idle slots.
    """
    values = curves["eval_return" if of_evaluations else "train_return"]
    occupant, parent = curves["occupant"], curves["parent"]
    slot, member = np.arange(len(occupant[record])), np.array(occupant[record])
    found, is_open = np.full(len(slot), np.nan), member != NOBODY
    for r in range(record, -1, -1):
        for m in np.flatnonzero(is_open & (occupant[r][slot] != member)):  # it began after this record
            member[m] = parent[r + 1][slot[m]]
            origin = np.flatnonzero((occupant[r] == member[m]) & (member[m] != NOBODY))
            is_open[m], slot[m] = origin.size > 0, origin[0] if origin.size else slot[m]
        is_known = np.isfinite(curves["eval_length"][r]) if of_evaluations else curves["episodes"][r] > 0
        is_found = is_open & is_known[slot]
        found[is_found] = values[r][slot[is_found]]
        is_open &= ~is_found
        if not is_open.any():
            break
    return found


def training_returns(curves: Mapping[str, Any], record: int, count: int) -> np.ndarray:
    """Return the mean training returns [R, M] of the last R = `count` records up to `record`; NaN: no episode ended.

    A member in which no episode ended in all of them has its newest return in the last row.
    """
    returns = np.stack(curves["train_return"][max(0, record + 1 - count) : record + 1])
    has_none = np.isnan(returns).all(axis=0)
    if has_none.any():
        returns[-1, has_none] = newest_returns(curves, record, of_evaluations=False)[has_none]
    return returns


def lives_in(curves: Mapping[str, np.ndarray]) -> dict[int, Life]:
    """Return every occupant of a run by its number. Raises ValueError for a run without a selector."""
    if "occupant" not in curves:
        raise ValueError("this run had no selector, so no member was copied or replaced: its curves show every member.")
    scores, paths, lives = scores_in(curves), hyperparameters_in(curves), {}
    for slot, occupants in enumerate(curves["occupant"].T):
        for occupant in dict.fromkeys(occupants[occupants != NOBODY].tolist()):
            records = np.flatnonzero(occupants == occupant)
            lives[occupant] = Life(
                occupant=occupant,
                parent=int(curves["parent"][records[0], slot]),
                slot=slot,
                records=records,
                env_steps=curves["env_steps"][records],
                score=scores[records, slot],
                hyperparameters={path: curves[path][records, slot] for path in paths},
            )
    return dict(sorted(lives.items()))


def lineage(lives: Mapping[int, Life], occupant: int) -> list[int]:
    """Return an occupant, the one that it was copied from, and so on to the first ancestor.

    An ancestor that was copied before its first record, which only happens in a run that was cut, ends the list.
    """
    line = [occupant]
    while line[-1] in lives and lives[line[-1]].parent != NOBODY:
        line.append(lives[line[-1]].parent)
    return line


def best_members(curves: Mapping[str, np.ndarray], count: int = 5) -> list[dict[str, Any]]:
    """Return the best members at the end of a run with a selector, the best first, as data for `summary.json`.

    They are ordered by their last evaluation, or by their last score if none was evaluated. A slot that is idle counts
    with the member that it held last, whose weights it keeps.
    """
    lives, last = lives_in(curves), member_scores(dict(curves))
    in_slot = {life.slot: life for life in lives.values()}  # occupants are in order of time
    score = {slot: last[slot] if not np.isnan(last).all() else life.last_score for slot, life in in_slot.items()}
    order = sorted(in_slot, key=lambda slot: (-np.nan_to_num(score[slot], nan=-np.inf), slot))
    return [
        {
            "member": slot,
            "occupant": in_slot[slot].occupant,
            "score": float(score[slot]),
            "hyperparameters": {path: values[-1].item() for path, values in in_slot[slot].hyperparameters.items()},
            "lineage": lineage(lives, in_slot[slot].occupant),
        }
        for slot in order[:count]
    ]
