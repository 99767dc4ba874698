"""Missions of MiniGrid as text, for wrappers and programs that were written for MiniGrid."""

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from shoal.grid.level import Level
from shoal.grid.words import decode, vocabulary


class TextMissions(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """A Gymnasium wrapper: `obs["mission"]` is MiniGrid's text, "go to the red door", instead of word numbers.

    With it, wrappers of the package minigrid that read only observations (ImgObsWrapper, FlatObsWrapper,
    DictObservationSpaceWrapper, OneHotPartialObsWrapper, ReseedWrapper) can be put around shoal's environments.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        """Wrap an environment. Raises TypeError if its observations are no Dict with word numbers as "mission"."""
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        space = env.observation_space
        words = space.get("mission") if isinstance(space, spaces.Dict) else None
        if not isinstance(space, spaces.Dict) or not isinstance(words, spaces.MultiDiscrete):
            raise TypeError(f"TextMissions needs missions as word numbers, as shoal/MiniGrid-* have, and not {space}.")
        self._kinds = _kinds_of(env)
        longest = len(words.nvec) * (max(map(len, vocabulary(self._kinds))) + 1)
        text = spaces.Text(longest, min_length=0, charset=string.ascii_lowercase + " ,")
        self.observation_space = spaces.Dict({**space.spaces, "mission": text})

    def observation(self, observation: Any) -> Any:
        """The observation with the mission as text."""
        return {**observation, "mission": decode(np.asarray(observation["mission"], np.uint8), self._kinds)}


def _kinds_of(env: gymnasium.Env) -> Any:
    """The kinds of objects that the level inside an environment declares; none for environments of other libraries."""
    inside = getattr(env.unwrapped, "env", None)
    while inside is not None and not isinstance(inside, Level):
        inside = getattr(inside, "env", None)
    return () if inside is None else inside.kinds
