"""Shoal's spaces, observations and actions as those of Gymnasium."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from shoal.core.env import NAN_STATE, Env, check_fields, episode_limit
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple, over_leaves


def env_of(env: Env | str, fields: dict[str, Any]) -> Env:
    """Return the environment of a name, with these fields, or the environment itself.

    Raises TypeError for what is neither, and for fields beside an environment; ValueError for a field out of range.
    """
    if isinstance(env, str):
        return make(env, **fields)
    if not isinstance(env, Env):
        raise TypeError(f"{env!r:.60} is no environment of shoal: give a name, such as CartPole-v1, or an Env.")
    if fields:
        raise TypeError(f"{', '.join(fields)}: give fields to the environment itself, or its name with them.")
    check_fields(env)
    return env


def warn_of_nan(rewards: Any, is_said: bool) -> bool:
    """Say, unless `is_said`, that a reward is NaN. Returns whether it was said, now or before."""
    if not is_said and (is_said := bool(np.isnan(rewards).any())):
        gymnasium.logger.warn(f"a reward is NaN: {NAN_STATE}.")
    return is_said


class SpecWithLimit:
    """The attribute `spec` of an environment under Gymnasium's calls: the spec that `gymnasium.make` sets, or None.

    Its time limit, which Gymnasium's wrappers read, is by default that of shoal's environment.
    """

    def __get__(self, wrapped: Any, owner: type) -> Any:
        """Return the spec; None on the class."""
        spec = getattr(wrapped, "_spec", None)
        if spec is None or spec.max_episode_steps is not None:
            return spec
        return dataclasses.replace(spec, max_episode_steps=episode_limit(wrapped.env))

    def __set__(self, wrapped: Any, spec: Any) -> None:
        """Keep a spec."""
        wrapped._spec = spec


def space_of(space: Space) -> spaces.Space:
    """Return Gymnasium's space for one of shoal. A Box of booleans becomes MultiBinary."""
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(np.asarray(space.nvec))
    if isinstance(space, Tuple):
        return spaces.Tuple([space_of(part) for part in space.spaces])
    if isinstance(space, Dict):
        return spaces.Dict({name: space_of(part) for name, part in space.spaces})
    assert isinstance(space, Box)
    if space.dtype == np.bool_:
        return spaces.MultiBinary(space.shape)
    low, high = space.bounds()
    return spaces.Box(low, high, space.shape, low.dtype.type)


def element_of(space: Space, x: Any) -> Any:
    """Return an element (with any leading axes) as new NumPy arrays, with the dtypes of Gymnasium's space."""
    return over_leaves(_as_gymnasiums, space, x)


def _as_gymnasiums(space: Box | Discrete | MultiDiscrete, x: Any) -> Any:
    if isinstance(space, Box):
        return np.array(x, np.int8) if space.dtype == np.bool_ else np.array(x)
    array = np.array(x, np.int64)
    return array if array.shape else array[()]


def action_of(space: Space, action: Any, asarray: Callable[..., Any] = np.asarray) -> Any:
    """Return an action of Gymnasium (with any leading axes) as arrays of the dtypes of shoal's space.

    `asarray` makes them: NumPy's, or JAX's for an action that is traced.
    """
    return over_leaves(lambda leaf, x: asarray(x, jax.dtypes.canonicalize_dtype(leaf.dtype)), space, action)


def check_action(space: spaces.Space, action: Any) -> None:
    """Raise gymnasium.error.InvalidAction for an action that is not in a Gymnasium space."""
    if space.contains(action) or _is_number_of(space, action):
        return
    is_array = hasattr(action, "shape") and hasattr(action, "dtype")
    given = f"of shape {action.shape} and dtype {action.dtype}" if is_array else repr(action)
    needs = " A Box needs an array of its shape and dtype within its bounds." if isinstance(space, spaces.Box) else ""
    raise gymnasium.error.InvalidAction(
        f"the action {given} is not in the action space {space}: `env.action_space.sample()` gives an example.{needs}"
    )


def _is_number_of(space: spaces.Space, action: Any) -> bool:
    """Whether an action is an array of one integer, as policies of other libraries return for a Discrete space."""
    if not isinstance(space, spaces.Discrete) or not isinstance(action, (np.ndarray, jax.Array)):
        return False
    return action.shape == () and np.issubdtype(action.dtype, np.integer) and bool(space.contains(int(action)))
