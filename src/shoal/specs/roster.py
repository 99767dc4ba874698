"""The roster of a population: hyperparameters, seed index, occupant and parent of every slot.

A population has M slots. Each holds at most one member, its occupant. A selector may replace the occupant of a slot by
a new member or by a copy of another one, or leave the slot idle. Every occupant has a number, never used again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.schedules import peak_of

NOBODY = -1  # as occupant: the slot is idle; as parent: the member is not a copy


class Roster(NamedTuple):
    """NumPy arrays [M], one row for each slot."""

    hyperparameters: dict[str, Any]  # path (`learning_rate`, `env.gravity`) -> array [M, ...] or a tree of such
    seed_index: np.ndarray
    occupant: np.ndarray  # the number of the member in the slot; NOBODY: the slot is idle
    parent: np.ndarray  # the occupant that this one was copied from; NOBODY: it is not a copy
    born: np.ndarray  # the number of updates of the run before the occupant came into its slot

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The hyperparameters that are numbers, [M] by path; of schedules the numbers that they are scaled by."""
        values = {path: np.asarray(peak_of(values)) for path, values in self.hyperparameters.items()}
        return {path: numbers for path, numbers in values.items() if numbers.ndim == 1}

    @property
    def is_idle(self) -> np.ndarray:
        """Bool [M]: slots without a member."""
        return self.occupant == NOBODY

    def restored(self, arrays: Mapping[str, Any]) -> "Roster":
        """Return the roster of a checkpoint's `arrays`; JAX sorts dicts, so the order of paths is taken from here."""
        found = arrays["hyperparameters"]
        return Roster(**{**arrays, "hyperparameters": {path: found[path] for path in self.hyperparameters}})

    def changed(self, hyperparameters: Mapping[str, Any]) -> "Roster":
        """Return the roster with other values of some hyperparameters, in the dtypes that these have."""
        new = {
            path: jax.tree.map(lambda x, old: np.asarray(x, np.asarray(old).dtype), value, self.hyperparameters[path])
            for path, value in hyperparameters.items()
        }
        return self._replace(hyperparameters={**self.hyperparameters, **new})


def first_roster(hyperparameters: Mapping[str, Any], seed_index: np.ndarray) -> Roster:
    """Return the roster that a run begins with: one member in each slot, with occupant numbers 0 to M - 1."""
    members = len(seed_index)
    return Roster(
        hyperparameters=dict(hyperparameters),
        seed_index=seed_index,
        occupant=np.arange(members),
        parent=np.full(members, NOBODY),
        born=np.zeros(members, np.int64),
    )
