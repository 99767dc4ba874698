"""Instructions in words: as word numbers inside `jit`, and from a text on the host.

The words are those of MiniGrid 3.2.0 (`envs/babyai/core/verifier.py`, `surface`): "put the ball next to a red box, then
open the door on your left". The article is "a" if the descriptor describes several objects at the start.
"""

import re
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, UInt8

from shoal.envs.babyai.instruction import (
    AFTER,
    ANY_COLOR,
    BEFORE,
    FIRST,
    GO_TO,
    KINDS,
    NONE,
    ONE,
    OPEN,
    PICK_UP,
    PUT_NEXT,
    SECOND,
    SIZE,
    VERB,
    Grammar,
    Instruction,
)
from shoal.grid.cells import COLORS, OBJECTS
from shoal.grid.words import VOCABULARY, encode

DOOR = OBJECTS.index("door")
VERB_PHRASES = {GO_TO: "go to", PICK_UP: "pick up", OPEN: "open", PUT_NEXT: "put"}
JOINTS = ("", ", then", "after you")  # before the second group, in the order of ONE, BEFORE, AFTER
PLACE_PHRASES = ("", "on your left", "on your right", "in front of you", "behind you")
LONGEST_PLACE = max(len(phrase.split()) for phrase in PLACE_PHRASES)
EXAMPLES = '"go to the red ball" or "open a door, then put the key next to a box"'
RULES = (
    'An action is "go to", "pick up" or "open" with an object, or "put" with an object "next to" another. An object '
    f'is "the" or "a", perhaps a color ({", ".join(COLORS)}), then one of '
    f"{', '.join(OBJECTS[kind] for kind in KINDS)}, object, and perhaps its place ({', '.join(PLACE_PHRASES[1:])})."
)


def longest_mission(grammar: Grammar) -> int:
    """The largest number of words of an instruction."""
    what = 3 + LONGEST_PLACE * grammar.places
    clause = max(len(VERB_PHRASES[verb].split()) + what + (verb == PUT_NEXT) * (2 + what) for verb in grammar.verbs)
    joints = grammar.groups * (grammar.parts - 1) + 2 * (grammar.groups - 1)
    return grammar.clauses * clause + joints


def longest_text(grammar: Grammar) -> int:
    """The largest number of characters of an instruction."""
    what = len("the yellow object") + grammar.places * (1 + max(map(len, PLACE_PHRASES)))
    clause = max(len(VERB_PHRASES[verb]) + 1 + what + (verb == PUT_NEXT) * (9 + what) for verb in grammar.verbs)
    joints = grammar.groups * (grammar.parts - 1) * len(" and ") + (grammar.groups - 1) * len(" after you ")
    return grammar.clauses * clause + joints


def words(instruction: Instruction, several: Bool[Array, "G P 2"], grammar: Grammar) -> UInt8[Array, "L"]:
    """The word numbers of an instruction [L]. `several`: which descriptors describe several objects at the start."""
    groups, parts = instruction.shape
    clauses = instruction.clauses
    verb = clauses[..., VERB]
    spoken = _phrase(verb, [VERB_PHRASES[i] if i in grammar.verbs else "" for i in range(PUT_NEXT + 1)])
    spoken += _descriptor_words(clauses[..., FIRST:SECOND], several[..., 0], verb != NONE, grammar)
    if PUT_NEXT in grammar.verbs:
        puts = verb == PUT_NEXT
        spoken += [jnp.where(puts, _word(word), np.uint8(0)) for word in ("next", "to")]
        spoken += _descriptor_words(clauses[..., SECOND:], several[..., 1], puts, grammar)
    # Before a second clause there is "and", before a second group ", then" or "after you".
    if parts > 1:
        is_second = np.arange(parts)[None] > 0
        spoken.insert(0, jnp.where(is_second & (verb != NONE), _word("and"), np.uint8(0)))
    if groups > 1:
        is_next = (np.arange(groups)[:, None] > 0) & (np.arange(parts)[None] == 0)
        spoken[:0] = [jnp.where(is_next, word, np.uint8(0)) for word in _phrase(instruction.order, JOINTS)]
    return _without_gaps(jnp.stack(spoken, axis=-1).reshape(-1), longest_mission(grammar))


def parse(text: str) -> Instruction:
    """The instruction of a text, in the words of the levels. Whether an article is "a" or "the" makes no difference.

    Raises ValueError for an unknown word, and for a text that is no instruction.

        parse("pick up the red ball after you open a door on your left")
    """
    if not isinstance(text, str):
        raise TypeError(f"an instruction is a text, as in {EXAMPLES}; {text!r:.60} is a {type(text).__name__}.")
    said = ["a" if word == "an" else word for word in text.lower().replace(",", " ").rstrip(" .!").split()]
    if unknown := [word for word in said if word not in VOCABULARY]:
        raise ValueError(f"instruction {text!r}: the word {unknown[0]!r} is unknown. {RULES}")
    spoken = " ".join(said)
    joints = [(f" {joint} ", order) for joint, order in ((JOINTS[BEFORE].strip(" ,"), BEFORE), (JOINTS[AFTER], AFTER))]
    [(joint, order), *_] = [pair for pair in joints if pair[0] in spoken] or [(None, ONE)]
    groups = [side.split(" and ") for side in (spoken.split(joint) if joint else [spoken])]
    if sum(spoken.count(joint) for joint, _ in joints) > 1 or max(map(len, groups)) > 2:
        raise ValueError(
            f'instruction {text!r}: too many actions. There are one or two, joined by "and"; then perhaps ", then" or '
            '"after you", and one or two more.'
        )
    groups = [[_parse_clause(part, text) for part in group] for group in groups]
    clauses = np.zeros((len(groups), max(map(len, groups)), SIZE), np.int8)
    for g, group in enumerate(groups):
        clauses[g, : len(group)] = group
    return Instruction(jnp.int8(order), jnp.asarray(clauses))


def described(kind: int, color: int, place: int = 0) -> str:
    """A descriptor in words without an article, such as "red ball on your left". Runs outside of compiled code."""
    words = ("" if color == ANY_COLOR else COLORS[color], OBJECTS[kind] if kind in KINDS else "object")
    return " ".join(word for word in (*words, PLACE_PHRASES[place]) if word)


def _descriptor_words(
    descriptor: Int8[Array, "G P 3"], several: Bool[Array, "G P"], is_used: Bool[Array, "G P"], grammar: Grammar
) -> list[UInt8[Array, "G P"]]:
    """The words of descriptors, with 0 for words that they do not have."""
    kind, color, place = (descriptor[..., i] for i in range(3))
    spoken = [
        jnp.where(several, _word("a"), _word("the")),
        *_phrase(color, (*COLORS, "")),
        *_phrase(kind, [name if i in KINDS else "object" for i, name in enumerate(OBJECTS)]),
        *(_phrase(place, PLACE_PHRASES) if grammar.places else []),
    ]
    return [jnp.where(is_used, word, np.uint8(0)) for word in spoken]


def _phrase(which: Int8[Array, "*n"], phrases: Sequence[str]) -> list[UInt8[Array, "*n"]]:
    """The words of phrase number `which`: an array for each position of the longest phrase; 0 after a shorter one."""
    longest = max(len(phrase.replace(",", ", ").split()) for phrase in phrases)
    table = np.stack([encode(phrase, max(longest, 1)) for phrase in phrases])
    return [jnp.asarray(table[:, i]).at[which].get(mode="promise_in_bounds") for i in range(longest)]


def _without_gaps(spoken: UInt8[Array, "n"], length: int) -> UInt8[Array, "length"]:
    """The words that are not 0, in their order, padded with 0 at the end."""
    is_word = spoken != 0
    position = jnp.cumsum(is_word, dtype=jnp.int32) - 1
    is_here = is_word[None, :] & (position[None, :] == np.arange(length, dtype=np.int32)[:, None])
    return jnp.sum(jnp.where(is_here, spoken[None, :], 0), axis=1, dtype=jnp.uint8)


def _word(word: str) -> np.uint8:
    return np.uint8(VOCABULARY.index(word))


_WHAT = (
    rf"(?:a|the) (?:({'|'.join(COLORS)}) )?(object|{'|'.join(OBJECTS[kind] for kind in KINDS)})"
    rf"(?: ({'|'.join(PLACE_PHRASES[1:])}))?"
)
_CLAUSE = re.compile(rf"(go to|pick up|open|put) {_WHAT}(?: next to {_WHAT})?")


def _parse_clause(spoken: str, text: str) -> list[int]:
    found = _CLAUSE.fullmatch(spoken)
    if found is None or (found[1] == "put") != (found[6] is not None):
        raise ValueError(f"instruction {text!r}: {spoken!r} is not an action. {RULES}")
    verb = next(number for number, phrase in VERB_PHRASES.items() if phrase == found[1])
    first, second = _parse_descriptor(*found.group(2, 3, 4)), _parse_descriptor(*found.group(5, 6, 7))
    if verb == OPEN and first[0] != DOOR:
        raise ValueError(f"instruction {text!r}: the agent can open only a door, not {found[3]!r}.")
    if verb in (PICK_UP, PUT_NEXT) and first[0] == DOOR:
        raise ValueError(f"instruction {text!r}: the agent can not pick up a door.")
    return [verb, 0, *first, *second]


def _parse_descriptor(color: str | None, kind: str | None, place: str | None) -> list[int]:
    return [
        0 if kind in (None, "object") else OBJECTS.index(kind),
        ANY_COLOR if color is None else COLORS.index(color),
        0 if place is None else PLACE_PHRASES.index(place),
    ]
