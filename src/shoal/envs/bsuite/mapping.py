"""bsuite's random boards, drawn from a mapping seed with NumPy's generator, as bsuite draws them.

They are drawn on the host when a value is built, and kept in it beside their seed as a leaf of its tree: so worlds
with different seeds may be stacked and stepped as one population, which a constant inside the program could not be.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.core.struct import is_concrete

MOST_SEEDS = 2**31  # as many as a whole number of 32 bits tells apart


def draw_boards(owner: Any, draw: Callable[[np.random.RandomState], np.ndarray]) -> np.ndarray:
    """The board of `owner.mapping_seed`; for an array of seeds one for each, along leading axes.

    Raises ValueError for a number that is no seed, TypeError for one that is being traced.
    """
    seed, name = owner.mapping_seed, type(owner).__name__
    if not is_concrete(seed):
        raise TypeError(
            f"{name}.mapping_seed is read once, when the value is built, so it cannot be traced: build it outside "
            f"`jit` and `vmap`, as in {name}(mapping_seed=np.arange(20))."
        )
    seeds = np.asarray(seed)
    wrong = [x for x in np.ravel(seeds).tolist() if not (0 <= x < MOST_SEEDS and x == int(x))]
    if wrong:
        raise ValueError(f"{name}.mapping_seed={wrong[0]} is no seed: give a whole number from 0 to 2**31 - 1.")
    boards = [draw(np.random.RandomState(int(x))) for x in np.ravel(seeds)]
    return np.stack(boards).reshape(*seeds.shape, *boards[0].shape)


def arm_order(random: np.random.RandomState, arms: int) -> np.ndarray:
    """Which of the evenly spaced rewards each arm of the bandit gives."""
    return random.choice(range(arms), size=arms, replace=False)


def action_board(random: np.random.RandomState, size: int) -> np.ndarray:
    """Which action means right, cell by cell of the deep sea."""
    return random.binomial(1, 0.5, [size, size])
