"""Sums of many float32 numbers. Each addition passes on what it rounded away.

A plain sum of a million rewards of 0.1 is 100,958: where the sum is large, each addition rounds the small number to a
multiple of its last digit. Source: Kahan 1965, "Further remarks on reducing truncation errors".
"""

from typing import Any, TypeVar

import jax
from jaxtyping import Array, Float

Tree = TypeVar("Tree")

# A plain sum of so many numbers is right to a hundred-thousandth. In the loop of a rollout, where nothing else is
# computed, the rounding of returns takes 5 % of the time (CartPole, 1,024 environments, one core).
FEW = 1_000


def are_few(count: int | None) -> bool:
    """Whether a plain sum of so many numbers is good enough. None: any number of them."""
    return count is not None and count <= FEW


def add(total: Float[Array, "*axes"], rounding: Any, x: Float[Array, "*axes"]) -> tuple[Float[Array, "*axes"], Any]:
    """(total + x, the rounding of this addition): how much more than the exact sum the new total is.

    `rounding` [*axes] is that of the addition before, 0 at the start; with None the sum is plain. After a number that
    is not finite, the total is NaN.
    """
    if rounding is None:
        return total + x, None
    rest = x - rounding
    new = total + rest
    return new, (new - total) - rest


def add_trees(total: Tree, rounding: Tree, x: Tree) -> tuple[Tree, Tree]:
    """`add` for every leaf of three trees of one structure."""
    leaves, structure = jax.tree.flatten(total)
    pairs = [add(*leaf) for leaf in zip(leaves, jax.tree.leaves(rounding), jax.tree.leaves(x), strict=True)]
    sums, roundings = zip(*pairs, strict=True) if pairs else ((), ())
    return jax.tree.unflatten(structure, sums), jax.tree.unflatten(structure, roundings)
