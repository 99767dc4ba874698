"""A warning when too many episodes begin in the same state of the reset bank as another episode of the same update."""

import math
from typing import Any

import jax
import numpy as np

from shoal.core.env import Env
from shoal.core.keys import make_key
from shoal.rollouts.rollout import Rollout

TOLERATED = 0.1  # fraction of episodes that may begin in a reused state without a warning


def reuse_warning(episodes: Any, reused: Any, updates: int, rollout: Rollout, env: Env) -> str | None:
    """Return a warning if first states were reused often in a record, otherwise None.

    `episodes` and `reused` [M] are the members' counts of episodes and of reused first states in `updates` updates.
    `env` is the environment of one member. Where all episodes begin in the same state there is never a warning.
    """
    episodes, reused = np.asarray(episodes, np.int64), np.asarray(reused, np.int64)
    fraction = float(np.max(reused / np.maximum(episodes, 1), initial=0.0))
    if fraction <= TOLERATED or _has_one_first_state(env):
        return None
    most = float(episodes.max()) / (updates * rollout.num_envs)  # episodes of one environment in an update
    enough = min(math.ceil(most + 3 * math.sqrt(most)) + 1, rollout.num_steps)
    return (
        f"{fraction:.0%} of the episodes began in a state that another one of the same update had begun in: each "
        f"environment ends up to {most:.1f} episodes in an update on average, and {rollout.num_first_states} first "
        f"states were sampled for it. bank_size={enough} samples enough of them, and reset='exact' one for every step"
    )


def _has_one_first_state(env: Env) -> bool:
    states = jax.jit(lambda keys: jax.vmap(env.init)(keys))(jax.random.split(make_key(0), 8))
    return all(bool((x == x[:1]).all()) for x in jax.tree.leaves(states))
