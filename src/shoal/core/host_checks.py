"""`check_host_env` plays an environment that Python steps, and checks what it returns. `check_env` calls it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.errors import CheckError
from shoal.core.host_env import HostEnv
from shoal.core.keys import Key
from shoal.core.spaces import explain, flat_size, mask_size, permits, random_action
from shoal.core.user_code import line_of


def check_host_env(env: HostEnv, key: Key, steps: int) -> int:
    """Take `steps` random steps. Returns the number of episodes that ended in them.

    The rules: observations lie in the observation space; masks are given if and only if `has_mask` is true; rewards
    are finite. Raises CheckError for the first rule that is broken.
    """
    for name, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not flat_size(space):
            raise _broken(env, f"the {name} space {space} holds no number")
    simulator, episodes = env.open(), 0
    try:
        obs, mask = simulator.reset(0)
        _check_observed(env, "reset", obs, mask)
        for t in range(steps):
            allowed = None if mask is None else jnp.asarray(mask)
            action = random_action(env.action_space, allowed, jax.random.fold_in(key, t))
            obs, mask, reward, terminated, truncated = simulator.step(jax.tree.map(np.asarray, action))
            _check_observed(env, "step", obs, mask)
            if not np.isfinite(reward):
                raise _broken(env, f"step returns the reward {reward}, which is not finite")
            if terminated or truncated:
                episodes += 1
                obs, mask = simulator.reset(episodes)
                _check_observed(env, "reset", obs, mask)
    finally:
        simulator.close()
    return episodes


def _check_observed(env: HostEnv, call: str, obs: Any, mask: Any) -> None:
    if reason := explain(env.observation_space, obs, "the observation"):
        raise _broken(env, f"{call} returns an observation outside of the observation space: {reason}")
    if (mask is not None) != env.has_mask:
        raise _broken(env, f"{call} returns the action mask {mask}, and has_mask is {env.has_mask}")
    size = mask_size(env.action_space)
    if mask is not None and np.shape(mask) != (size,):
        raise _broken(env, f"{call} returns an action mask of shape {np.shape(mask)}, not ({size},)")
    if mask is not None and not permits(env.action_space, jnp.asarray(mask)):
        raise _broken(env, f"{call} returns an action mask that allows no action")


def _broken(env: HostEnv, what: str) -> CheckError:
    at = line_of(type(env))
    return CheckError(f"{at + ': ' if at else ''}{env.label}: {what}.")
