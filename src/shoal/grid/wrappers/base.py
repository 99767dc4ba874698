"""What the wrappers of tile worlds share: they look at the level inside, however deep, and at its state."""

import abc
from typing import Any, ClassVar

import numpy as np

from shoal.core.env import Env, Observation, State
from shoal.core.spaces import Box, Dict, Space
from shoal.core.struct import struct
from shoal.core.wrappers.base import StatefulWrapper, Wrapper
from shoal.grid.cells import HIGHEST
from shoal.grid.level import GridState, Level


@struct
class LevelWrapper(Wrapper):
    """A wrapper around a level, or around wrappers of one. Raises TypeError where there is no level inside."""

    def __post_init__(self) -> None:
        _check_level(self)

    @property
    def level(self) -> Level:
        """The level inside."""
        return level_of(self.env)


@struct
class StatefulLevelWrapper(StatefulWrapper):
    """A wrapper with a memory around a level. Raises TypeError where there is no level inside."""

    def __post_init__(self) -> None:
        _check_level(self)

    @property
    def level(self) -> Level:
        """The level inside."""
        return level_of(self.env)


@struct
class PartWrapper(LevelWrapper):
    """Changes one part of what is observed, or adds one. Subclasses write `name`, `part_space` and `part`.

    Raises TypeError around an environment whose observation is no dict any more.
    """

    name: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if not isinstance(self.env.observation_space, Dict):
            raise TypeError(
                f"{type(self).__name__} changes a part of what {type(self.env).__name__} shows, which is no dict: "
                f"write {type(self.env).__name__}({type(self).__name__}(...)), the other way round."
            )

    @property
    @abc.abstractmethod
    def part_space(self) -> Space:
        """Where the part lies."""

    @abc.abstractmethod
    def part(self, state: GridState, seen: dict[str, Any]) -> Any:
        """The part, from the level's state and all that is observed without this wrapper."""

    @property
    def observation_space(self) -> Dict:
        """The dict inside, with the part."""
        return Dict({**dict(inner_spaces(self)), self.name: self.part_space})

    def observe(self, state: State) -> Observation:
        """What is seen inside, with the part."""
        seen: dict[str, Any] = self.env.observe(state)
        return {**seen, self.name: self.part(grid_state(state), seen)}


def level_of(env: Env) -> Level:
    """The level inside an environment. Raises TypeError where there is none."""
    inside: Any = env
    while not isinstance(inside, Level):
        if not hasattr(inside, "env"):
            raise TypeError(f"{type(inside).__name__} is no tile world: wrap a Level, such as Empty or DoorKey.")
        inside = inside.env
    return inside


def grid_state(state: State) -> GridState:
    """The level's state inside the states of wrappers."""
    inside: Any = state
    while not isinstance(inside, GridState):
        inside = inside.inner
    return inside


def inner_spaces(wrapper: Wrapper) -> dict[str, Any]:
    """The named parts of what the environment inside shows."""
    space: Any = wrapper.env.observation_space
    return dict(space.spaces)


def check_view(wrapper: Wrapper) -> Box:
    """The space of the partial view inside. Raises ValueError where another image took its place."""
    space = inner_spaces(wrapper)["image"]
    if not (isinstance(space, Box) and space.shape[2:] == (3,) and np.array_equal(space.bounds()[1][0, 0], HIGHEST)):
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
