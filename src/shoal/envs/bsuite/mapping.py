"""bsuite's random arrays, sampled from `mapping_seed` with NumPy's generator, as bsuite samples them.

They are sampled on the host when an environment is constructed, and kept in it as a leaf of its pytree. So
environments with different seeds can be stacked and stepped as one population; constants of the program could not
differ between members.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.core.struct import is_concrete

NUM_SEEDS = 2**31  # valid seeds are 0, ..., 2**31 - 1, the values of an int32


def sample_boards(owner: Any, sample: Callable[[np.random.RandomState], np.ndarray]) -> np.ndarray:
    """The array that `sample` makes from `owner.mapping_seed`. An array of seeds gives an array for each, stacked.

    Raises ValueError for an invalid seed, and TypeError for a seed that JAX is tracing.
    """
    seed, name = owner.mapping_seed, type(owner).__name__
    if not is_concrete(seed):
        raise TypeError(
            f"{name}.mapping_seed is read once, when the environment is constructed, so it cannot be traced: construct "
            f"the environment outside `jit` and `vmap`, as in {name}(mapping_seed=np.arange(20))."
        )
    seeds = np.asarray(seed)
    wrong = [x for x in np.ravel(seeds).tolist() if not (0 <= x < NUM_SEEDS and x == int(x))]
    if wrong:
        raise ValueError(
            f"{name}.mapping_seed={wrong[0]} is not a valid seed: give a whole number from 0 to 2**31 - 1."
        )
    boards = [sample(np.random.RandomState(int(x))) for x in np.ravel(seeds)]
    return np.stack(boards).reshape(*seeds.shape, *boards[0].shape)


def arm_order(random: np.random.RandomState, arms: int) -> np.ndarray:
    """The rank of the reward of each arm of the bandit, [arms]: a permutation of 0, ..., arms - 1."""
    return random.choice(range(arms), size=arms, replace=False)


def action_board(random: np.random.RandomState, size: int) -> np.ndarray:
    """The action that means right in each cell of the deep sea, [size, size] of 0 and 1."""
    return random.binomial(1, 0.5, [size, size])
