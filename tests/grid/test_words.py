"""Encoding and decoding missions as word numbers, against MiniGrid's missions and its vocabulary."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid.reference import make_reference
from shoal.core.keys import make_key
from shoal.core.registry import ENVS, make
from shoal.grid.cells import COLORS, OBJECTS
from shoal.grid.words import MINIGRID_SIZE, VOCABULARY, color_word, decode, encode, fill, object_word

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from minigrid.wrappers import DictObservationSpaceWrapper

# The WFC levels have one mission, and MiniGrid takes long to make them.
IDS = [name for name in ENVS if name.startswith("MiniGrid-") and "-WFC-" not in name]


def test_the_vocabulary_is_that_of_minigrids_wrapper():
    theirs = DictObservationSpaceWrapper.get_minigrid_words()  # numbered from 0; 1 is added when it writes a mission
    assert {word: number for number, word in enumerate(VOCABULARY[1:MINIGRID_SIZE])} == theirs


@pytest.mark.parametrize("env_id", IDS)
def test_missions_of_minigrid_are_encoded_and_decoded_without_loss(env_id):
    reference = make_reference(env_id)
    wrapper = DictObservationSpaceWrapper(reference)
    for seed in range(5):
        mission = reference.reset(seed=seed)[0]["mission"]
        assert decode(encode(mission)) == mission
        theirs = wrapper.string_to_indices(mission)
        np.testing.assert_array_equal(encode(mission, 50), theirs + [0] * (50 - len(theirs)))


def test_the_mission_describes_the_state():
    env = make("MiniGrid-DoorKey-5x5-v0")
    state = jax.jit(env.init)(make_key(0))
    assert env.mission_text(state) == "use the key to open the door and then get to the goal"


def test_templates_take_words_in_their_order():
    numbers = jax.jit(
        lambda c, k: fill("get the {} {}, then go to the {} door", color_word(c), object_word(k), color_word(c))
    )(jnp.int32(COLORS.index("grey")), jnp.int32(OBJECTS.index("ball")))
    assert decode(numbers) == "get the grey ball, then go to the grey door"


def test_words_of_colors_and_objects_are_their_names():
    assert [VOCABULARY[int(color_word(jnp.int32(i)))] for i in range(len(COLORS))] == list(COLORS)
    assert [VOCABULARY[int(object_word(jnp.int32(i)))] for i in range(len(OBJECTS))] == list(OBJECTS)


def test_padding_is_not_a_word():
    numbers = encode("reach the goal", 6)
    assert numbers.shape == (6,) and (numbers[3:] == 0).all() and decode(numbers) == "reach the goal"
    assert encode("").tolist() == [0] and decode(encode("")) == ""


def test_an_unknown_word_is_named():
    with pytest.raises(ValueError, match="'dragon' is unknown"):
        encode("get the dragon")


def test_a_text_that_is_longer_than_its_length_is_refused():
    with pytest.raises(ValueError, match="'go to the red ball' has 5 words, more than length=3"):
        encode("go to the red ball", 3)


@pytest.mark.parametrize(("numbers", "said"), [([1, 200], "200 is no word number"), ([-1], "-1 is no word number")])
def test_a_number_without_a_word_is_refused(numbers, said):
    with pytest.raises(ValueError, match=said):
        inspect.unwrap(decode)(np.array(numbers))


def test_several_missions_at_once_are_refused():
    with pytest.raises(ValueError, match=r"one mission \[L\], not an array of shape \(2, 3\)"):
        inspect.unwrap(decode)(np.zeros((2, 3), np.uint8))


def test_a_wrong_number_of_words_for_a_template_is_refused():
    with pytest.raises(ValueError, match="zip"):
        fill("go to the {} door")
