"""Encoders of instructions equal a computation in NumPy, word by word; padding and batches change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.form import CPU, using
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.core.wrappers import FrameStack
from shoal.nn.instructions import ENCODERS, BagOfWords, WordGRU, has_text, is_text
from shoal.nn.parts_net import PartsNet
from shoal.nn.tiles import TileNet
from shoal.nn.torso_choice import default_torso, named_torso
from shoal.nn.torsos import MLP
from weights import random_values, random_weights

TEXT = MultiDiscrete((9,) * 4, np.uint8, text=True)
TILES = Box(0, (3, 2), (4, 5, 2), np.uint8)


def encoder_and_weights(name, seed=0):
    encoder = ENCODERS[name](vocabulary=9, size=6)
    return encoder, random_weights(jax.eval_shape(encoder.init, make_key(0), np.zeros(3, np.uint8)), 1.0, seed)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def read_by_gru(weights, words):
    """The GRU of Cho et al. 2014, with the reset gate applied after the product, for one text."""
    params = jax.tree.map(np.asarray, weights["params"])
    gru, hidden = params["gru"], np.zeros(6)
    for word in words:
        if word == 0:
            continue
        from_word = params["embedding"][word] @ gru["input"]["kernel"] + gru["input"]["bias"]
        from_hidden = hidden @ gru["recurrent"]
        reset, update = (sigmoid(from_word[i : i + 6] + from_hidden[i : i + 6]) for i in (0, 6))
        new = np.tanh(from_word[12:] + reset * from_hidden[12:])
        hidden = (1 - update) * new + update * hidden
    return hidden


def add_up(weights, words):
    return sum((np.asarray(weights["params"]["embedding"])[word] for word in words if word), np.zeros(6))


BY_HAND = {"gru": read_by_gru, "bow": add_up}


@pytest.mark.parametrize("name", ENCODERS)
def test_the_vector_of_a_text_of_ten_words_is_small_at_first(name):
    encoder = ENCODERS[name](vocabulary=40, size=64)
    text = jnp.arange(1, 11)
    of_seeds = jax.vmap(lambda key: encoder.apply(encoder.init(key, text), text))(jax.random.split(make_key(0), 20))
    assert 0.1 < np.asarray(of_seeds).std() < 0.5


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_equals_numpy_and_skips_padding_wherever_it_is(name):
    encoder, weights = encoder_and_weights(name)
    apply = jax.jit(encoder.apply)
    texts = np.array([[3, 1, 4], [1, 5, 0], [0, 8, 2], [6, 0, 6], [0, 0, 0]], np.uint8)
    expected = np.stack([BY_HAND[name](weights, text) for text in texts])
    np.testing.assert_allclose(apply(weights, texts), expected, atol=1e-5)
    longer = np.pad(texts, ((0, 0), (0, 4)))
    np.testing.assert_array_equal(apply(weights, longer), apply(weights, texts))


@pytest.mark.parametrize("name", ENCODERS)
def test_a_batch_of_texts_is_encoded_as_each_text_alone(name):
    encoder, weights = encoder_and_weights(name)
    texts = np.random.default_rng(1).integers(0, 9, (2, 2, 5)).astype(np.uint8)
    batch, alone = (jax.jit(f)(weights, texts) for f in (encoder.apply, apply_one_by_one(encoder)))
    assert batch.shape == (2, 2, 6)
    np.testing.assert_allclose(batch, alone, atol=1e-6)


def apply_one_by_one(encoder):
    return lambda weights, texts: jnp.stack(
        [jnp.stack([encoder.apply(weights, text) for text in row]) for row in texts]
    )


def test_only_the_gru_reads_the_order_of_words():
    texts = np.array([[1, 2, 3], [3, 1, 2]], np.uint8)
    for name, order_counts in (("gru", True), ("bow", False)):
        encoder, weights = encoder_and_weights(name)
        one, other = jax.jit(encoder.apply)(weights, texts)
        assert np.allclose(one, other, atol=1e-6) != order_counts


def test_the_weights_of_an_encoder_do_not_depend_on_the_length_of_texts():
    for kind in (WordGRU, BagOfWords):
        short, long = (jax.eval_shape(kind(9).init, make_key(0), np.zeros(n, np.uint8)) for n in (1, 72))
        assert short == long


def test_words_that_are_not_read_get_no_gradient():
    encoder, weights = encoder_and_weights("gru")
    loss = jax.jit(jax.grad(lambda weights: encoder.apply(weights, jnp.array([2, 0, 5], jnp.uint8)).sum()))
    changed = np.abs(loss(weights)["params"]["embedding"]).sum(axis=1) > 0
    assert np.flatnonzero(changed).tolist() == [2, 5]


def test_missions_that_differ_between_episodes_are_texts():
    for name, differs in (("MiniGrid-GoToDoor-5x5-v0", True), ("MiniGrid-Empty-5x5-v0", False)):
        space = make(name).observation_space
        assert is_text(space["mission"]) == has_text(space) == differs


def test_stacked_texts_are_a_text():
    assert FrameStack(make("Probe-Instruction-v0"), 2).observation_space == MultiDiscrete((3,) * 6, np.uint8, text=True)


@pytest.mark.parametrize(
    ("space", "torso"),
    [
        (TEXT, PartsNet),
        (Tuple((Box(-1, 1, (2,)), TEXT)), PartsNet),
        (Dict({"image": Box(0, 255, (4, 5, 3), np.uint8), "mission": TEXT}), PartsNet),
        (Dict({"image": TILES, "mission": TEXT}), TileNet),
        (MultiDiscrete((9,) * 4, np.uint8), MLP),
    ],
)
def test_a_text_is_read_by_an_encoder(space, torso):
    chosen = default_torso(space, (8,), "tanh")
    assert type(chosen) is torso
    weights = jax.eval_shape(chosen.init, make_key(0), random_values(space) if torso is not MLP else jnp.zeros(36))
    assert ("WordGRU_0" in weights["params"]) == has_text(space)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_parts_net_appends_the_encoded_text_to_the_other_parts(encoder):
    space = Dict({"at": Box(-1, 1, (2,)), "mission": TEXT})
    obs = random_values(space)
    net = PartsNet(space, (5,), "tanh", encoder=encoder)
    weights = random_weights(jax.eval_shape(net.init, make_key(0), obs))
    params, kind = weights["params"], type(ENCODERS[encoder](9)).__name__
    text = ENCODERS[encoder](9).apply({"params": params[f"{kind}_0"]}, obs["mission"])
    dense = jax.tree.map(np.asarray, params["MLP_0"]["Dense_0"])
    expected = np.tanh(np.concatenate([obs["at"], text]) @ dense["kernel"] + dense["bias"])
    np.testing.assert_allclose(jax.jit(net.apply)(weights, obs), expected, atol=1e-5)


def test_a_tile_net_adds_the_encoded_text_where_it_adds_a_direction():
    space = Dict({"direction": Discrete(4), "image": TILES, "mission": TEXT})
    obs = random_values(space)
    net = TileNet(space, (5,), "tanh", channels=3)
    weights = random_weights(jax.eval_shape(net.init, make_key(0), obs))
    params = weights["params"]
    text = WordGRU(9).apply({"params": params["WordGRU_0"]}, obs["mission"]) @ params["Dense_0"]["kernel"]
    # The same sum comes from a direction whose row of weights has it added, with no text at all.
    moved = params["ChoiceDense_0"]["kernel"].at[int(obs["direction"])].add(text)
    alone = Dict({"direction": Discrete(4), "image": TILES})
    same = params | {"ChoiceDense_0": {"kernel": moved}, "Dense_0": params["Dense_1"]}
    expected = jax.jit(TileNet(alone, (5,), "tanh", channels=3).apply)({"params": same}, obs)
    np.testing.assert_allclose(jax.jit(net.apply)(weights, obs), expected, atol=1e-5)


def test_a_tile_net_by_name_reads_words_by_their_position():
    space = Dict({"image": TILES, "mission": TEXT})
    weights = jax.eval_shape(named_torso("tiles", space, (8,), "relu").init, make_key(0), random_values(space))
    assert weights["params"]["ChoiceDense_0"]["kernel"].shape == (4 * 9, 8 + 2 * 16)


def test_bad_texts_and_encoders_are_refused():
    with pytest.raises(ValueError, match=r"a text has one vocabulary for all its words, but the sizes are \(3, 4\)"):
        MultiDiscrete((3, 4), text=True)
    with pytest.raises(ValueError, match="encoder='lstm' is unknown. Choose one of gru, bow, positions"):
        TileNet(TILES, encoder="lstm")
    with pytest.raises(ValueError, match="encoder='positions' is unknown. Choose one of gru, bow"):
        PartsNet(TEXT, encoder="positions")


@pytest.mark.parametrize("axes", [(100,), (5, 20), (33,)])
def test_texts_that_samples_share_are_read_once_with_the_same_result_and_gradient(axes):
    encoder, weights = encoder_and_weights("gru")
    rng = np.random.default_rng(0)
    texts = jnp.asarray(rng.integers(0, 9, (4, 6))[rng.integers(0, 4, axes)], jnp.uint8)
    both = jax.value_and_grad(lambda w: (encoder.apply(w, texts) ** 2).sum())
    with using(CPU):
        once = jax.jit(both)(weights)
        assert "while" in str(jax.make_jaxpr(both)(weights))  # the loop over distinct texts
    with using(CPU._replace(texts_once=False)):
        every = jax.jit(both)(weights)
        assert "while" not in str(jax.make_jaxpr(both)(weights))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4), once, every)
