"""The torso for grid worlds equals a convolution and dense layers of one-hot categories, computed in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.nn.actor_critic import ActorCritic
from shoal.nn.tiles import ChoiceDense, TileConv, TileNet, has_tiles, is_tiles
from shoal.nn.torso_choice import default_torso
from shoal.nn.torsos import CNN, MLP
from weights import random_values, random_weights

TILES = Box(0, (10, 5, 2), (7, 7, 3), np.uint8)


def one_hot(values, sizes):
    """[..., n] integers to [..., sum(sizes)]."""
    return np.concatenate([np.eye(size)[values[..., i]] for i, size in enumerate(sizes)], axis=-1)


def convolved(cells, kernel, stride):
    """Correlation of [W, H, C] with [k, k, C, F], zeros beyond the far edges so that every cell is reached."""
    k = kernel.shape[0]
    beyond = [(0, max(k - n, (k - n) % stride)) for n in cells.shape[:2]]
    cells = np.pad(cells, [*beyond, (0, 0)])
    w, h = ((n - k) // stride + 1 for n in cells.shape[:2])
    out = np.zeros((w, h, kernel.shape[-1]))
    for x in range(w):
        for y in range(h):
            patch = cells[x * stride : x * stride + k, y * stride : y * stride + k]
            out[x, y] = np.einsum("ijc,ijcf->f", patch, kernel)
    return out


@pytest.mark.parametrize(
    ("width", "height", "kernel", "stride"), [(7, 7, 3, 2), (5, 8, 3, 2), (2, 4, 3, 1), (6, 6, 2, 2)]
)
def test_row_lookup_equals_a_convolution_of_one_hot_categories(width, height, kernel, stride):
    rng = np.random.default_rng(0)
    sizes = (11, 6, 3)
    tiles = np.stack([rng.integers(0, n, (4, width, height)) for n in sizes], axis=-1).astype(np.uint8)
    conv = TileConv(sizes, 5, kernel, stride)
    weights = random_weights(jax.eval_shape(conv.init, make_key(0), tiles))
    weights["params"]["bias"] = jnp.arange(5.0)
    matrix = np.asarray(weights["params"]["kernel"]).reshape(kernel, kernel, 20, 5)
    expected = [convolved(one_hot(image, sizes), matrix, stride) + np.arange(5.0) for image in tiles]
    np.testing.assert_allclose(jax.jit(conv.apply)(weights, tiles), np.stack(expected), atol=1e-5)


def test_row_lookup_equals_a_dense_layer_of_one_hot_categories():
    choices = np.array([[0, 3, 1], [2, 0, 0]], np.uint8)
    layer = ChoiceDense((3, 4, 2), 5)
    weights = random_weights(jax.eval_shape(layer.init, make_key(0), choices))
    expected = one_hot(choices, (3, 4, 2)) @ np.asarray(weights["params"]["kernel"])
    np.testing.assert_allclose(jax.jit(layer.apply)(weights, choices), expected, atol=1e-6)


def test_words_share_an_embedding_at_every_position():
    layer = ChoiceDense((5, 5, 5), 4)
    weights = random_weights(jax.eval_shape(layer.init, make_key(0), np.zeros(3, np.uint8)))
    weights["params"]["kernel"] = jnp.zeros((15, 4))
    apply = jax.jit(layer.apply)
    here, there = (apply(weights, np.asarray(words, np.uint8)) for words in ([1, 3, 0], [3, 0, 1]))
    rows = np.asarray(weights["params"]["anywhere"])
    np.testing.assert_allclose(here, rows[1] + rows[3] + rows[0], atol=1e-6)
    np.testing.assert_allclose(here, there, atol=1e-6)


@pytest.mark.parametrize("cell_channels", [0, 5])
def test_a_tile_net_reads_every_part_of_an_observation(cell_channels):
    space = Dict({"image": TILES, "at": Tuple((Discrete(4), Box(-1, 1, (2,)))), "mission": MultiDiscrete((9, 9))})
    obs = random_values(space)
    net = TileNet(space, (8, 6), "tanh", cell_channels=cell_channels)
    weights = jax.jit(net.init)(make_key(1), obs)["params"]  # biases 0
    leaf = {name: jax.tree.map(np.asarray, part) for name, part in weights.items()}
    kernel = leaf["TileConv_0"]["kernel"].reshape(3, 3, 20, 16)
    direction = np.eye(4)[obs["at"][0]] @ leaf["ChoiceDense_0"]["kernel"]
    words = one_hot(np.asarray(obs["mission"]), (9, 9))
    table = leaf["ChoiceDense_1"]["kernel"] + np.tile(leaf["ChoiceDense_1"]["anywhere"], (2, 1))
    chosen, scale, shift = np.split(direction + words @ table, (8, 24))
    maps = np.tanh(convolved(one_hot(np.asarray(obs["image"]), (11, 6, 3)), kernel, 2) * (1 + scale) + shift)
    if cell_channels:
        maps = np.tanh(maps @ leaf["Dense_0"]["kernel"])
    first_layer = leaf["Dense_1" if cell_channels else "Dense_0"]["kernel"]
    numbers = np.concatenate([np.asarray(obs["at"][1]), maps.ravel()]) @ first_layer
    hidden = np.tanh(np.tanh(numbers + chosen) @ leaf["MLP_0"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(jax.jit(net.apply)({"params": weights}, obs), hidden, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_policy_and_value_read_tiles_under_any_leading_axes(shared):
    space = Dict({"image": TILES, "direction": Discrete(4, "uint8")})
    nets = ActorCritic(default_torso(space, (8,), "relu"), space, Discrete(7), shared)
    many = random_values(space, (2, 3))
    one = jax.tree.map(lambda x: np.asarray(x)[1, 2], many)
    weights = random_weights(jax.eval_shape(nets.init, make_key(1), many), deviation=0.2)
    (policy, value), (one_policy, one_value) = jax.jit(lambda w, *x: [nets.policy_and_value(w, obs) for obs in x])(
        weights, many, one
    )
    assert policy.logits.shape == (2, 3, 7) and value.shape == (2, 3)
    np.testing.assert_allclose(policy.logits[1, 2], one_policy.logits, atol=1e-6)
    np.testing.assert_allclose(value[1, 2], one_value, atol=1e-6)


@pytest.mark.parametrize(
    ("space", "torso"),
    [
        (TILES, TileNet),
        (Dict({"image": TILES, "direction": Discrete(4)}), TileNet),
        (Tuple((Discrete(2), Dict({"map": TILES}))), TileNet),
        (Box(0, 255, (7, 7, 3), np.uint8), CNN),
        (Box(0, 1, (10, 10, 4), np.bool_), CNN),
        (Box(0, 1, (7, 7, 20), np.uint8), CNN),  # already one-hot: more looks than a table should hold
        (Box(0, (10, 5, 2), (147, 3), np.uint8), MLP),
        (Box(0, 5, (7, 7, 3)), CNN),
        (Box(-1, 5, (7, 7, 1), np.int8), CNN),
        (Dict({"x": Box(0, 1, (3,)), "direction": Discrete(4)}), MLP),
    ],
)
def test_the_torso_is_chosen_from_the_observation_space(space, torso):
    assert type(default_torso(space, (8,), "tanh")) is torso
    assert has_tiles(space) == (torso is TileNet) and is_tiles(space) == (space == TILES)


def test_minigrid_is_read_with_the_fields_of_the_agent():
    torso = default_torso(make("MiniGrid-DoorKey-8x8-v0").observation_space, (32, 16), "silu")
    assert isinstance(torso, TileNet) and (torso.hidden, torso.activation) == ((32, 16), "silu")


def test_a_tile_net_without_layers_is_refused():
    for torso in (lambda: TileNet(TILES, ()), lambda: default_torso(TILES, (), "tanh")):
        with pytest.raises(ValueError, match=r"hidden=\(\) leaves no layer to read images of categories with"):
            torso()
