"""Environments of Gymnasium: `gymnasium/LunarLander-v3`, `gymnasium/ALE/Pong-v5`. Python steps them.

All ids that `gymnasium.make` knows are known, also in its form `module:id`, which first imports the module that
registers the id: an installed one, or a file in the working folder. Atari games, `ALE/...`, are registered by ale_py,
which need not be named.
"""

import difflib
import importlib
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.errors import UnknownNameError, UntrustedError, need
from shoal.core.host_env import HostEnv, Simulators
from shoal.core.registry import Entry, import_file, loaded_file
from shoal.core.spaces import Space, mask_size, misfit, zeros
from shoal.core.struct import Number, static, struct
from shoal.core.user_code import file_of, line_raised
from shoal.interop.from_gymnasium import action_for, element_of, space_of
from shoal.interop.minigrid_missions import space_with_words, with_words

FIRST = ("observation", "info")
LATER = ("observation", "reward", "terminated", "truncated", "info")


class Properties(NamedTuple):
    """The properties of an environment of Gymnasium that are known before it runs."""

    observation_space: Space
    action_space: Space
    limit: int | None  # steps after which an episode is truncated
    has_mask: bool  # whether `info` holds "action_mask", as that of Taxi does
    has_pictures: bool  # whether it knows the render mode "rgb_array"
    code: tuple[str, ...]  # the files with the classes of the environment and its wrappers


@struct
class GymnasiumEnv(HostEnv):
    """An environment of Gymnasium, by its id. Python steps it, and the compiled program learns.

    Observations and actions have the spaces of the environment, with integers from 0 and numbers of 32 bits. An action
    mask in `info["action_mask"]` is used. Every episode begins with a reset to a seed of its own, which follows from
    the seed of the run. `max_steps` is the time limit: the one with which the id is registered, unless it is given.
    `options` are further arguments of `gymnasium.make`, as pairs: `options=(("continuous", True),)`. With `workers`
    the environments of a member are shared by that many processes, which step them at the same time; 0: this process
    steps them. The results are the same.
    """

    id: str = static("CartPole-v1")
    options: tuple = static(())
    workers: int = static(0, help="processes that step the environments of a member; 0: none but this one")
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        known = properties_of(self.id, self.options)
        object.__setattr__(self, "has_mask", known.has_mask)
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", known.limit)
        if self.workers < 0:
            raise ValueError(f"workers={self.workers} must be at least 1, or 0: this process steps the environments.")
        super().__post_init__()

    def check_count(self, count: int) -> None:
        """Raise ValueError if there are more workers than environments."""
        if self.workers > count:
            raise ValueError(
                f"workers={self.workers} is more than the num_envs={count} environments of a member, and a worker "
                f"without an environment has nothing to do: give at most {count} workers, or more environments."
            )

    def open_many(self, count: int) -> Simulators:
        """Start `count` environments, with `workers` in as many processes: at most one for each environment."""
        if not self.workers:
            return super().open_many(count)
        from shoal.interop.gymnasium_workers import Workers

        limit = None if self.max_steps is None else int(np.asarray(self.max_steps))
        open_one = partial(_opened_elsewhere, self.id, self.options, limit, _spec_of(self.id))
        seen, action = jax.tree.map(
            np.asarray, ((zeros(self.observation_space), self._no_mask()), zeros(self.action_space))
        )
        return Workers(self.label, open_one, count, min(self.workers, count), seen, action)

    def open(self) -> "GymnasiumSimulator":
        """Start the environment."""
        return GymnasiumSimulator(_made(self.id, self.options, self.max_steps))

    @property
    def label(self) -> str:
        """The name with which `shoal.make` finds the environment."""
        return f"gymnasium/{self.id}"

    @property
    def code(self) -> tuple[str, ...]:
        """The files with the classes of the environment and its wrappers."""
        return properties_of(self.id, self.options).code

    @property
    def has_pictures(self) -> bool:
        """Whether the environment knows the render mode "rgb_array"."""
        return properties_of(self.id, self.options).has_pictures

    def open_to_draw(self) -> "GymnasiumSimulator":
        """Start the environment with the render mode "rgb_array"."""
        return GymnasiumSimulator(_made(self.id, (*self.options, ("render_mode", "rgb_array")), self.max_steps))

    @property
    def observation_space(self) -> Space:
        """The space of observations, in shoal's terms."""
        return properties_of(self.id, self.options).observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions, in shoal's terms."""
        return properties_of(self.id, self.options).action_space


class GymnasiumSimulator:
    """A running environment of Gymnasium, with observations and actions as shoal has them.

    Its methods raise TypeError where the environment returns what Gymnasium's rules and its own spaces do not allow.
    """

    def __init__(self, env: Any) -> None:
        """Use this `gymnasium.Env`."""
        self.env = env
        self.name = f"gymnasium/{env.spec.id}" if env.spec else type(env).__name__
        self._words = space_with_words(env)  # of a level of MiniGrid that shoal has too
        self._space = self._words or space_of(env.observation_space)
        self._actions = space_of(env.action_space)

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Begin the episode of a seed. Returns (observation, action mask or None)."""
        return self._observed("reset", *self._parts("reset", partial(self.env.reset, seed=seed), FIRST))

    def step(self, action: Any) -> tuple[Any, Any, float, bool, bool]:
        """Take one step. Returns (observation, action mask or None, reward, terminated, truncated)."""
        step = partial(self.env.step, action_for(self.env.action_space, action))
        obs, reward, terminated, truncated, info = self._parts("step", step, LATER)
        numbers = {"reward": reward, "terminated": terminated, "truncated": truncated}
        for name, number in numbers.items():
            if np.ndim(number) or np.asarray(number).dtype.kind not in "biuf":
                raise TypeError(f"{self.name}: step returns {number!r:.60} as {name}; it must be one number or bool.")
        return (*self._observed("step", obs, info), float(reward), bool(terminated), bool(truncated))

    def picture(self) -> np.ndarray:
        """A picture of the present state, uint8 [H, W, 3], with the render mode "rgb_array"."""
        return np.asarray(self.env.render(), np.uint8)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _parts(self, name: str, call: Callable[[], Any], names: tuple[str, ...]) -> tuple:
        """Return what a method returns, if it has these parts."""
        must = f"{self.name}: {name} must return ({', '.join(names)}) with a dict as info"
        try:
            result = call()
        except ValueError as error:  # of a wrapper of Gymnasium, which unpacks the parts
            if "values to unpack" not in str(error) or line_raised(error):
                raise
            raise TypeError(f"{must}: {error}.") from error
        if not isinstance(result, tuple) or len(result) != len(names) or not isinstance(result[-1], dict):
            raise TypeError(f"{must}, not {result!r:.80}.")
        return result

    def _observed(self, call: str, obs: Any, info: dict[str, Any]) -> tuple[Any, Any]:
        """Return (observation, action mask or None) of what the environment returned."""
        try:
            element = with_words(obs, self._words) if self._words else element_of(self.env.observation_space, obs)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise TypeError(
                f"{self.name}: {call} returns the observation {obs!r:.80}, which does not fit its observation space "
                f"{self.env.observation_space}: {error}"
            ) from error
        if reason := misfit(self._space, element, "the observation"):
            raise TypeError(f"{self.name}: {call} returns what its observation space does not hold: {reason}.")
        return element, mask_of(info, self._actions)


def names() -> list[str]:
    """The ids that are registered now; other packages register theirs when they are imported."""
    return list(need("gymnasium", "gymnasium", "the list of Gymnasium's environments").registry)


def entry(name: str) -> Entry:
    """Return the entry of `gymnasium/NAME`. Raises UnknownNameError, with the nearest ids, for an unknown id.

    Raises TypeError for an environment with spaces that shoal cannot hold.
    """
    try:
        _import_source(name)
    except ModuleNotFoundError as error:
        raise _unknown(name, error) from error
    properties_of(name, ())
    return Entry(f"gymnasium/{name}", GymnasiumEnv, {"id": name}, f"Gymnasium's {name}, stepped by Python")


def _import_source(name: str) -> None:
    """Import the file or module that registers the id of `module:id`."""
    module = source_of(name)
    if module.endswith(".py"):
        import_file(Path(module))
    elif module:
        importlib.import_module(module)


def _spec_of(name: str) -> Any:
    """The registration of an id, for a process that has it from nowhere else; None for `module:id`."""
    return None if source_of(name) else need("gymnasium", "gymnasium", f"gymnasium/{name}").registry.get(name)


def _opened_elsewhere(name: str, options: tuple, max_steps: int | None, spec: Any) -> GymnasiumSimulator:
    """Start an environment in a process that has imported and registered nothing yet."""
    _import_source(name)
    if spec is not None:
        need("gymnasium", "gymnasium", f"gymnasium/{name}").registry.setdefault(spec.id, spec)
    return GymnasiumSimulator(_made(name, options, max_steps))


def source_of(name: str) -> str:
    """Return the file in the working folder, or the module, that registers the id of `module:id`; empty without one."""
    module = name.rpartition(":")[0]
    file = Path(f"{module}.py")
    return str(file.resolve()) if module and file.is_file() else module


@lru_cache(maxsize=256)
def properties_of(name: str, options: tuple) -> Properties:
    """Make the environment once, to read its spaces and its time limit."""
    env = _made(name, options, None)
    try:
        spaces = (
            space_with_words(env) or space_of(env.observation_space, f"the observation space of gymnasium/{name}"),
            space_of(env.action_space, f"the action space of gymnasium/{name}"),
        )
        _, mask = GymnasiumSimulator(env).reset(0)
        limit = env.spec.max_episode_steps if env.spec else None
        has_pictures = "rgb_array" in (env.metadata.get("render_modes") or ())
        return Properties(*spaces, limit, mask is not None, has_pictures, tuple(_files(env)))
    finally:
        env.close()


def _made(name: str, options: tuple, max_steps: Any) -> Any:
    gymnasium = need("gymnasium", "gymnasium", f"gymnasium/{name}")
    limit = {} if max_steps is None else {"max_episode_steps": int(np.asarray(max_steps))}
    is_atari = name.startswith("ALE/")
    module = source_of(name)
    if module and module not in sys.modules and loaded_file(Path(module)) is None:  # nothing but `entry` imports it
        raise UntrustedError(f"import {module} before GymnasiumEnv(id={name!r}), or write make('gymnasium/{name}').")
    id_there = name.rpartition(":")[2]
    name = id_there if module.endswith(".py") else name
    try:
        full = f"ale_py:{name}" if is_atari else name
        # GymnasiumSimulator and `check_env` check more than Gymnasium's own checker, and say it in words.
        return gymnasium.make(full, disable_env_checker=True, **dict(options), **limit)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        if id_there in gymnasium.registry or isinstance(error, gymnasium.error.DependencyNotInstalled):
            raise ImportError(f"gymnasium/{name} needs another package: {_missing(error)}") from error
        raise _unknown(name, error) from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(name, error) from error


def _missing(error: Exception) -> str:
    package = getattr(error, "name", None)
    return f"{package}, which is not installed: pip install {package}." if package else str(error)


def _unknown(name: str, error: Exception) -> UnknownNameError:
    """The error for an id that Gymnasium cannot make, with the nearest ids."""
    near = difflib.get_close_matches(name, [*need("gymnasium", "gymnasium", f"gymnasium/{name}").registry], 3)
    hint = f" Did you mean gymnasium/{' or gymnasium/'.join(near)}?" if near else ""
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    where = (
        "Atari games need the package ale_py: pip install ale-py."
        if name.startswith("ALE/")
        else "An id that another package registers, or a file of yours here, needs its name: gymnasium/MODULE:ID."
    )
    return UnknownNameError(f"Gymnasium cannot make {name}: {reason}.{hint} {where}")


def mask_of(info: dict[str, Any], actions: Space) -> Any:
    """Return the action mask in an `info` of Gymnasium as one vector; None where there is none for such actions."""
    mask = info.get("action_mask")
    if mask is None or not mask_size(actions):
        return None
    return np.concatenate(mask).astype(bool) if isinstance(mask, tuple) else np.asarray(mask, bool)


def _files(env: Any) -> Iterator[str]:
    """Yield the files with the classes of an environment and of the wrappers around it."""
    while env is not None:
        yield file_of(type(env))
        env = env.__dict__.get("env")
