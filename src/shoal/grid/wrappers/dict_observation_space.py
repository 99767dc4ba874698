"""Missions of one length in all levels."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from shoal.core.spaces import MultiDiscrete
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.words import VOCABULARY
from shoal.grid.wrappers.base import PartWrapper


@struct
class DictObservationSpace(PartWrapper):
    """The mission as `max_words` word numbers, with 0 after its end, so that agents may move between levels.

    A level's own mission is the same numbers, as few as that level needs. The vocabulary is fixed. Raises ValueError
    where a mission may have more words. Source: MiniGrid 3.2.0, `DictObservationSpaceWrapper`.
    """

    name: ClassVar[str] = "mission"

    max_words: int = static(50, help="words of the mission")

    def __post_init__(self) -> None:
        needed = self.level.mission_length
        if self.max_words < needed:
            raise ValueError(f"max_words={self.max_words} are too few: missions here have up to {needed} words.")

    @property
    def part_space(self) -> MultiDiscrete:
        """Word numbers."""
        return MultiDiscrete((len(VOCABULARY),) * self.max_words, "uint8")

    def part(self, state: GridState, seen: dict[str, Any]) -> UInt8[Array, "max_words"]:
        """The mission, padded."""
        del state
        mission = seen["mission"]
        return jnp.pad(mission, (0, self.max_words - mission.shape[0]))
