"""Missions: the words of instructions, their longest lengths, and instructions from a text."""

import jax.numpy as jnp
import numpy as np
import pytest

from shoal.envs.babyai.instruction import (
    AFTER,
    ANY_COLOR,
    BEFORE,
    GO_TO,
    OPEN,
    PICK_UP,
    PUT_NEXT,
    Grammar,
    after,
    before,
    descriptor,
    go_to,
    one,
    open_door,
    padded,
    pair,
    pick_up,
    put_next,
)
from shoal.envs.babyai.mission import longest_mission, longest_text, parse, words
from shoal.grid.words import VOCABULARY, decode

EVERYTHING = Grammar((GO_TO, PICK_UP, OPEN, PUT_NEXT), groups=2, parts=2, places=True)
DOOR, KEY, BALL, BOX = 4, 5, 6, 7
LEFT, FRONT = 1, 3
RED, GREEN = 0, 1


def spoken(instruction, several=False):
    articles = jnp.full((2, 2, 2), several)
    return decode(words(padded(instruction, 2, 2), articles, EVERYTHING))


def test_each_verb_and_place_is_spoken():
    assert spoken(one(go_to(descriptor(BALL, RED)))) == "go to the red ball"
    assert spoken(one(pick_up(descriptor(KEY, place=LEFT))), several=True) == "pick up a key on your left"
    assert spoken(one(open_door(descriptor(DOOR, GREEN, 2)))) == "open the green door on your right"
    assert (
        spoken(one(put_next(descriptor(0, 5, FRONT), descriptor(BOX, place=4))))
        == "put the grey object in front of you next to the box behind you"
    )


def test_groups_are_joined_as_they_are_spoken():
    both = pair(go_to(descriptor(BALL)), open_door(descriptor(DOOR)))
    last = padded(one(pick_up(descriptor(KEY, 4))), 1, 2)
    assert spoken(both) == "go to the ball and open the door"
    assert spoken(before(both, last)) == "go to the ball and open the door, then pick up the yellow key"
    assert spoken(after(last, both)) == "pick up the yellow key after you go to the ball and open the door"


@pytest.mark.parametrize(
    ("grammar", "most"),
    [
        (Grammar((GO_TO,)), 5),
        (Grammar((PUT_NEXT,)), 9),
        (EVERYTHING._replace(groups=1, parts=1), 17),
        (Grammar((GO_TO,), groups=2, parts=2), 24),
        (EVERYTHING, 72),
    ],
)
def test_the_longest_missions_are_counted(grammar, most):
    assert longest_mission(grammar) == most


def test_the_longest_text_is_that_of_the_longest_instruction():
    what = descriptor(0, 4, FRONT)  # "the yellow object in front of you"
    clause = put_next(what, what)
    text = spoken(after(pair(clause, clause), pair(clause, clause)))
    assert len(text) == longest_text(EVERYTHING) and len(text.replace(",", " ,").split()) == 72
    assert len("go to the yellow object") == longest_text(Grammar((GO_TO,)))


@pytest.mark.parametrize(
    "text",
    [
        "go to the red ball",
        "pick up the grey object behind you",
        "open the door, then put the key next to the box in front of you",
        "pick up the ball on your left and go to the door after you open the purple door and pick up the box",
    ],
)
def test_a_text_becomes_the_instruction_that_it_was_made_of(text):
    assert spoken(parse(text)) == text


def test_a_parsed_instruction_has_the_numbers_of_its_words():
    instruction = parse("Open a red door after you put the ball on your left next to a object")
    assert int(instruction.order) == AFTER and instruction.shape == (2, 1)
    np.testing.assert_array_equal(
        instruction.clauses[:, 0],
        [[OPEN, 0, DOOR, RED, 0, 0, ANY_COLOR, 0], [PUT_NEXT, 0, BALL, ANY_COLOR, LEFT, 0, ANY_COLOR, 0]],
    )
    assert int(parse("go to a key then go to a box").order) == BEFORE  # the comma may be left out
    for text in ("pick up an object.", "Pick up the object!", "pick up a object"):
        np.testing.assert_array_equal(parse(text).clauses[0, 0], [PICK_UP, 0, 0, ANY_COLOR, 0, 0, ANY_COLOR, 0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("go to the pink ball", "the word 'pink' is unknown"),
        ("go to the wall", "'go to the wall' is not an action. An action is"),
        ("open the box", "can open only a door, not 'box'"),
        ("pick up a door", "can not pick up a door"),
        ("put the ball next to", "is not an action"),
        ("go to the ball next to the box", "is not an action"),
        ("go to a ball and go to a key and go to a box", "too many actions"),
        ("go to a ball, then go to a key, then go to a box", "too many actions"),
        ("go to a ball, then go to a key after you go to a box", "too many actions"),
        ("", "'' is not an action"),
    ],
)
def test_a_text_that_is_no_instruction_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_words_of_minigrid_keep_their_numbers():
    assert VOCABULARY[:4] == ("", "red", "green", "blue") and VOCABULARY.index("maze") == 51
    assert VOCABULARY[52:] == ("after", "behind", "front", "in", "left", "next", "on", "right", "your")
