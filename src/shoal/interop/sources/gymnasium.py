"""Environments of Gymnasium: `gymnasium/LunarLander-v3`, `gymnasium/ALE/Pong-v5`. Python steps them.

All ids that `gymnasium.make` knows are known, also in its form `module:id`, which first imports the module that
registers the id: an installed one, or a file in the working folder. Atari games, `ALE/...`, are registered by ale_py,
which need not be named.
"""

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.core.errors import UnknownNameError, need
from shoal.core.host_env import HostEnv
from shoal.core.registry import Entry, import_file
from shoal.core.spaces import Space
from shoal.core.struct import Number, static, struct
from shoal.interop.from_gymnasium import action_for, element_of, space_of


class Facts(NamedTuple):
    """What is known of an environment of Gymnasium before it runs."""

    observation_space: Space
    action_space: Space
    limit: int | None  # steps after which an episode is truncated
    has_mask: bool  # whether `info` holds "action_mask", as that of Taxi does
    has_pictures: bool  # whether it knows the render mode "rgb_array"


@struct
class GymnasiumEnv(HostEnv):
    """An environment of Gymnasium, by its id. Python steps it, and the compiled program learns.

    Observations and actions have the spaces of the environment, with integers from 0 and numbers of 32 bits. An action
    mask in `info["action_mask"]` is used. Every episode begins with a reset to a seed of its own, which follows from
    the seed of the run. `max_steps` is the time limit: the one with which the id is registered, unless it is given.
    `options` are further arguments of `gymnasium.make`, as pairs: `options=(("continuous", True),)`.
    """

    id: str = static("CartPole-v1")
    options: tuple = static(())
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        facts = facts_of(self.id, self.options)
        object.__setattr__(self, "has_mask", facts.has_mask)
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", facts.limit)
        super().__post_init__()

    def open(self) -> "GymnasiumSimulator":
        """Start the environment."""
        return GymnasiumSimulator(_made(self.id, self.options, self.max_steps))

    @property
    def has_pictures(self) -> bool:
        """Whether the environment knows the render mode "rgb_array"."""
        return facts_of(self.id, self.options).has_pictures

    def open_to_draw(self) -> "GymnasiumSimulator":
        """Start the environment with the render mode "rgb_array"."""
        return GymnasiumSimulator(_made(self.id, (*self.options, ("render_mode", "rgb_array")), self.max_steps))

    @property
    def observation_space(self) -> Space:
        """The space of observations, in shoal's terms."""
        return facts_of(self.id, self.options).observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions, in shoal's terms."""
        return facts_of(self.id, self.options).action_space


class GymnasiumSimulator:
    """A running environment of Gymnasium, with observations and actions as shoal has them."""

    def __init__(self, env: Any) -> None:
        """Use this `gymnasium.Env`."""
        self.env = env

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Begin the episode of a seed. Returns (observation, action mask or None)."""
        obs, info = self.env.reset(seed=seed)
        return element_of(self.env.observation_space, obs), _mask(info)

    def step(self, action: Any) -> tuple[Any, Any, float, bool, bool]:
        """Take one step. Returns (observation, action mask or None, reward, terminated, truncated)."""
        obs, reward, terminated, truncated, info = self.env.step(action_for(self.env.action_space, action))
        return (
            element_of(self.env.observation_space, obs),
            _mask(info),
            float(reward),
            bool(terminated),
            bool(truncated),
        )

    def picture(self) -> np.ndarray:
        """A picture of the present state, uint8 [H, W, 3], with the render mode "rgb_array"."""
        return np.asarray(self.env.render(), np.uint8)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def names() -> list[str]:
    """The ids that are registered now; other packages register theirs when they are imported."""
    return list(need("gymnasium", "gymnasium", "the list of Gymnasium's environments").registry)


def entry(name: str) -> Entry:
    """Return the entry of `gymnasium/NAME`. Raises UnknownNameError, with the nearest ids, for an unknown id.

    Raises TypeError for an environment with spaces that shoal cannot hold.
    """
    facts_of(name, ())
    return Entry(f"gymnasium/{name}", GymnasiumEnv, {"id": name}, f"Gymnasium's {name}, stepped by Python")


@lru_cache(maxsize=256)
def facts_of(name: str, options: tuple) -> Facts:
    """Make the environment once, to read its spaces and its time limit."""
    env = _made(name, options, None)
    try:
        _, info = env.reset(seed=0)
        limit = env.spec.max_episode_steps if env.spec else None
        return Facts(
            space_of(env.observation_space, f"the observation space of gymnasium/{name}"),
            space_of(env.action_space, f"the action space of gymnasium/{name}"),
            limit,
            _mask(info) is not None,
            "rgb_array" in (env.metadata.get("render_modes") or ()),
        )
    finally:
        env.close()


def _made(name: str, options: tuple, max_steps: Any) -> Any:
    gymnasium = need("gymnasium", "gymnasium", f"gymnasium/{name}")
    limit = {} if max_steps is None else {"max_episode_steps": int(np.asarray(max_steps))}
    module, _, id_there = name.rpartition(":")
    if (file := Path(f"{module}.py")).is_file():
        import_file(file)
        name = id_there
    try:
        return gymnasium.make(f"ale_py:{name}" if name.startswith("ALE/") else name, **dict(options), **limit)
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
    gymnasium = need("gymnasium", "gymnasium", f"gymnasium/{name}")
    near = difflib.get_close_matches(name, list(gymnasium.registry), 3)
    hint = f" Did you mean gymnasium/{' or gymnasium/'.join(near)}?" if near else ""
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    where = (
        "Atari games need the package ale_py: pip install ale-py."
        if name.startswith("ALE/")
        else "An id that another package registers, or a file of yours here, needs its name: gymnasium/MODULE:ID."
    )
    return UnknownNameError(f"Gymnasium cannot make {name}: {reason}.{hint} {where}")


def _mask(info: Any) -> Any:
    mask = info.get("action_mask")
    return None if mask is None else np.asarray(mask, bool)
