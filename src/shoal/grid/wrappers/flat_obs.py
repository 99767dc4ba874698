"""Image and mission as one vector."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from shoal.core.env import State
from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.words import VOCABULARY
from shoal.grid.wrappers.base import LevelWrapper, inner_spaces

CHARACTERS = "abcdefghijklmnopqrstuvwxyz ,"
SPACE, COMMA, END = CHARACTERS.index(" "), VOCABULARY.index(","), len(CHARACTERS)


@struct
class FlatObs(LevelWrapper):
    """The image, cell by cell, then the mission's text: 28 zeros and ones for each of `max_length` characters.

    Raises ValueError for fewer characters than a mission may have (a level that does not write its `task` may have the
    longest words throughout), and for images that are not uint8. Source: MiniGrid 3.2.0, `FlatObsWrapper`.
    """

    max_length: int = static(96, help="characters of the mission that are kept")

    def __post_init__(self) -> None:
        needed = max(1, self.level.longest_mission)
        if self.max_length < needed:
            raise ValueError(f"max_length={self.max_length} cuts the mission off: it has up to {needed} characters.")
        spaces = inner_spaces(self) if hasattr(self.env.observation_space, "spaces") else {}
        if "image" not in spaces or spaces["image"].dtype != np.uint8:
            raise ValueError(
                f"FlatObs needs an image of bytes beside a mission, not {self.env.observation_space}: wrap the level "
                "itself, or something that shows its image as uint8."
            )

    @property
    def observation_space(self) -> Box:
        """One vector of bytes."""
        low, high = (side.ravel().tolist() for side in inner_spaces(self)["image"].bounds())
        letters = self.max_length * len(CHARACTERS)
        return Box((*low, *[0] * letters), (*high, *[1] * letters), (len(low) + letters,), "uint8")

    def observe(self, state: State) -> UInt8[Array, "n"]:
        """The vector."""
        seen = self.env.observe(state)
        text = characters(seen["mission"], self.max_length)
        letters = text[:, None] == np.arange(len(CHARACTERS), dtype=np.int32)[None]
        return jnp.concatenate([seen["image"].ravel(), letters.astype(jnp.uint8).ravel()])


def characters(mission: UInt8[Array, "L"], length: int) -> Int32[Array, "length"]:
    """The text of a mission, an index of `CHARACTERS` for each position, 28 where it has ended."""
    spelled, lengths = _spelling()
    words = mission.astype(jnp.int32)
    size = jnp.asarray(lengths).at[words].get(mode="promise_in_bounds")
    is_first = np.arange(mission.shape[0]) == 0
    gap = (~is_first & (words != 0) & (words != COMMA)).astype(jnp.int32)
    end = jnp.cumsum(gap + size)
    position = np.arange(length, dtype=np.int32)[:, None]
    within = (position >= (end - size)[None]) & (position < end[None])
    word = jnp.where(within, words[None], 0).sum(axis=1)
    letter = jnp.where(within, position - (end - size)[None], 0).sum(axis=1)
    found = jnp.asarray(spelled).at[word, letter].get(mode="promise_in_bounds")
    between = jnp.where(position[:, 0] < end[-1], SPACE, END)
    return jnp.where(within.any(axis=1), found, between).astype(jnp.int32)


def _spelling() -> tuple[Int32[np.ndarray, "words letters"], Int32[np.ndarray, "words"]]:
    lengths = np.array([len(word) for word in VOCABULARY], np.int32)
    spelled = np.zeros((len(VOCABULARY), lengths.max()), np.int32)
    for i, word in enumerate(VOCABULARY):
        spelled[i, : len(word)] = [CHARACTERS.index(letter) for letter in word]
    return spelled, lengths
