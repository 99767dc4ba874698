"""Base classes of the wrappers, and functions that find the level inside nested wrappers, and its state."""

import abc
from typing import Any, ClassVar

import numpy as np

from shoal.core.env import Env, Observation, State
from shoal.core.spaces import Box, Dict, Space
from shoal.core.struct import struct
from shoal.core.wrappers.base import StatefulWrapper, Wrapper
from shoal.grid.level import GridState, Level


@struct
class LevelWrapper(Wrapper):
    """A wrapper around a level, or around wrappers of a level. Raises TypeError if there is no level inside."""

    def __post_init__(self) -> None:
        _check_level(self)

    @property
    def level(self) -> Level:
        """The level inside all wrappers."""
        return level_of(self.env)


@struct
class StatefulLevelWrapper(StatefulWrapper):
    """The same for a wrapper that adds to the environment state. Raises TypeError if there is no level inside."""

    def __post_init__(self) -> None:
        _check_level(self)

    @property
    def level(self) -> Level:
        """The level inside all wrappers."""
        return level_of(self.env)


@struct
class PartWrapper(LevelWrapper):
    """Replaces one entry of the observation dict, or adds one. Subclasses define `name`, `part_space` and `part`.

    Raises TypeError around an environment whose observation is not a dict.
    """

    name: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if not isinstance(self.env.observation_space, Dict):
            raise TypeError(
                f"{type(self).__name__} changes an entry of a dict, but {type(self.env).__name__} observes no dict: "
                f"write {type(self.env).__name__}({type(self).__name__}(...)), the other way round."
            )

    @property
    @abc.abstractmethod
    def part_space(self) -> Space:
        """The space of the entry."""

    @abc.abstractmethod
    def part(self, state: GridState, inner_obs: dict[str, Any]) -> Any:
        """The entry, from the level's state and the observation of the inner environment."""

    @property
    def observation_space(self) -> Dict:
        """The inner environment's dict, with the entry."""
        return Dict({**dict(inner_spaces(self)), self.name: self.part_space})

    def observe(self, state: State) -> Observation:
        """The inner environment's observation, with the entry."""
        inner_obs: dict[str, Any] = self.env.observe(state)
        return {**inner_obs, self.name: self.part(grid_state(state), inner_obs)}


def level_of(env: Env) -> Level:
    """The level inside an environment. Raises TypeError if there is none."""
    inside: Any = env
    while not isinstance(inside, Level):
        if not hasattr(inside, "env"):
            raise TypeError(
                f"{type(inside).__name__} is not a grid environment: wrap a Level, such as Empty or DoorKey."
            )
        inside = inside.env
    return inside


def grid_state(state: State) -> GridState:
    """The state of the level, inside the states of wrappers."""
    inside: Any = state
    while not isinstance(inside, GridState):
        inside = inside.inner
    return inside


def inner_spaces(wrapper: Wrapper) -> dict[str, Any]:
    """The spaces of the entries of the inner environment's observation."""
    space: Any = wrapper.env.observation_space
    return dict(space.spaces)


def check_view(wrapper: Wrapper) -> Box:
    """The space of the inner environment's image. Raises ValueError if that is not the agent's view [V, V, 3]."""
    space = inner_spaces(wrapper)["image"]
    highest = level_of(wrapper).highest
    if not (isinstance(space, Box) and space.shape[2:] == (3,) and np.array_equal(space.bounds()[1][0, 0], highest)):
        raise ValueError(
            f"{type(wrapper).__name__} reads the agent's view [V, V, 3], but the image of {type(wrapper.env).__name__} "
            f"is {space.dtype}{list(space.shape)}: wrap the level itself, or ViewSize of it."
        )
    return space


def _check_level(wrapper: Any) -> None:
    try:
        level_of(wrapper.env)
    except TypeError as error:
        raise TypeError(f"{type(wrapper).__name__}: {error}") from None
