"""The state of a run beside its members. Checkpoints hold it, so that a resumed run continues with the same bits."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.keys import Key, make_key
from shoal.specs.roster import NOBODY, Roster
from shoal.specs.selector import FRESH, REST, Selector, Turnover
from shoal.training.folder import json_ready


@dataclasses.dataclass(frozen=True)
class RunState:
    """Roster, scores, counters and times of a run; saved and restored together."""

    roster: Roster
    best_return: np.ndarray  # [M], the mean return of each occupant's best evaluation; -inf before the first
    next_occupant: int  # the number of the next new occupant
    selector: Any = None  # the selector's state: a tree of arrays
    updates: int = 0  # the number of updates that are done
    compile_seconds: float = 0.0  # of this process and, in a resumed run, of those before it
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    eval_cut: int = 0  # episodes of the newest evaluation that its limit of steps cut off, over all members
    finished: bool = False  # whether the selector, or `stop_at`, ended the run
    reached: np.ndarray | None = None  # [M], the updates after which `stop_at` ended a member, or 0; None before that

    @classmethod
    def first(cls, roster: Roster, selector: Selector | None = None, key: Key | None = None) -> "RunState":
        """Return the state of a run that begins with this roster, as its selector changes it. `key` is consumed."""
        selector_state = None
        if selector is not None:
            selector_state, changes = selector.begin(roster, make_key(0) if key is None else key)
            roster = roster.changed(changes)
        members = len(roster.seed_index)
        return cls(roster, np.full(members, -np.inf), next_occupant=members, selector=selector_state)

    def replace(self, **changes: Any) -> "RunState":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def after(self, turnover: Turnover) -> "RunState":
        """Return the state after a turnover. New occupants get new numbers and have no best score yet."""
        source, old = np.asarray(turnover.source), self.roster
        slots = np.arange(len(source))
        is_new = (source != slots) & (source != REST)
        is_copy = is_new & (source != FRESH)
        occupant, parent = old.occupant.copy(), old.parent.copy()
        occupant[is_new] = self.next_occupant + np.arange(is_new.sum())
        parent[is_new] = NOBODY
        parent[is_copy] = old.occupant[source[is_copy]]
        occupant[source == REST], parent[source == REST] = NOBODY, NOBODY
        roster = Roster(
            hyperparameters=old.changed(turnover.hyperparameters).hyperparameters,
            seed_index=np.where(source == FRESH, turnover.seed_index, old.seed_index).astype(old.seed_index.dtype),
            occupant=occupant,
            parent=parent,
            born=np.where(is_new, self.updates, old.born),
        )
        return self.replace(
            roster=roster,
            best_return=np.where(occupant == old.occupant, self.best_return, -np.inf),
            next_occupant=self.next_occupant + int(is_new.sum()),
            finished=turnover.finished,
        )

    @property
    def has_reached(self) -> np.ndarray:
        """Bool [M]: whether `stop_at` ended the member."""
        return np.zeros(len(self.best_return), bool) if self.reached is None else self.reached > 0

    def with_reached(self, new: np.ndarray) -> "RunState":
        """Return the state after `stop_at` ended the members where `new` [M]."""
        before = np.zeros(len(new), int) if self.reached is None else self.reached
        return self.replace(reached=np.where(new, self.updates, before))

    def arrays(self) -> dict[str, Any]:
        """Return the parts that a checkpoint keeps as arrays."""
        return {"roster": self.roster._asdict(), "selector": self.selector}

    def data(self) -> dict[str, Any]:
        """Return all other parts, for the JSON of a checkpoint's manifest."""
        parts = {name: getattr(self, name) for name in OF_MANIFEST}
        return {name: json_ready(part) for name, part in parts.items() if part is not None}

    def restored(self, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> "RunState":
        """Return the state in a checkpoint, from its manifest (`about`) and its arrays.

        Parts that older checkpoints lack are those of a run that begins.
        """
        data = {name: about[name] for name in OF_MANIFEST if name in about}
        data["best_return"] = np.asarray([-np.inf if best is None else best for best in about["best_return"]])
        if "reached" in data:
            data["reached"] = np.asarray(data["reached"])
        return self.replace(roster=self.roster.restored(arrays["roster"]), selector=arrays["selector"], **data)


OF_MANIFEST = [f.name for f in dataclasses.fields(RunState) if f.name not in ("roster", "selector")]
