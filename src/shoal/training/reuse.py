"""Whether episodes of a run begin in states that others of the same update began in, and what helps."""

import math
from typing import Any

import jax
import numpy as np

from shoal.core.env import Env
from shoal.core.keys import make_key
from shoal.rollouts.rollout import Rollout

TOLERATED = 0.1  # share of episodes that begin in a reused state


def reuse_warning(episodes: Any, reused: Any, updates: int, rollout: Rollout, env: Env) -> str | None:
    """What to tell the user once about a record in which first states were reused often; None where they were not.

    `episodes` and `reused` [M] are what the members counted in `updates` updates (`resets_reused` of the records);
    `env` is the environment of one of them. An environment whose episodes all begin alike has nothing to reuse.
    """
    episodes, reused = np.asarray(episodes, np.int64), np.asarray(reused, np.int64)
    share = float(np.max(reused / np.maximum(episodes, 1), initial=0.0))
    if share <= TOLERATED or _always_begins_alike(env):
        return None
    most = float(episodes.max()) / (updates * rollout.num_envs)  # episodes of one environment in an update
    enough = min(math.ceil(most + 3 * math.sqrt(most)) + 1, rollout.num_steps)
    return (
        f"{share:.0%} of the episodes began in a state that another one of the same update had begun in: each "
        f"environment ends up to {most:.1f} episodes in an update on average, and {rollout.rows} first states were "
        f"drawn for it. bank_size={enough} draws enough of them, and reset='exact' one for every step"
    )


def _always_begins_alike(env: Env) -> bool:
    states = jax.jit(lambda keys: jax.vmap(env.init)(keys))(jax.random.split(make_key(0), 8))
    return all(bool((x == x[:1]).all()) for x in jax.tree.leaves(states))
