"""A warning for a reset bank that is too small: too many episodes of one update begin in the same first state."""

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
        f"{fraction:.0%} of the episodes began in the same first state as another episode of the same update: an "
        f"environment ends up to {most:.1f} episodes in an update on average, but only {rollout.num_first_states} "
        f"first states are sampled for it. With bank_size={enough} enough are sampled, with reset='exact' one for each "
        f"step"
    )


def _has_one_first_state(env: Env) -> bool:
    states = jax.jit(lambda keys: jax.vmap(env.init)(keys))(jax.random.split(make_key(0), 8))
    return all(bool((x == x[:1]).all()) for x in jax.tree.leaves(states))
