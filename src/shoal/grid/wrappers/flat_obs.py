"""`FlatObs`: image and mission as one vector."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from shoal.core.env import State
from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.grid.words import VOCABULARY, vocabulary
from shoal.grid.wrappers.base import LevelWrapper, inner_spaces

CHARACTERS = "abcdefghijklmnopqrstuvwxyz ,"
SPACE, COMMA, END = CHARACTERS.index(" "), VOCABULARY.index(","), len(CHARACTERS)


@struct
class FlatObs(LevelWrapper):
    """One uint8 vector: the flat image, then the first `max_length` characters of the mission, one-hot (28 each).

    Raises ValueError if a mission may have more characters (for a level without `task`, every word is assumed to be as
    long as the longest one), and for an image that is not uint8. Source: MiniGrid 3.2.0, `FlatObsWrapper`.
    """

    max_length: int = static(96, help="characters of the mission that are kept")

    def __post_init__(self) -> None:
        needed = max(1, self.level.longest_mission)
        if self.max_length < needed:
            raise ValueError(
                f"max_length={self.max_length} is too small: missions of this level have up to {needed} characters."
            )
        spaces = inner_spaces(self) if hasattr(self.env.observation_space, "spaces") else {}
        if "image" not in spaces or spaces["image"].dtype != np.uint8:
            raise ValueError(
                f"FlatObs needs a dict with a uint8 image and a mission, not {self.env.observation_space}: wrap the "
                "level itself, or a wrapper whose image is uint8."
            )

    @property
    def observation_space(self) -> Box:
        """One uint8 vector."""
        low, high = (side.ravel().tolist() for side in inner_spaces(self)["image"].bounds())
        letters = self.max_length * len(CHARACTERS)
        return Box((*low, *[0] * letters), (*high, *[1] * letters), (len(low) + letters,), "uint8")

    def observe(self, state: State) -> UInt8[Array, "n"]:
        """The vector of image and mission."""
        inner_obs = self.env.observe(state)
        text = characters(inner_obs["mission"], self.max_length, vocabulary(self.level.kinds))
        letters = text[:, None] == np.arange(len(CHARACTERS), dtype=np.int32)[None]
        return jnp.concatenate([inner_obs["image"].ravel(), letters.astype(jnp.uint8).ravel()])


def characters(mission: UInt8[Array, "L"], length: int, known: tuple[str, ...] = VOCABULARY) -> Int32[Array, "length"]:
    """The text of a mission of `known` words: for each position an index of `CHARACTERS`, or 28 after the end."""
    spelled, lengths = _spelling(known)
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


def _spelling(known: tuple[str, ...]) -> tuple[Int32[np.ndarray, "words letters"], Int32[np.ndarray, "words"]]:
    lengths = np.array([len(word) for word in known], np.int32)
    spelled = np.zeros((len(known), lengths.max()), np.int32)
    for i, word in enumerate(known):
        spelled[i, : len(word)] = [CHARACTERS.index(letter) for letter in word]
    return spelled, lengths
