"""SimBa against the formulas of its paper in NumPy, and the sizes it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.dqn import DQN
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.nn.simba import Simba
from weights import random_weights


def numpy_simba(layers, x, blocks):
    def dense(i, x):
        return x @ np.asarray(layers[f"Dense_{i}"]["kernel"], np.float64) + np.asarray(layers[f"Dense_{i}"]["bias"])

    def normalized(i, x):
        scale, bias = (np.asarray(layers[f"LayerNorm_{i}"][name], np.float64) for name in ("scale", "bias"))
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * scale + bias

    x = dense(0, x)
    for i in range(blocks):
        x = x + dense(2 * i + 2, np.maximum(dense(2 * i + 1, normalized(i, x)), 0))
    return normalized(blocks, x)


def test_the_torso_equals_a_numpy_version():
    torso, x = Simba((5, 5)), np.random.default_rng(0).normal(size=(7, 3))
    weights = random_weights(jax.eval_shape(torso.init, make_key(0), jnp.zeros((7, 3))), deviation=1.0)
    assert weights["params"]["Dense_1"]["kernel"].shape == (5, 20)
    expected = numpy_simba(weights["params"], x, 2)
    np.testing.assert_allclose(torso.apply(weights, jnp.float32(x)), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("hidden", "instead"), [((120, 84), "(120, 120)"), ((), "(128,)")])
def test_blocks_of_different_sizes_are_refused(hidden, instead):
    with pytest.raises(ValueError) as error:
        DQN(torso="simba", hidden=hidden).bind(make("CartPole-v1"))
    assert f"hidden={hidden} does not fit torso='simba'" in str(error.value) and instead in str(error.value)


def test_layer_normalization_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="layer_norm=True changes nothing in this network, which normalizes"):
        DQN(torso="simba", hidden=(8, 8), layer_norm=True).bind(make("CartPole-v1"))
