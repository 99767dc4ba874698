"""The network of BabyAI 1.1 equals the same formula in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete
from shoal.nn.film import FiLM, FiLMNet
from shoal.nn.instructions import ENCODERS
from shoal.nn.torso_choice import named_torso
from weights import random_values, random_weights

SPACE = Dict(
    {
        "direction": Discrete(4, "uint8"),
        "image": Box(0, (3, 2), (4, 5, 2), np.uint8),
        "mission": MultiDiscrete((9,) * 3, np.uint8, text=True),
    }
)


def convolved(x, layer):
    """Correlation of [W, H, C] with [3, 3, C, F]; the image is padded with zeros."""
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    out = np.zeros((*x.shape[:2], layer["kernel"].shape[-1]))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = np.einsum("ijc,ijcf->f", padded[i : i + 3, j : j + 3], layer["kernel"])
    return out + layer["bias"]


def normed(x, layer):
    """Layer normalization over the last axis."""
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * layer["scale"] + layer["bias"]


def relu(x):
    return np.maximum(x, 0)


def film(x, instruction, params):
    scale, shift = (instruction @ params[name]["kernel"] + params[name]["bias"] for name in ("scale", "shift"))
    x = relu(normed(convolved(x, params["Conv_0"]), params["LayerNorm_0"]))
    return relu(normed(scale * convolved(x, params["Conv_1"]) + shift, params["LayerNorm_1"]))


def test_film_scales_and_shifts_channels_as_the_instruction_says():
    random = np.random.default_rng(0)
    x, instruction = random.normal(size=(2, 4, 5, 6)), random.normal(size=(2, 6))
    x, instruction = x.astype(np.float32), instruction.astype(np.float32)
    weights = random_weights(jax.eval_shape(FiLM(6).init, make_key(0), x, instruction), 0.5)
    params = jax.tree.map(np.asarray, weights["params"])
    expected = [film(image, vector, params) for image, vector in zip(x, instruction, strict=True)]
    np.testing.assert_allclose(jax.jit(FiLM(6).apply)(weights, x, instruction), expected, atol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_network_equals_numpy(encoder):
    net = FiLMNet(SPACE, channels=6, hidden=(5,), encoder=encoder)
    obs = random_values(SPACE, (2, 3))
    weights = random_weights(jax.eval_shape(net.init, make_key(0), obs), 0.5)
    params = jax.tree.map(np.asarray, weights["params"])
    result = jax.jit(net.apply)(weights, obs)
    assert result.shape == (2, 3, 5)
    for index in ((0, 0), (1, 2)):
        image, mission, direction = (np.asarray(obs[name])[index] for name in ("image", "mission", "direction"))
        kind = ENCODERS[encoder](9, 6)
        vector = np.asarray(kind.apply({"params": weights["params"][f"{type(kind).__name__}_0"]}, jnp.asarray(mission)))
        table = params["Embedding_0"]["embedding"]  # 4 categories of the first channel, then 3 of the second
        x = table[image[..., 0]] + table[4 + image[..., 1].astype(int)]
        for i in (0, 1):
            x = relu(normed(convolved(x, params[f"Conv_{i}"]), params[f"LayerNorm_{i}"]))
        for i in (0, 1):
            x = x + film(x, vector, params[f"FiLM_{i}"])
        features = np.concatenate([x.max((0, 1)), np.eye(4)[direction]])
        dense = params["MLP_0"]["Dense_0"]
        np.testing.assert_allclose(result[index], np.tanh(features @ dense["kernel"] + dense["bias"]), atol=1e-3)


def test_the_name_film_gives_the_published_sizes():
    space = make("MiniGrid-GoToDoor-5x5-v0").observation_space
    net = named_torso("film", space, (128, 64), "tanh")
    assert net == FiLMNet(space) and (net.channels, net.hidden) == (128, (64,))
    params = jax.eval_shape(net.init, make_key(0), random_values(space))["params"]
    # Convolutions 3 x 3, 128 to 128 channels; cells of 11 objects, 6 colors and 3 states; 4 directions beside 128.
    assert params["Conv_1"]["kernel"].shape == params["FiLM_1"]["Conv_1"]["kernel"].shape == (3, 3, 128, 128)
    assert params["Embedding_0"]["embedding"].shape == (11 + 6 + 3, 128)
    assert params["WordGRU_0"]["gru"]["recurrent"].shape == (128, 3 * 128)
    assert params["MLP_0"]["Dense_0"]["kernel"].shape == (128 + 4, 64)


def test_observations_without_an_image_and_an_instruction_are_refused():
    for name, counts in (("MiniGrid-Empty-5x5-v0", "1 and 0"), ("CartPole-v1", "0 and 0")):
        with pytest.raises(ValueError, match=f"torso='film' reads one image of categories .* there are {counts} in"):
            named_torso("film", make(name).observation_space, (8, 8), "tanh")
    with pytest.raises(ValueError, match=r"hidden=\(\) leaves no channels .* give hidden=\(128, 64\)"):
        named_torso("film", SPACE, (), "tanh")
