"""Environments of EnvPool: `envpool/Pong-v5`, `envpool/HalfCheetah-v5`. Its threads step all of them in one call.

EnvPool seeds its environments once, when it starts them, and not at each episode. So a run with the same seed is the
same, but a run that is stopped and resumed begins new episodes, and says so.
"""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.errors import need
from shoal.core.host_env import HostEnv
from shoal.core.registry import Entry
from shoal.core.spaces import Box, Dict, Discrete, Space
from shoal.core.struct import Number, static, struct
from shoal.interop.foreign import checked_name
from shoal.interop.from_gymnasium import element_of, space_of

LIMIT = "max_episode_steps"  # EnvPool's name of `max_steps`
NO_LIMIT = 2**31 - 1  # as EnvPool says it
UNBOUNDED = (np.finfo(np.float64).tiny, np.finfo(np.float64).max)  # in the place of minus and plus infinity


class Properties(NamedTuple):
    """The properties of an environment of EnvPool that are known before it runs."""

    observation_space: Space
    action_space: Space
    limit: int | None  # steps after which an episode is truncated
    returned: Any  # EnvPool's space of observations, as one of Gymnasium
    action_dtype: np.dtype  # of the actions that EnvPool takes


@struct
class EnvPoolEnv(HostEnv):
    """An environment of EnvPool, by its id. EnvPool's threads step it, and the compiled program learns.

    Pictures have their channels last, numbers 32 bits. `max_steps` is the time limit: EnvPool's, unless it is given.
    `threads` is the number of EnvPool's threads; 0: as many as there are cores. `options` are further arguments of
    `envpool.make`, as pairs: `options=(("reward_clip", True),)`.
    """

    id: str = static("Pong-v5")
    threads: int = static(0)
    options: tuple = static(())
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", properties_of(self.id, self.options).limit)
        super().__post_init__()

    def open(self) -> "OneOfPool":
        """Start one environment."""
        return OneOfPool(self.open_many(1))

    def open_many(self, count: int) -> "Pool":
        """Start `count` environments, which EnvPool steps together."""
        return Pool(self, count)

    @property
    def repeats_episodes(self) -> bool:
        """False: EnvPool cannot begin the episode of a seed."""
        return False

    @property
    def label(self) -> str:
        """The name with which `shoal.make` finds the environment."""
        return f"envpool/{self.id}"

    @property
    def observation_space(self) -> Space:
        """The space of observations, in shoal's terms."""
        return properties_of(self.id, self.options).observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions, in shoal's terms."""
        return properties_of(self.id, self.options).action_space


class Pool:
    """E environments of EnvPool. See `shoal.core.host_env.Simulators`. EnvPool starts them at the first reset.

    The seeds of that reset are the seeds of the environments; later ones have no effect.
    """

    def __init__(self, env: EnvPoolEnv, count: int) -> None:
        """Prepare to start `count` environments."""
        self.env, self.count = env, count
        known = properties_of(env.id, env.options)
        self._space, self._dtype = known.returned, known.action_dtype
        self._pool: Any = None

    def reset(self, which: np.ndarray, seeds: Sequence[int]) -> tuple[Any, None]:
        """Begin episodes: (observations [N], None)."""
        if self._pool is None:
            self._pool = _pool(self.env, self.count, seeds)
        obs, info = self._pool.reset(which.astype(np.int32))
        return self._observed(obs, _order(info)), None

    def step(self, which: np.ndarray, actions: Any) -> tuple[Any, None, np.ndarray, np.ndarray, np.ndarray]:
        """Take a step: (observations, None, rewards, terminated, truncated), all [N]."""
        obs, *numbers, info = self._pool.step(np.asarray(actions, self._dtype), which.astype(np.int32))
        order = _order(info)
        reward, terminated, truncated = (x[order] for x in numbers)
        return self._observed(obs, order), None, reward.astype(np.float64), terminated > 0, truncated > 0

    def close(self) -> None:
        """Stop EnvPool's threads. A second call does nothing."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _observed(self, obs: Any, order: np.ndarray) -> Any:
        return jax.tree.map(lambda x: _channels_last(x[order], 1), element_of(self._space, obs))


class OneOfPool:
    """One environment of EnvPool. See `shoal.core.host_env.Simulator`."""

    def __init__(self, pool: Pool) -> None:
        """Use a pool of one environment."""
        self.pool = pool

    def reset(self, seed: int) -> tuple[Any, None]:
        """Begin an episode: (observation, None). Only the first seed has an effect."""
        obs, _ = self.pool.reset(np.zeros(1, int), [seed])
        return _first(obs), None

    def step(self, action: Any) -> tuple[Any, None, float, bool, bool]:
        """Take a step: (observation, None, reward, terminated, truncated)."""
        obs, _, *numbers = self.pool.step(np.zeros(1, int), np.asarray(action)[None])
        reward, terminated, truncated = (x[0].item() for x in numbers)
        return _first(obs), None, reward, terminated, truncated

    def close(self) -> None:
        """Stop the environment."""
        self.pool.close()


def names() -> list[str]:
    """The ids that EnvPool knows."""
    return list(_envpool("the list of EnvPool's environments").list_all_envs())


def entry(name: str) -> Entry:
    """Return the entry of `envpool/NAME`. Raises UnknownNameError, with the nearest ids, for an unknown id.

    Raises ImportError without EnvPool, and TypeError for spaces that shoal cannot hold and for several players.
    """
    full = checked_name("envpool", name, _envpool(f"envpool/{name}").list_all_envs())
    properties_of(name, ())
    return Entry(full, EnvPoolEnv, {"id": name}, f"EnvPool's {name}, stepped by its threads")


@lru_cache(maxsize=256)
def properties_of(name: str, options: tuple) -> Properties:
    """Read the spaces and the time limit of an environment. None is started.

    Raises TypeError for spaces that shoal cannot hold, for several players, and for options that EnvPool lacks.
    """
    envpool = _envpool(f"envpool/{name}")
    config = envpool.make_spec(name).config
    for option in dict(options):
        if not hasattr(config, option):
            raise TypeError(f"envpool/{name} has no option {option!r}: {', '.join(sorted(config._fields))}.")
    with warnings.catch_warnings():  # of Gymnasium, about the dtype of bounds that EnvPool writes
        warnings.simplefilter("ignore")
        spec = envpool.make_spec(name, **dict(options))
        seen, actions = spec.observation_space, spec.action_space
    if spec.config.max_num_players > 1:
        raise TypeError(f"envpool/{name} has {spec.config.max_num_players} players, and shoal's agents play alone.")
    ours = space_of(_as_meant(actions), f"the action space of envpool/{name}")
    if not isinstance(ours, (Discrete, Box)):
        raise TypeError(f"the actions of envpool/{name} are {ours}; of EnvPool's shoal takes Discrete and Box.")
    return Properties(
        _channels_last_in(space_of(_as_meant(seen), f"the observation space of envpool/{name}")),
        ours,
        limit if (limit := getattr(spec.config, LIMIT, NO_LIMIT)) < NO_LIMIT else None,
        seen,
        np.dtype(np.int32) if isinstance(ours, Discrete) else actions.dtype,
    )


def _pool(env: EnvPoolEnv, count: int, seeds: Sequence[int]) -> Any:
    limit = {} if env.max_steps is None else {LIMIT: int(np.asarray(env.max_steps))}
    sizes = {"num_envs": count, "num_threads": env.threads, "env_seed": [int(seed) for seed in seeds]}
    options = {**dict(env.options), **limit, **sizes}
    with warnings.catch_warnings():  # as in `properties_of`
        warnings.simplefilter("ignore")
        return _envpool(env.label).make(env.id, env_type="gymnasium", **options)


def _order(info: dict[str, Any]) -> np.ndarray:
    """The order in which results belong to rising indices of environments."""
    return np.argsort(info["env_id"], kind="stable")


def _is_picture(shape: Sequence[int], dtype: Any) -> bool:
    """Whether an array is a picture with its channels first: uint8, and the first of three axes is the shortest."""
    return dtype == np.uint8 and len(shape) == 3 and shape[0] < min(shape[1:])


def _channels_last(x: np.ndarray, axis: int = 0) -> np.ndarray:
    """Pictures with their channels last, which were along `axis`; other arrays stay.

    Copied channel by channel, which takes a quarter of the time of a copy of the moved axes.
    """
    if not _is_picture(x.shape[axis:], x.dtype):
        return x
    channels = np.moveaxis(x, axis, 0)
    moved = np.empty((*channels.shape[1:], len(channels)), x.dtype)
    for c, channel in enumerate(channels):
        moved[..., c] = channel
    return moved


def _as_meant(space: Any) -> Any:
    """A space of EnvPool with infinite bounds where it has the smallest and the largest number of 64 bits."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _as_meant(part) for name, part in space.spaces.items()})
    if not isinstance(space, spaces.Box) or space.dtype != np.float64:
        return space
    low, high = (
        np.where(side == bound, sign * np.inf, side)
        for side, bound, sign in zip((space.low, space.high), UNBOUNDED, (-1, 1), strict=True)
    )
    return spaces.Box(low, high, space.shape, space.dtype)


def _channels_last_in(space: Space) -> Space:
    """The space of the observations whose pictures have their channels last."""
    if isinstance(space, Dict):
        return Dict({name: _channels_last_in(part) for name, part in space.spaces})
    if not isinstance(space, Box) or not _is_picture(space.shape, space.dtype):
        return space
    low, high = (_channels_last(side) for side in space.bounds())
    return Box(low, high, low.shape, space.dtype)


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def _envpool(purpose: str) -> Any:
    return need("envpool", "envpool", purpose)
