"""Search spaces: the numbers and structs that evolve, as vectors of coordinates for an evolution strategy.

A number has one coordinate, its position in its range: 0 at the lower bound, 1 at the upper one, on a log scale where
the range has one. A struct, such as a loss with weights, has one coordinate for each weight, which is the weight
itself. Weights are the leaves that are arrays with at least one axis. The other leaves of a struct, single numbers, do
not evolve with it: each is a hyperparameter with its own path.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from shoal.core.ranges import Range
from shoal.core.struct import Struct


class SearchSpace(NamedTuple):
    """The ranges of numbers and the structs with their first weights that vary, by path."""

    varied: Mapping[str, Range | Struct]

    @property
    def size(self) -> int:
        """The number D of coordinates."""
        return sum(1 if isinstance(x, Range) else sum(map(np.size, _weights(x))) for x in self.varied.values())

    def coordinates(self, values: Mapping[str, Any]) -> Float[np.ndarray, "D"]:
        """Return the coordinates of values by path."""
        pieces = []
        for path, start in self.varied.items():
            if isinstance(start, Range):
                pieces.append(np.reshape(start.position(values[path]), 1))
            else:
                pieces += [np.ravel(np.asarray(leaf)) for leaf in _weights(values[path])]
        return np.concatenate(pieces).astype(np.float32)

    def values(self, coordinates: Float[np.ndarray, "*axes D"]) -> dict[str, Any]:
        """Return the values by path at coordinates [..., D]; their leaves have the same leading axes.

        Numbers are clipped to their ranges.
        """
        x, at, values = np.asarray(coordinates, np.float32), 0, {}
        for path, start in self.varied.items():
            if isinstance(start, Range):
                position = np.clip(x[..., at].astype(np.float64), 0, 1)
                values[path] = np.asarray(start.at(position), np.float32)
                at += 1
                continue
            leaves, structure = jax.tree.flatten(start)
            filled = []
            for leaf in leaves:
                if not np.ndim(leaf):
                    filled.append(np.broadcast_to(np.asarray(leaf), x.shape[:-1]))
                    continue
                size = np.size(leaf)
                filled.append(x[..., at : at + size].reshape(*x.shape[:-1], *np.shape(leaf)))
                at += size
            values[path] = jax.tree.unflatten(structure, filled)
        return values


def _weights(value: Struct) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(value) if np.ndim(leaf)]
