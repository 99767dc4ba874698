"""The layers of a policy: the arrays of its weights, grouped by the part of the network that they belong to."""

import math
from typing import Any, NamedTuple

import jax
from jax.tree_util import GetAttrKey


class Layer(NamedTuple):
    """A part of a network."""

    name: str  # its path, as in `actor/Dense_0`
    shapes: dict[str, tuple[int, ...]]  # of its arrays, by their names, such as kernel and bias

    @property
    def numbers(self) -> int:
        """How many numbers its arrays hold."""
        return sum(math.prod(shape) for shape in self.shapes.values())


def layers(policy: Any) -> list[Layer]:
    """The layers of a policy, in the order of its tree. Arrays may be shapes only."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(policy):
        *above, name = [_word(key) for key in path] or [""]
        above = [word for word in above if word not in ("weights", "params")]  # what every network has
        found.setdefault("/".join(above), {})[name] = tuple(leaf.shape)
    return [Layer(name, shapes) for name, shapes in found.items()]


def _word(key: Any) -> str:
    if isinstance(key, GetAttrKey):
        return key.name
    return str(getattr(key, "key", getattr(key, "idx", key)))
