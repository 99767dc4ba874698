"""`DictObservationSpace`: missions of the same length in all levels."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from shoal.core.spaces import MultiDiscrete
from shoal.core.struct import static, struct
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper


@struct
class DictObservationSpace(PartWrapper):
    """Pads the mission with 0 to `max_words` word numbers, so that one agent can play several levels.

    Without this wrapper a mission has only as many numbers as its level needs. The vocabulary is fixed. Raises
    ValueError if a mission may have more than `max_words` words. Source: MiniGrid 3.2.0, `DictObservationSpaceWrapper`.
    """

    name: ClassVar[str] = "mission"

    max_words: int = static(50, help="words of the padded mission")

    def __post_init__(self) -> None:
        needed = self.level.mission_length
        if self.max_words < needed:
            raise ValueError(
                f"max_words={self.max_words} is too small: missions of this level have up to {needed} words."
            )

    @property
    def part_space(self) -> MultiDiscrete:
        """`max_words` word numbers."""
        return MultiDiscrete((self.level.num_words,) * self.max_words, "uint8", text=True)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> UInt8[Array, "max_words"]:
        """The padded mission."""
        del state
        mission = inner_obs["mission"]
        return jnp.pad(mission, (0, self.max_words - mission.shape[0]))
