"""Missions as text and as word numbers: the vocabulary, and templates with slots.

A mission is an array of word numbers, padded with 0 at its end, so that it can be made inside `jit`. A word number is
an index of `VOCABULARY`. It begins with the words of MiniGrid's `DictObservationSpaceWrapper`, in its order, which are
those of the `MiniGrid-*` levels; BabyAI's instructions have a few more. The names of kinds that a level declares are
the last; the functions below take these kinds as `kinds`.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from shoal.grid.cells import COLORS, OBJECTS, Cell, Kinds, color_of, object_of

PADDING = ""
_MINIGRID_WORDS = (
    PADDING,
    *("red", "green", "blue", "yellow", "purple", "grey"),
    *("unseen", "empty", "wall", "floor", "box", "key", "ball", "door", "goal", "agent", "lava"),
    *("pick", "avoid", "get", "find", "put", "use", "open", "go", "fetch", "reach", "unlock", "traverse"),
    *("up", "the", "a", "at", ",", "square", "and", "then", "to", "of", "rooms", "near", "opening", "must", "you"),
    *("matching", "end", "hallway", "object", "from", "room", "maze"),
)
VOCABULARY = (*_MINIGRID_WORDS, "after", "behind", "front", "in", "left", "next", "on", "right", "your")
MINIGRID_SIZE = len(_MINIGRID_WORDS)  # the missions of the `MiniGrid-*` levels have only word numbers below it

LONGEST_WORD = max(map(len, VOCABULARY))
LONGEST_SLOT = max(map(len, (*COLORS, *OBJECTS)))  # a slot is filled with a color or an object

_COLOR_WORDS = np.array([VOCABULARY.index(name) for name in COLORS], np.uint8)


def vocabulary(kinds: Kinds = ()) -> tuple[str, ...]:
    """`VOCABULARY`, and then the names of the kinds that a level declares."""
    return (*VOCABULARY, *(kind.name for kind in kinds))


def color_word(color: Cell | Int[Array, ""]) -> UInt8[Array, ""]:
    """The word number of a color, which is an index of `COLORS`."""
    return jnp.asarray(_COLOR_WORDS).at[color].get(mode="promise_in_bounds")


def object_word(number: Cell | Int[Array, ""], kinds: Kinds = ()) -> UInt8[Array, ""]:
    """The word number of an object, which is an index of `OBJECTS` or the code of one of `kinds`."""
    return jnp.asarray(_object_words(kinds)).at[number].get(mode="promise_in_bounds")


@functools.cache
def _object_words(kinds: Kinds) -> UInt8[np.ndarray, "codes"]:
    words = np.zeros(max([len(OBJECTS), *(kind.code + 1 for kind in kinds)]), np.uint8)
    for code, name in [*enumerate(OBJECTS), *((kind.code, kind.name) for kind in kinds)]:
        words[code] = vocabulary(kinds).index(name)
    return words


def look_words(thing: Cell, kinds: Kinds = ()) -> tuple[UInt8[Array, ""], UInt8[Array, ""]]:
    """The word numbers of a cell: (its color, its object)."""
    return color_word(color_of(thing)), object_word(object_of(thing), kinds)


def encode(text: str, length: int | None = None, kinds: Kinds = ()) -> UInt8[np.ndarray, "L"]:
    """The word numbers of a text, padded to `length`; a slot `{}` becomes 0.

    Raises ValueError for an unknown word, and for more than `length` words; a comma is a word.
    """
    words, known = text.replace(",", " , ").split(), vocabulary(kinds)
    for word in words:
        if word not in known and word != "{}":
            names = "".join(f", {kind.name}" for kind in kinds)
            names = f", and the level has{names[1:]}" if names else ""
            raise ValueError(
                f"mission {text!r}: the word {word!r} is unknown. shoal.grid.words.VOCABULARY has all words{names}."
            )
    if length is not None and len(words) > length:
        raise ValueError(f"mission {text!r} has {len(words)} words, more than length={length}.")
    numbers = [0 if word == "{}" else known.index(word) for word in words]
    return np.array(numbers + [0] * ((length or max(1, len(words))) - len(numbers)), np.uint8)


def fill(text: str, *slots: UInt8[Array, ""], length: int | None = None, kinds: Kinds = ()) -> UInt8[Array, "L"]:
    """The word numbers of a template with its slots filled: `fill("go to the {} door", color_word(c))`."""
    numbers = jnp.asarray(encode(text, length, kinds))
    positions = [i for i, word in enumerate(text.replace(",", " , ").split()) if word == "{}"]
    for position, word in zip(positions, slots, strict=True):
        numbers = jnp.where(np.arange(numbers.shape[0]) == position, word, numbers)
    return numbers


def decode(numbers: UInt8[Array, "L"] | UInt8[np.ndarray, "L"], kinds: Kinds = ()) -> str:
    """The text of a mission, without its padding. Runs outside of compiled code.

    Raises ValueError for several missions at once, and for a number that is not an index of the vocabulary.
    """
    numbers, words = np.asarray(numbers), vocabulary(kinds)
    if numbers.ndim != 1:
        raise ValueError(f"decode takes the word numbers of one mission [L], not an array of shape {numbers.shape}.")
    if invalid := [number for number in numbers.tolist() if not 0 <= number < len(words)]:
        raise ValueError(f"{invalid[0]} is no word number: they are from 0 to {len(words) - 1}.")
    return " ".join(words[i] for i in numbers if i).replace(" ,", ",")
