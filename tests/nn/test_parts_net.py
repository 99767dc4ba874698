"""Torsos for images, alone and among other parts of an observation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete
from shoal.nn.actor_critic import ActorCritic
from shoal.nn.impala import ImpalaCNN
from shoal.nn.parts_net import PartsNet
from shoal.nn.torso_choice import default_torso, named_torso
from shoal.nn.torsos import CNN, MLP, NatureCNN
from weights import random_values, random_weights

PICTURE = Box(0, 255, (12, 9, 3), np.uint8)
MIXED = Dict({"picture": PICTURE, "speed": Box(-1.0, 1.0, (2,)), "words": MultiDiscrete((5, 7)), "mode": Discrete(3)})


def correlated(images, kernel, bias):
    """3 x 3 correlation of [H, W, C] with zeros around it."""
    padded = np.pad(images, [(1, 1), (1, 1), (0, 0)])
    rows, columns = images.shape[:2]
    windows = [padded[y : y + rows, x : x + columns] @ kernel[y, x] for y in range(3) for x in range(3)]
    return sum(windows) + bias


def test_impala_equals_a_numpy_version():
    net = ImpalaCNN(channels=(4,), hidden=())
    images = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)
    weights = random_weights(jax.eval_shape(net.init, make_key(1), images))
    layers = jax.tree.map(np.asarray, weights)["params"]
    found = jax.jit(net.apply)(weights, images)
    assert len(layers) == 5
    for image, flat in zip(images, np.asarray(found), strict=True):
        x = correlated(image, **layers["Conv_0"])
        padded = np.pad(x, [(0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
        x = np.stack([padded[y : y + 4 : 2, z : z + 6 : 2] for y in range(3) for z in range(3)]).max(axis=0)
        for block in (1, 3):
            change = correlated(np.maximum(x, 0), **layers[f"Conv_{block}"])
            x = x + correlated(np.maximum(change, 0), **layers[f"Conv_{block + 1}"])
        np.testing.assert_allclose(flat, np.maximum(x, 0).ravel(), rtol=1e-4, atol=1e-5)


def test_fifteen_convolutions_as_published():
    weights = jax.eval_shape(ImpalaCNN().init, make_key(0), jnp.zeros((96, 72, 3)))["params"]
    assert sum(name.startswith("Conv") for name in weights) == 15
    assert weights["MLP_0"]["Dense_0"]["kernel"].shape == (12 * 9 * 32, 256)


@pytest.mark.parametrize("axes", [(), (5,), (2, 3)])
def test_the_features_of_all_parts_are_concatenated(axes):
    net = PartsNet(MIXED, (8,))
    many = random_values(MIXED, axes)
    weights = random_weights(jax.eval_shape(net.init, make_key(1), many), deviation=0.02)
    # 10 x 7 pixels of 16 channels, 2 numbers, 5 + 7 words, 3 modes
    assert weights["params"]["MLP_0"]["Dense_0"]["kernel"].shape == (10 * 7 * 16 + 2 + 12 + 3, 8)
    first = jax.tree.map(lambda x: np.asarray(x)[(0,) * len(axes)], many)
    out, alone = jax.jit(lambda w, *x: [net.apply(w, obs) for obs in x])(weights, many, first)
    assert out.shape == (*axes, 8) and np.abs(out).max() > 0.1
    np.testing.assert_allclose(np.reshape(out, (-1, 8))[0], alone, atol=1e-5)


def test_a_picture_is_scaled_and_every_part_matters():
    net = PartsNet(MIXED, (8,), "tanh")
    obs, apply = random_values(MIXED), jax.jit(net.apply)
    weights = jax.jit(net.init)(make_key(1), obs)
    plain = apply(weights, obs)
    assert np.abs(plain).max() < 1  # brightness up to 255 would saturate it
    for name, part in MIXED.spaces:
        other = next(x for x in (random_values(part, seed=10 + i) for i in range(9)) if (x != obs[name]).any())
        assert not np.allclose(apply(weights, {**obs, name: other}), plain), name


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (PICTURE, CNN),
        (Box(0, 255, (84, 84, 4), np.uint8), NatureCNN),
        (Box(0, 255, (210, 35, 3), np.uint8), CNN),  # too narrow
        (MIXED, PartsNet),
        (Dict({"inner": MIXED}), PartsNet),
        (Box(0, 255, (2, 9, 3), np.uint8), MLP),  # no kernel fits
        (Dict({"strip": Box(0, 255, (2, 9, 3), np.uint8)}), MLP),
        (Box(0.0, 1.0, (4,)), MLP),
    ],
)
def test_images_get_a_convolutional_torso(space, kind):
    assert isinstance(default_torso(space, (8,), "tanh"), kind)


def test_pictures_among_other_parts_keep_their_convolutions_with_layer_norm():
    torso = default_torso(MIXED, (8,), "tanh", layer_norm=True)
    weights = jax.eval_shape(torso.init, make_key(1), random_values(MIXED))["params"]
    assert set(weights["CNN_0"]) == {"Conv_0", "LayerNorm_0"} and set(weights["MLP_0"]) == {"Dense_0", "LayerNorm_0"}
    plain = jax.eval_shape(default_torso(MIXED, (8,), "tanh").init, make_key(1), random_values(MIXED))["params"]
    assert set(plain["CNN_0"]) == {"Conv_0"} and set(plain["MLP_0"]) == {"Dense_0"}


def test_impala_normalizes_before_every_activation_where_asked():
    alone = jax.eval_shape(ImpalaCNN(layer_norm=True).init, make_key(0), jnp.zeros((12, 9, 3)))["params"]
    assert sum(name.startswith("LayerNorm") for name in alone) == 13  # two a block, and one behind them
    assert set(alone["MLP_0"]) == {"Dense_0", "LayerNorm_0"}
    torso = named_torso("impala", MIXED, (8,), "tanh", layer_norm=True)
    among = jax.eval_shape(torso.init, make_key(1), random_values(MIXED))["params"]["ImpalaCNN_0"]
    assert {name: x for name, x in alone.items() if name != "MLP_0"}.keys() == among.keys()


def test_the_network_for_atari_has_the_shapes_of_the_article():
    """Mnih et al. 2015: 84 x 84 x 4 -> 20 x 20 x 32 -> 9 x 9 x 64 -> 7 x 7 x 64 -> 512."""
    weights = jax.eval_shape(NatureCNN().init, make_key(0), jnp.zeros((84, 84, 4)))["params"]
    kernels = [weights[name]["kernel"].shape for name in ("Conv_0", "Conv_1", "Conv_2")]
    assert kernels == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64)]
    assert weights["MLP_0"]["Dense_0"]["kernel"].shape == (7 * 7 * 64, 512)


def test_large_images_among_other_parts_get_strides():
    space = Dict({"eye": Box(0, 255, (36, 40, 3), np.uint8), "speed": Box(0.0, 1.0, (2,))})
    torso = default_torso(space, (8,), "tanh")
    assert isinstance(torso, PartsNet) and torso.pictures == "nature"
    net = jax.eval_shape(torso.init, make_key(1), random_values(space))["params"]
    assert net["MLP_0"]["Dense_0"]["kernel"].shape == (64 + 2, 8)  # one position is left
    with pytest.raises(ValueError, match="torso='nature' needs images of at least 36 x 36, and they are smaller"):
        named_torso("nature", PICTURE, (8,), "tanh")


def test_torsos_have_names():
    assert named_torso("nature", Box(0, 255, (84, 84, 4), np.uint8), (8,), "tanh") == NatureCNN(
        hidden=(8,), activation="tanh"
    )
    assert isinstance(named_torso("impala", PICTURE, (8,), "tanh"), ImpalaCNN)
    assert isinstance(named_torso("mlp", PICTURE, (8,), "tanh"), MLP)
    assert named_torso("impala", MIXED, (8,), "tanh").pictures == "impala"
    with pytest.raises(ValueError, match="torso='cnn' needs images, and there are none in Box"):
        named_torso("cnn", Box(0.0, 1.0, (4,)), (8,), "tanh")
    with pytest.raises(ValueError, match="torso='impala' reads colors, and the images here hold categories"):
        named_torso("impala", Box(0, 5, (7, 7, 3), np.uint8), (8,), "tanh")


@pytest.mark.parametrize("pictures", ["cnn", pytest.param("impala", marks=pytest.mark.slow)])
def test_policy_and_value_networks_accept_images_among_other_parts(pictures):
    nets = ActorCritic(named_torso(pictures, MIXED, (8,), "tanh"), MIXED, Discrete(3))
    obs = random_values(MIXED, (4,))
    weights = random_weights(jax.eval_shape(nets.init, make_key(1), obs), deviation=0.02)
    policy, value = jax.jit(nets.policy_and_value)(weights, obs)
    assert policy.logits.shape == (4, 3) and value.shape == (4,) and len(set(value.tolist())) == 4
