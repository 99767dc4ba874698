"""`ImgObs`: the image alone."""

from typing import Any

from jaxtyping import Array

from shoal.core.env import State
from shoal.core.spaces import Space
from shoal.core.struct import struct
from shoal.grid.wrappers.base import LevelWrapper, inner_spaces


@struct
class ImgObs(LevelWrapper):
    """The observation is the image, without direction and mission. Source: MiniGrid 3.2.0, `ImgObsWrapper`."""

    @property
    def observation_space(self) -> Space:
        """The space of the image."""
        return inner_spaces(self)["image"]

    def observe(self, state: State) -> Array:
        """The image."""
        inner_obs: dict[str, Any] = self.env.observe(state)
        return inner_obs["image"]
