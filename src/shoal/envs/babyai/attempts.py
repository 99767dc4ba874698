"""Whole-level rejection: attempts at a level until one is accepted.

The reference redraws the whole level, instruction included, when a check fails or something finds no place. Layouts
therefore have the distribution of one attempt, given that it is accepted. Source: MiniGrid 3.2.0,
`envs/babyai/core/roomgrid_level.py`, `RoomGridLevel._gen_grid`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from shoal.core.keys import Key
from shoal.grid.retry import retry

Attempt = Any  # a pytree with the field `is_accepted`, a bool


def accepted(layout: Callable[[Key], Attempt], key: Key) -> tuple[Attempt, Bool[Array, ""]]:
    """Make attempts at a level until one is accepted: (the level, whether all attempts were rejected).

    After 16,384 rejected attempts the last one is kept as it is, although it may have no solution. `layout` must not
    use traced values other than its key, which is consumed.
    """
    shapes = jax.eval_shape(layout, key)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def attempt(key: Key, _: Attempt) -> Attempt:
        return layout(key)

    found = retry(key, lambda key: key, attempt, lambda level: level.is_accepted, nothing, None, attempts=1)
    return found, ~found.is_accepted
