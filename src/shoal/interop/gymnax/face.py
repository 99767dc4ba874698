"""An environment of shoal with gymnax's calls, its params, and `make`, which returns both."""

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env, State
from shoal.core.errors import unknown_fields
from shoal.core.keys import Key, typed_key
from shoal.core.kinds import checked_kinds
from shoal.core.registry import ENVS
from shoal.core.registry import make as make_env
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space
from shoal.core.struct import number_fields, to_arrays

LIMIT = "max_steps_in_episode"  # gymnax's name of `max_steps`
registered_envs = [  # gymnax's names, and those of `register`; `make` takes all of `shoal.list_envs()` too
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
    *(f"{name}-MinAtar" for name in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")),
    *(f"{name}-bsuite" for name in ("Catch", "DeepSea", "MemoryChain", "UmbrellaChain", "DiscountingChain")),
    *(f"{name}-bsuite" for name in ("MNISTBandit", "SimpleBandit")),
    *(f"{name}-misc" for name in ("FourRooms", "MetaMaze", "PointRobot", "BernoulliBandit", "GaussianBandit")),
    *(f"{name}-misc" for name in ("Reacher", "Swimmer", "Pong", "FrozenLake")),
]
_factories: dict[str, Callable[..., Any]] = {}  # of `register`
# gymnax's time limits of games that have none in MinAtar and in shoal: programs use them as numbers.
GYMNAX_LIMITS = {
    **{f"{name}-MinAtar": 1000 for name in ("Asterix", "Breakout", "Seaquest", "SpaceInvaders")},
    "Freeway-MinAtar": 2500,
}


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
        return obs, state, reward, terminated, {**info, "discount": _discount(terminated)}

    def is_truncated(self, state: State, params: Params | None = None) -> jax.Array:
        """Whether the time limit is reached."""
        limit = self._env(params).limit_of(state)
        return jnp.asarray(False) if limit is None else state.time >= limit

    def observation_space(self, params: Params | None = None) -> Any:
        """The space of observations: gymnax's class if gymnax is imported, otherwise shoal's."""
        return shown_space(self._env(params).observation_space)

    def action_space(self, params: Params | None = None) -> Any:
        """The space of actions: gymnax's class if gymnax is imported, otherwise shoal's."""
        return shown_space(self._env(params).action_space)

    def render(self, state: State, params: Params | None = None) -> Any:
        """The picture of a state, uint8 [H, W, 3], where gymnax returns a figure of Matplotlib."""
        return self._env(params).render(jax.tree.map(np.asarray, state))

    @property
    def supports_transition_gradients(self) -> bool:
        """Whether gymnax's opt-in for gradients through steps is accepted: actions are continuous."""
        return isinstance(self.default_params.env.action_space, Box)

    def with_transition_gradients(self) -> "GymnaxEnv":
        """This environment: gradients pass through every step. Raises ValueError for discrete actions, as gymnax."""
        if not self.supports_transition_gradients:
            raise ValueError(f"{self.name} has no gradients of its steps: its actions are discrete.")
        return self

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
    """The same with the five values of gymnax 0.0.x: `step` returns `done` in the place of two flags.

    `info` holds no observation, because programs for 0.0.x take means over all that it holds. Its discount is 0 at the
    time limit too.
    """

    def step(self, key: Any, state: State, action: Any, params: Params | None = None) -> Any:
        """Take a step, and begin an episode if one ended: (observation, state, reward, done, info)."""
        obs, state, reward, terminated, truncated, info = super().step(key, state, action, params)
        done = terminated | truncated
        info = {name: value for name, value in info.items() if name != "final_observation"}
        return obs, state, reward, done, {**info, "discount": _discount(done)}

    def step_env(self, key: Any, state: State, action: Any, params: Params | None = None) -> Any:
        """Take a step without a reset: (observation, state, reward, done, info). `key` is consumed."""
        obs, state, reward, terminated, info = super().step_env(key, state, action, params)
        done = terminated | self.is_truncated(state, params)
        return obs, state, reward, done, {**info, "discount": _discount(done)}


@checked_kinds()
def make(env: str | Env, *, legacy: bool = False, **fields: Any) -> tuple[GymnaxEnv, Params]:
    """Return (environment, its params) for a name of shoal or gymnax, or for an environment of shoal.

    `fields` are fields of a named environment; `max_steps_in_episode` may be one. `legacy` chooses the calls of gymnax
    0.0.x. Raises ValueError, with the nearest names, for an unknown name, and TypeError for unknown fields.
    """
    if isinstance(env, str) and env in _factories:
        made = _factories[env](**fields)
        if isinstance(made, LegacyGymnaxEnv if legacy else GymnaxEnv):
            return made, made.default_params
        env, fields = (made.default_params.env if isinstance(made, GymnaxEnv) else made), {}
    if LIMIT in fields:
        fields["max_steps"] = fields.pop(LIMIT)
    name = env if isinstance(env, str) else ""
    if name in GYMNAX_LIMITS:
        fields.setdefault("max_steps", GYMNAX_LIMITS[name])
    value = make_env(env, **fields) if isinstance(env, str) else env.replace(**fields)
    face = (LegacyGymnaxEnv if legacy else GymnaxEnv)(value, name)
    return face, face.default_params


def register(env_id: str, factory: Any) -> None:
    """Let `make` find an environment by a name: `factory(**fields)` returns an environment of shoal, or one of `make`.

    Raises TypeError for a factory that cannot be called, and ValueError for a name that is taken.
    """
    if not isinstance(env_id, str) or not callable(factory):
        raise TypeError(f"register needs a name and a function or class, not {env_id!r:.60} and {factory!r:.60}.")
    if not env_id or env_id in _factories or env_id in ENVS:
        raise ValueError(f"the name {env_id!r} is {'taken' if env_id else 'empty'}: register under another one.")
    _factories[env_id] = factory
    registered_envs.append(env_id)


def shown_space(space: Space) -> Any:
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
    ends = {"terminated": terminated, "truncated": truncated, "discount": _discount(terminated)}
    return env.observe(state), state, reward, terminated, truncated, {**info, **ends, "final_observation": final_obs}


@jax.jit
def _step_without_reset(env: Env, key: Key, state: State, action: Any) -> tuple[Any, ...]:
    return env.step(key, state, action)


def _discount(is_end: Any) -> jax.Array:
    """gymnax's `info["discount"]`: 0 at an end, 1 before."""
    return 1.0 - jnp.asarray(is_end).astype(jnp.float32)
