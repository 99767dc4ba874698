"""Shoal's environments with gymnax's calls: `env, params = shoal.interop.gymnax.make("CartPole-v1")`.

The calls are those of gymnax 1.x: `step` resets by itself, returns six values, and has the observation before the reset
in `info["final_observation"]`. `make(..., legacy=True)` returns five values, as gymnax 0.0.9 did, for programs such as
PureJaxRL. gymnax need not be installed.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.env import Env, State
from shoal.core.errors import unknown_fields
from shoal.core.keys import Key, typed_key
from shoal.core.kinds import checked_kinds
from shoal.core.registry import make as make_env
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space
from shoal.core.struct import number_fields, to_arrays

LIMIT = "max_steps_in_episode"  # gymnax's name of `max_steps`


@partial(jax.tree_util.register_dataclass, data_fields=("env",), meta_fields=())
@dataclasses.dataclass(frozen=True)
class Params:
    """The constants of an environment: `params.gravity`, `params.replace(gravity=5.0)`. Every number may be traced.

    It holds the environment value of shoal. `max_steps_in_episode` is its `max_steps`.
    """

    env: Env

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):
            raise AttributeError(name)
        if name == LIMIT:
            return self.env.max_steps
        if name in self._numbers():
            return getattr(self.env, name)
        raise AttributeError(f"the params of {type(self.env).__name__} have no {name!r}: {', '.join(self._numbers())}.")

    def replace(self, **changes: Any) -> "Params":
        """Return params with other constants. Raises TypeError, with the nearest names, for one that does not exist."""
        changes = {("max_steps" if name == LIMIT else name): value for name, value in changes.items()}
        if unknown := [name for name in changes if name not in self._numbers()]:
            raise unknown_fields(type(self.env).__name__, unknown, self._numbers())
        return Params(self.env.replace(**changes))

    def _numbers(self) -> list[str]:
        return [*number_fields(type(self.env))]


class GymnaxEnv:
    """An environment of shoal with the methods of gymnax 1.x. It keeps no state; `params` hold the constants."""

    def __init__(self, env: Env, name: str = "") -> None:
        """Use this environment; `name` is what `name` returns."""
        self.name = name or type(env).__name__
        self.default_params = Params(to_arrays(env))

    def reset(self, key: Any, params: Params | None = None) -> tuple[Any, State]:
        """Begin an episode: (observation, state). `key` is consumed; it may also be one of `jax.random.PRNGKey`."""
        return self.reset_env(key, params)

    def reset_env(self, key: Any, params: Params | None = None) -> tuple[Any, State]:
        """The same as `reset`."""
        return _reset(self._env(params), typed_key(key))

    def step(
        self, key: Any, state: State, action: Any, params: Params | None = None
    ) -> tuple[Any, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Take a step, and begin an episode if one ended: (observation, state, reward, terminated, truncated, info).

        `key` is consumed. After an end, observation and state are the first ones of the next episode, and
        `info["final_observation"]` is the last one of the episode that ended.
        """
        return _step(self._env(params), typed_key(key), state, action)

    def step_env(
        self, key: Any, state: State, action: Any, params: Params | None = None
    ) -> tuple[Any, State, jax.Array, jax.Array, dict[str, Any]]:
        """Take a step without a reset: (observation, state, reward, terminated, info). `key` is consumed."""
        obs, state, reward, terminated, _, info = _step_without_reset(self._env(params), typed_key(key), state, action)
        return obs, state, reward, terminated, info

    def is_truncated(self, state: State, params: Params | None = None) -> jax.Array:
        """Whether the time limit is reached."""
        limit = self._env(params).limit_of(state)
        return jnp.asarray(False) if limit is None else state.time >= limit

    def observation_space(self, params: Params | None = None) -> Any:
        """The space of observations: gymnax's class if gymnax is imported, otherwise shoal's."""
        return _space(self._env(params).observation_space)

    def action_space(self, params: Params | None = None) -> Any:
        """The space of actions: gymnax's class if gymnax is imported, otherwise shoal's."""
        return _space(self._env(params).action_space)

    @property
    def num_actions(self) -> int:
        """The number of discrete actions, or of the numbers in a continuous one."""
        space = self.default_params.env.action_space
        if isinstance(space, Discrete):
            return space.n
        assert isinstance(space, (Box, MultiDiscrete))
        return space.shape[0] if space.shape else 1

    def _env(self, params: Params | None) -> Env:
        params = self.default_params if params is None else params
        if not isinstance(params, Params) or type(params.env) is not type(self.default_params.env):
            raise TypeError(
                f"params={params!r:.60} are not those of {self.name}: use the second value that make returns, or "
                f"`env.default_params`."
            )
        return params.env


class LegacyGymnaxEnv(GymnaxEnv):
    """The same with the five values of gymnax 0.0.9: `step` returns `done` in the place of two flags."""

    def step(self, key: Any, state: State, action: Any, params: Params | None = None) -> Any:
        """Take a step, and begin an episode if one ended: (observation, state, reward, done, info)."""
        obs, state, reward, terminated, truncated, info = super().step(key, state, action, params)
        return obs, state, reward, terminated | truncated, info


@checked_kinds()
def make(env: str | Env, *, legacy: bool = False, **fields: Any) -> tuple[GymnaxEnv, Params]:
    """Return (environment, its params) for a name of shoal or gymnax, or for an environment of shoal.

    `fields` are fields of a named environment; `max_steps_in_episode` may be one. `legacy` chooses the calls of gymnax
    0.0.9. Raises ValueError, with the nearest names, for an unknown name, and TypeError for unknown fields.
    """
    if LIMIT in fields:
        fields["max_steps"] = fields.pop(LIMIT)
    name = env if isinstance(env, str) else ""
    value = make_env(env, **fields) if isinstance(env, str) else env.replace(**fields)
    face = (LegacyGymnaxEnv if legacy else GymnaxEnv)(value, name)
    return face, face.default_params


class legacy:  # noqa: N801  # used as a module: from shoal.interop.gymnax import legacy as gymnax
    """`make` with the calls of gymnax 0.0.9, in the place of `import gymnax` in programs such as PureJaxRL's."""

    make = staticmethod(partial(make, legacy=True))


class RolloutWrapper:
    """Rollouts of a policy in fixed numbers of steps, with the arguments and results of gymnax's RolloutWrapper."""

    def __init__(
        self,
        model_forward: Callable[[Any, Any, Any], Any] | None = None,
        env_name: str | None = None,
        num_env_steps: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        env_params: Params | Mapping[str, Any] | None = None,
        env: GymnaxEnv | None = None,
    ) -> None:
        """`model_forward(policy_params, obs, key)` returns an action; without it actions are random.

        `env_name` (default Pendulum-v1, with `env_kwargs`) or `env` is the environment. `env_params` are params, or
        changes of the default ones. `num_env_steps` is T, by default the time limit. Raises ValueError if both
        environments are given, or no T for an environment without a limit.
        """
        if env is not None and (env_name is not None or env_kwargs is not None):
            raise ValueError("env is given, so leave out env_name and env_kwargs, which make another one.")
        self.env = make(env_name or "Pendulum-v1", **(env_kwargs or {}))[0] if env is None else env
        default = self.env.default_params
        self.env_params = default.replace(**env_params) if isinstance(env_params, Mapping) else env_params or default
        self.model_forward = model_forward
        _, longest = self.env_params.env.limit_range or (None, None)
        steps = longest if num_env_steps is None else num_env_steps
        if steps is None:
            raise ValueError(f"{self.env.name} has no time limit: give num_env_steps.")
        self.num_env_steps = int(steps)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return self.env.default_params.env.observation_space.shape  # type: ignore[union-attr]  # of arrays only

    def population_rollout(self, key_eval: Any, policy_params: Any) -> tuple[Any, ...]:
        """`batch_rollout` of N policies: results have leading axes [N, B]; `policy_params` have leaves [N, ...]."""
        return jax.jit(jax.vmap(self._batch, in_axes=(None, 0)))(key_eval, policy_params)

    def batch_rollout(self, key_eval: Any, policy_params: Any) -> tuple[Any, ...]:
        """`single_rollout` for B keys: results have a leading axis [B]."""
        return jax.jit(self._batch)(key_eval, policy_params)

    def single_rollout(self, key_input: Any, policy_params: Any) -> tuple[Any, ...]:
        """T steps: (obs, action, reward, next_obs, done) [T], and the return of the first episode, [1].

        After an end the next episode begins; `next_obs` is then its first observation, as in gymnax. `key_input` is
        consumed.
        """
        return jax.jit(self._single)(key_input, policy_params)

    def _batch(self, keys: Any, policy_params: Any) -> tuple[Any, ...]:
        return jax.vmap(self._single, in_axes=(0, None))(keys, policy_params)

    def _single(self, key: Any, policy_params: Any) -> tuple[Any, ...]:
        k_reset, k_episode = jax.random.split(typed_key(key))
        obs, state = GymnaxEnv.reset(self.env, k_reset, self.env_params)
        start = (obs, state, jnp.zeros(1), jnp.ones(1))

        def step(loop: Any, key: Key) -> tuple[Any, Any]:
            obs, state, total, is_first = loop
            k_act, k_step = jax.random.split(key)
            if self.model_forward is None:
                action = self.env_params.env.action_space.sample(k_act)
            else:
                action = self.model_forward(policy_params, obs, k_act)
            new = GymnaxEnv.step(self.env, k_step, state, action, self.env_params)
            next_obs, state, reward, done = *new[:3], new[3] | new[4]
            loop = (next_obs, state, total + reward * is_first, is_first * (1 - done))
            return loop, (obs, action, reward, next_obs, done)

        loop, rows = jax.lax.scan(step, start, jax.random.split(k_episode, self.num_env_steps))
        return *rows, loop[2]


def _space(space: Space) -> Any:
    """The space of gymnax's class if gymnax is imported: programs ask `isinstance(space, gymnax...Discrete)`."""
    module = sys.modules.get("gymnax.environments.spaces")
    if module is not None and isinstance(space, Discrete):
        return module.Discrete(space.n)
    if module is not None and isinstance(space, Box):
        low, high = space.bounds()
        return module.Box(low, high, space.shape, low.dtype)
    return space


@jax.jit
def _reset(env: Env, key: Key) -> tuple[Any, State]:
    state = env.init(key)
    return env.observe(state), state


@jax.jit
def _step(env: Env, key: Key, state: State, action: Any) -> tuple[Any, ...]:
    k_step, k_reset = jax.random.split(key)
    final_obs, ended, reward, terminated, truncated, info = env.step(k_step, state, action)
    first = env.carry_over(ended, env.init(k_reset))
    done = terminated | truncated
    state = jax.tree.map(lambda new, old: jnp.where(done, new, old), first, ended)
    info = {**info, "terminated": terminated, "truncated": truncated, "final_observation": final_obs}
    return env.observe(state), state, reward, terminated, truncated, info


@jax.jit
def _step_without_reset(env: Env, key: Key, state: State, action: Any) -> tuple[Any, ...]:
    return env.step(key, state, action)
