"""SimBa and SimBa V2 against the formulas of their papers in NumPy, and the sizes they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.dqn import DQN
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.nn.simba import Simba
from shoal.nn.simba_v2 import SimbaV2
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


def numpy_simba_v2(layers, x, blocks):
    def unit(x, axis=-1):
        return x / np.linalg.norm(x, axis=axis, keepdims=True)

    def dense(i, x):
        return x @ unit(np.asarray(layers[f"UnitDense_{i}"]["kernel"], np.float64), 0)

    def scaled(i, x, ratio=1.0):
        return x * np.asarray(layers[f"Scale_{i}"]["scale"], np.float64) * ratio

    x = unit(np.concatenate([x, np.full((len(x), 1), 3.0)], axis=1))
    x = unit(scaled(0, dense(0, x)))
    for i in range(blocks):
        towards = unit(dense(2 * i + 2, np.maximum(scaled(2 * i + 1, dense(2 * i + 1, x)), 0) + 1e-8))
        x = unit(x + scaled(2 * i + 2, towards - x, ratio=np.sqrt(x.shape[1]) / (blocks + 1)))
    return x


def v2_weights(hidden, features):
    torso = SimbaV2(hidden)
    return torso, torso.init(make_key(0), jnp.zeros((1, features)))


def test_version_2_equals_a_numpy_version():
    torso, weights = v2_weights((5, 5), 3)
    weights = random_weights(weights, deviation=1.0)
    x = np.random.default_rng(0).normal(size=(7, 3))
    assert weights["params"]["UnitDense_1"]["kernel"].shape == (5, 20)
    expected = numpy_simba_v2(weights["params"], x, 2)
    np.testing.assert_allclose(torso.apply(weights, jnp.float32(x)), expected, rtol=1e-3, atol=1e-5)


def test_version_2_begins_with_the_factors_of_the_paper():
    _, weights = v2_weights((8, 8), 3)
    first = {name: float(layer["scale"][0]) for name, layer in weights["params"].items() if "scale" in layer}
    of_units, inner, share = np.sqrt(2 / 8), np.sqrt(2 / 8) / 2, np.sqrt(1 / 8)
    expected = [of_units, inner, share, inner, share]
    np.testing.assert_allclose([first[f"Scale_{i}"] for i in range(5)], expected, rtol=1e-6)


def test_in_version_2_only_the_direction_of_a_weight_vector_counts():
    torso, weights = v2_weights((4,), 3)
    x = jnp.asarray([[1.0, -2.0, 0.5]])
    longer = jax.tree_util.tree_map_with_path(lambda path, w: w * 7 if "kernel" in str(path) else w, weights)
    np.testing.assert_allclose(torso.apply(longer, x), torso.apply(weights, x), atol=1e-6)
    along = jax.grad(lambda w: torso.apply(w, x)[0, 0])(weights)["params"]["UnitDense_0"]["kernel"]
    kernel = weights["params"]["UnitDense_0"]["kernel"]
    np.testing.assert_allclose(jnp.sum(along * kernel, axis=0), jnp.zeros(4), atol=1e-6)  # at right angles


def test_in_version_2_zeros_and_huge_features_have_finite_gradients():
    torso, weights = v2_weights((4,), 3)
    for x in (jnp.zeros((2, 3)), jnp.full((2, 3), 1e15)):
        gradient = jax.grad(lambda w, x=x: torso.apply(w, x).sum())(weights)
        assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradient))
        np.testing.assert_allclose(jnp.linalg.norm(torso.apply(weights, x), axis=-1), 1.0, rtol=1e-5)
    zeroed = jax.tree.map(jnp.zeros_like, weights)  # no direction: zeros, not NaN
    assert float(jnp.abs(torso.apply(zeroed, jnp.ones((1, 3)))).max()) == 0


@pytest.mark.parametrize("torso", ["simba", "simbav2"])
@pytest.mark.parametrize(("hidden", "instead"), [((120, 84), "(120, 120)"), ((), "(128,)")])
def test_blocks_of_different_sizes_are_refused(hidden, instead, torso):
    with pytest.raises(ValueError) as error:
        DQN(torso=torso, hidden=hidden).bind(make("CartPole-v1"))
    assert f"hidden={hidden} does not fit torso={torso!r}" in str(error.value) and instead in str(error.value)


@pytest.mark.parametrize("torso", ["simba", "simbav2"])
def test_layer_normalization_of_another_kind_is_refused(torso):
    with pytest.raises(ValueError, match="layer_norm=True changes nothing in this network, which normalizes"):
        DQN(torso=torso, hidden=(8, 8), layer_norm=True).bind(make("CartPole-v1"))
