"""Torsos for pictures: alone, and among other parts of an observation."""

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
from shoal.nn.torsos import CNN, MLP

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
    images = jax.random.normal(make_key(0), (2, 4, 6, 3))
    weights = net.init(make_key(1), images)
    layers = jax.tree.map(lambda x: np.asarray(x) + 0.1, weights)["params"]
    found = net.apply({"params": layers}, images)
    assert len(layers) == 5
    for image, flat in zip(np.asarray(images), found, strict=True):
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
def test_parts_are_read_beside_each_other(axes):
    net = PartsNet(MIXED, (8,))
    obs = [MIXED.sample(k) for k in jax.random.split(make_key(0), 6)]
    many = jax.tree.map(lambda *x: jnp.stack(x)[: int(np.prod(axes))].reshape(*axes, *x[0].shape), *obs)
    weights = net.init(make_key(1), many)
    # 10 x 7 pixels of 16 channels, 2 numbers, 5 + 7 words, 3 modes
    assert weights["params"]["MLP_0"]["Dense_0"]["kernel"].shape == (10 * 7 * 16 + 2 + 12 + 3, 8)
    out = net.apply(weights, many)
    assert out.shape == (*axes, 8)
    np.testing.assert_allclose(out.reshape(-1, 8)[0], net.apply(weights, obs[0]), atol=1e-5)


def test_a_picture_is_scaled_and_every_part_matters():
    net = PartsNet(MIXED, (8,), "tanh")
    obs = MIXED.sample(make_key(0))
    weights = net.init(make_key(1), obs)
    plain = net.apply(weights, obs)
    assert np.abs(plain).max() < 1  # brightness up to 255 would saturate it
    for name, part in MIXED.spaces:
        other = next(x for x in map(part.sample, jax.random.split(make_key(2), 9)) if (x != obs[name]).any())
        assert not np.allclose(net.apply(weights, {**obs, name: other}), plain), name


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (PICTURE, CNN),
        (MIXED, PartsNet),
        (Dict({"inner": MIXED}), PartsNet),
        (Box(0, 255, (2, 9, 3), np.uint8), MLP),  # no kernel fits
        (Dict({"strip": Box(0, 255, (2, 9, 3), np.uint8)}), MLP),
        (Box(0.0, 1.0, (4,)), MLP),
    ],
)
def test_pictures_get_convolutions(space, kind):
    assert isinstance(default_torso(space, (8,), "tanh"), kind)


def test_pictures_among_other_parts_keep_their_convolutions_with_layer_norm():
    torso = default_torso(MIXED, (8,), "tanh", layer_norm=True)
    weights = torso.init(make_key(1), MIXED.sample(make_key(0)))["params"]
    assert set(weights["CNN_0"]) == {"Conv_0", "LayerNorm_0"} and set(weights["MLP_0"]) == {"Dense_0", "LayerNorm_0"}
    plain = default_torso(MIXED, (8,), "tanh").init(make_key(1), MIXED.sample(make_key(0)))["params"]
    assert set(plain["CNN_0"]) == {"Conv_0"} and set(plain["MLP_0"]) == {"Dense_0"}


def test_impala_normalizes_before_every_activation_where_asked():
    alone = jax.eval_shape(ImpalaCNN(layer_norm=True).init, make_key(0), jnp.zeros((12, 9, 3)))["params"]
    assert sum(name.startswith("LayerNorm") for name in alone) == 13  # two a block, and one behind them
    assert set(alone["MLP_0"]) == {"Dense_0", "LayerNorm_0"}
    torso = named_torso("impala", MIXED, (8,), "tanh", layer_norm=True)
    among = jax.eval_shape(torso.init, make_key(1), MIXED.sample(make_key(0)))["params"]["ImpalaCNN_0"]
    assert {name: x for name, x in alone.items() if name != "MLP_0"}.keys() == among.keys()


def test_torsos_have_names():
    assert isinstance(named_torso("impala", PICTURE, (8,), "tanh"), ImpalaCNN)
    assert isinstance(named_torso("mlp", PICTURE, (8,), "tanh"), MLP)
    assert named_torso("impala", MIXED, (8,), "tanh").pictures == "impala"
    with pytest.raises(ValueError, match="torso='cnn' needs pictures, and there are none in Box"):
        named_torso("cnn", Box(0.0, 1.0, (4,)), (8,), "tanh")
    with pytest.raises(ValueError, match="torso='impala' reads colors, and the images here hold categories"):
        named_torso("impala", Box(0, 5, (7, 7, 3), np.uint8), (8,), "tanh")


@pytest.mark.parametrize("pictures", ["cnn", "impala"])
def test_policy_and_value_read_pictures_among_other_parts(pictures):
    nets = ActorCritic(named_torso(pictures, MIXED, (8,), "tanh"), MIXED, Discrete(3))
    obs = jax.tree.map(lambda *x: jnp.stack(x), *map(MIXED.sample, jax.random.split(make_key(0), 4)))
    policy, value = nets.both(nets.init(make_key(1), obs), obs)
    assert policy.logits.shape == (4, 3) and value.shape == (4,) and len(set(value.tolist())) == 4
