"""Who sits in each slot of a population: hyperparameters, seed index, and where the occupant comes from.

A population has M slots, and at most one member in each: its occupant. A selector may replace the occupant of a slot
by a fresh member or by a copy of another one, or leave the slot idle. Occupants have numbers that are never used again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

NOBODY = -1  # the occupant of an idle slot; the parent of a member that is no copy


class Roster(NamedTuple):
    """One row for each slot; NumPy, [M]."""

    hyperparameters: dict[str, Any]  # path (`learning_rate`, `env.gravity`) -> array [M, ...] or a tree of such
    seed_index: np.ndarray
    occupant: np.ndarray  # NOBODY: the slot is idle
    parent: np.ndarray  # the occupant that this one was copied from; NOBODY: it began anew
    born: np.ndarray  # updates that the run had done when the occupant came into its slot

    @property
    def is_idle(self) -> np.ndarray:
        """Bool [M]: slots without a member."""
        return self.occupant == NOBODY


def first_roster(hyperparameters: Mapping[str, Any], seed_index: np.ndarray) -> Roster:
    """The members that a run begins with: one in each slot."""
    members = len(seed_index)
    return Roster(
        hyperparameters=dict(hyperparameters),
        seed_index=seed_index,
        occupant=np.arange(members),
        parent=np.full(members, NOBODY),
        born=np.zeros(members, np.int64),
    )
