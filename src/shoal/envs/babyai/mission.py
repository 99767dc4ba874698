"""Instructions in words: as word numbers inside `jit`, and from a text on the host.

The words are those of MiniGrid 3.2.0 (`envs/babyai/core/verifier.py`, `surface`): "put the ball next to a red box, then
open the door on your left". The article is "a" if the descriptor describes several objects at the start.
"""

import re

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

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
    Clause,
    Grammar,
    Instruction,
)
from shoal.grid.cells import COLORS, OBJECTS
from shoal.grid.words import VOCABULARY, color_word, encode

DOOR = OBJECTS.index("door")
VERB_PHRASES = {GO_TO: "go to", PICK_UP: "pick up", OPEN: "open", PUT_NEXT: "put"}
PLACE_PHRASES = ("", "on your left", "on your right", "in front of you", "behind you")
LONGEST_PLACE = max(len(phrase.split()) for phrase in PLACE_PHRASES)
EXAMPLES = '"go to the red ball" or "open a door, then put the key next to a box"'


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
    spoken = []
    for g in range(groups):
        for p in range(parts):
            if p > 0:
                spoken.append(jnp.where(instruction.clauses[g, p, VERB] == NONE, 0, _word("and")))
            spoken += _clause_words(instruction.clauses[g, p], several[g, p], grammar)
        if g < groups - 1:
            spoken += _phrase(instruction.order, ("", ", then", "after you"))
    return _without_gaps(jnp.stack([jnp.asarray(word).astype(jnp.uint8) for word in spoken]), longest_mission(grammar))


def parse(text: str) -> Instruction:
    """The instruction of a text, in the words of the levels. Whether an article is "a" or "the" makes no difference.

    Raises ValueError for an unknown word, and for a text that is no instruction.

        parse("pick up the red ball after you open a door on your left")
    """
    encode(text.lower())  # raises ValueError for an unknown word
    spoken = " ".join(text.lower().replace(",", " ").split())
    sides, order = [spoken], ONE
    for joint, number in (("then", BEFORE), ("after you", AFTER)):
        if f" {joint} " in spoken:
            sides, order = spoken.split(f" {joint} "), number
    groups = [[_parse_clause(part, text) for part in side.split(" and ")] for side in sides]
    if len(groups) > 2 or max(map(len, groups)) > 2:
        raise ValueError(
            f'instruction {text!r}: an instruction has at most two groups, joined by ", then" or "after you", and a '
            'group at most two clauses, joined by "and".'
        )
    clauses = np.zeros((len(groups), max(map(len, groups)), SIZE), np.int8)
    for g, group in enumerate(groups):
        clauses[g, : len(group)] = group
    return Instruction(jnp.int8(order), jnp.asarray(clauses))


def _clause_words(clause: Clause, several: Bool[Array, "2"], grammar: Grammar) -> list:
    """The words of a clause, with 0 for words that it does not have."""
    verb = clause[VERB]
    spoken = _phrase(verb, [VERB_PHRASES.get(i, "") for i in range(PUT_NEXT + 1)], kept=grammar.verbs)
    spoken += _descriptor_words(clause, FIRST, several[0], verb != NONE, grammar)
    if PUT_NEXT in grammar.verbs:
        puts = verb == PUT_NEXT
        spoken += [jnp.where(puts, _word(word), 0) for word in ("next", "to")]
        spoken += _descriptor_words(clause, SECOND, several[1], puts, grammar)
    return spoken


def _descriptor_words(
    clause: Clause, begin: int, several: Bool[Array, ""], is_used: Bool[Array, ""], grammar: Grammar
) -> list:
    kind, color, place = clause[begin], clause[begin + 1], clause[begin + 2]
    kinds = jnp.asarray([_word("object") if i not in KINDS else _word(name) for i, name in enumerate(OBJECTS)])
    has_color = color != ANY_COLOR
    spoken = [
        jnp.where(several, _word("a"), _word("the")),
        jnp.where(has_color, color_word(jnp.where(has_color, color, 0).astype(jnp.int32)), 0),
        kinds[kind],
    ]
    if grammar.places:
        spoken += _phrase(place, PLACE_PHRASES)
    return [jnp.where(is_used, word, 0) for word in spoken]


def _phrase(which: Int[Array, ""], phrases: tuple[str, ...] | list[str], kept: tuple[int, ...] | None = None) -> list:
    # The words of phrase number `which`: one for each position of the longest phrase of those that are kept.
    phrases = [phrase if kept is None or i in kept else "" for i, phrase in enumerate(phrases)]
    longest = max(len(phrase.replace(",", ", ").split()) for phrase in phrases)
    table = np.stack([encode(phrase, longest)[:longest] for phrase in phrases])
    return [jnp.asarray(table[:, i])[which] for i in range(longest)]


def _without_gaps(spoken: UInt8[Array, "n"], length: int) -> UInt8[Array, "length"]:
    # The words that are not 0, in their order, at the front.
    is_word = spoken != 0
    position = jnp.cumsum(is_word) - 1
    is_here = is_word[None, :] & (position[None, :] == np.arange(length)[:, None])
    return jnp.sum(jnp.where(is_here, spoken[None, :], 0), axis=1, dtype=jnp.uint8)


def _word(word: str) -> int:
    return VOCABULARY.index(word)


_WHAT = (
    rf"(?:a|the) (?:({'|'.join(COLORS)}) )?(object|{'|'.join(OBJECTS[kind] for kind in KINDS)})"
    rf"(?: ({'|'.join(PLACE_PHRASES[1:])}))?"
)
_CLAUSE = re.compile(rf"(go to|pick up|open|put) {_WHAT}(?: next to {_WHAT})?")


def _parse_clause(spoken: str, text: str) -> list[int]:
    found = _CLAUSE.fullmatch(spoken)
    if found is None or (found[1] == "put") != (found[6] is not None):
        raise ValueError(f"instruction {text!r}: {spoken!r} is not a clause. Write, for example, {EXAMPLES}.")
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
