"""The layers of a policy: the arrays of its weights, grouped by the part of the network that they belong to."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.training.checkpoint import POLICIES, leaves, table_of
from shoal.training.folder import RunFolder
from shoal.training.policy import checkpoint_of

EVERYWHERE = ("weights", "params")  # parts of a path that every network has


class Layer(NamedTuple):
    """A part of a network."""

    name: str  # its path, as in `actor/Dense_0`; empty for a policy without parts
    shapes: dict[str, tuple[int, ...]]  # of its arrays, by their names, such as kernel and bias

    @property
    def numbers(self) -> int:
        """How many numbers its arrays hold."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def arrays(self) -> str:
        """Its arrays in words: `bias 64, kernel 4 x 64`."""
        return ", ".join(f"{name} {' x '.join(map(str, shape)) or 1}".strip() for name, shape in self.shapes.items())


def layers(policy: Any) -> list[Layer]:
    """The layers of a policy, in the order of its tree. Arrays may be shapes only."""
    return _grouped({path: leaf.shape for path, leaf in leaves(policy).items()})


def saved_layers(folder: RunFolder) -> list[Layer]:
    """The layers of a member's policy, as the last checkpoint of a run lists them. Raises CheckpointError without one.

    No code of the run is needed for it.
    """
    table = table_of(checkpoint_of(folder, "last"), POLICIES)
    return _grouped({path: shape[1:] for path, (shape, _) in table.items()})  # the first axis is that of members


def _grouped(shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for path, shape in shapes.items():
        *above, name = path.split("/")
        found.setdefault("/".join(word for word in above if word not in EVERYWHERE), {})[name] = tuple(shape)
    return [Layer(name, arrays) for name, arrays in found.items()]
