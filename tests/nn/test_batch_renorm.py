"""Batch renormalization against algorithm 1 of Ioffe 2017, written in NumPy, and the networks made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.spaces import Box
from shoal.nn.batch_renorm import Limits, apply_renorm, init_renorm, train_renorm, with_averages
from shoal.nn.renormed_network import RenormedCritics, RenormedNetwork
from shoal.nn.torsos import CNN, MLP
from weights import random_weights

EPS, ALPHA = 1e-3, 0.01


def layer_of(random, size=3):
    weights = {name: random.normal(size=size) for name in ("scale", "bias", "mean")}
    return {**weights, "std": random.uniform(0.5, 2, size)}


def ioffe(layer, x, scale, shift, corrections=None):
    """(y, averages): the algorithm; `corrections` are constants r and d of another batch."""
    mean, std = x.mean(axis=0), np.sqrt(x.var(axis=0) + EPS)
    if corrections is None:
        corrections = (
            np.minimum(np.maximum(std / layer["std"], 1 / scale), scale),
            np.minimum(np.maximum((mean - layer["mean"]) / layer["std"], -shift), shift),
        )
    r, d = corrections
    y = layer["scale"] * ((x - mean) / std * r + d) + layer["bias"]
    averages = {"mean": layer["mean"] + ALPHA * (mean - layer["mean"])}
    return y, averages | {"std": layer["std"] + ALPHA * (std - layer["std"])}, corrections


@pytest.mark.parametrize("limits", [(1, 0), (1.2, 0.1), (100, 100)])
def test_a_batch_is_normalized_as_in_the_paper(limits):
    random = np.random.default_rng(0)
    layer, x = layer_of(random), 3 * random.normal(size=(20, 3)) + 1
    padded = np.concatenate([x, np.full((4, 3), 1e3)])  # samples beyond the batch size, of weight 0
    weight = jnp.asarray(
        np.repeat([1 / 40, 0], [20, 4]), jnp.float32
    )  # as importance weights, which sum to less than 1
    layer32 = jax.tree.map(jnp.float32, layer)
    y, averages = train_renorm(layer32, jnp.float32(padded), weight, Limits(*map(jnp.float32, limits)))
    expected, known, _ = ioffe(layer, x, *limits)
    np.testing.assert_allclose(y[:20], expected, rtol=1e-4, atol=1e-4)
    for name, value in known.items():
        np.testing.assert_allclose(averages[name], value, rtol=1e-5)
    if limits == (100, 100):  # nothing is clipped: the moving averages normalize
        np.testing.assert_allclose(apply_renorm(layer32, jnp.float32(x)), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            apply_renorm(layer32, jnp.float32(x)),
            (x - layer["mean"]) / layer["std"] * layer["scale"] + layer["bias"],
            rtol=1e-4,
            atol=1e-4,
        )


def test_no_gradient_flows_through_the_corrections_and_averages():
    random = np.random.default_rng(1)
    layer, x, slope = layer_of(random), random.normal(size=(6, 3)), random.normal(size=(6, 3))
    limits = Limits(jnp.float32(3), jnp.float32(5))

    def loss(layer, x):
        return jnp.sum(jnp.float32(slope) * train_renorm(layer, x, jnp.full(6, 1 / 6), limits)[0])

    of_layer, of_x = jax.grad(loss, (0, 1))(jax.tree.map(jnp.float32, layer), jnp.float32(x))
    corrections = ioffe(layer, x, 3, 5)[2]
    known = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            ends.append((slope * ioffe(layer, moved, 3, 5, corrections)[0]).sum())
        known[at] = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(of_x, known, rtol=1e-3, atol=1e-4)
    assert not of_layer["mean"].any() and not of_layer["std"].any() and of_layer["scale"].all()


def test_the_averages_of_a_stopped_member_stay():
    weights = {"norm_0": init_renorm(2), "head": {"bias": jnp.zeros(1)}}
    new = {"norm_0": {"mean": jnp.full(2, np.nan), "std": jnp.full(2, np.nan)}}
    for is_stopped in (None, jnp.bool_(False), jnp.bool_(True)):
        after = with_averages(weights, new, is_stopped)
        assert after["head"] is weights["head"] and set(after["norm_0"]) == {"scale", "bias", "mean", "std"}
        assert bool(np.isfinite(after["norm_0"]["mean"]).all()) == (is_stopped is not None and bool(is_stopped))


def with_deviations(weights):
    """The weights with positive standard deviations."""
    return {k: v | {"std": jnp.abs(v["std"]) + 0.5} if "std" in v else v for k, v in weights.items()}


@pytest.mark.parametrize(
    ("torso", "space"),
    [(MLP((5, 4), "tanh"), Box(-1.0, 1.0, (3,))), (CNN((2,), (6,)), Box(0, 255, (4, 4, 1), np.uint8))],
)
def test_a_network_normalizes_its_inputs_and_every_layer(torso, space):
    network = RenormedNetwork(torso, space, outputs=2)
    critics = RenormedCritics(network._replace(outputs=1), count=3)
    random = np.random.default_rng(2)
    obs = jnp.asarray(random.uniform(0, 1, (8, *space.shape)) * space.high, space.dtype)
    action, weight = jnp.float32(random.normal(size=(8, 2))), jnp.full(8, 1 / 8)
    weights = random_weights(jax.eval_shape(network.init, make_key(0), obs, action))
    names = [name for name in weights if name.startswith("norm")]
    weights = with_deviations(weights)
    trained, averages = network.train(weights, obs, action, weight, Limits(1e9, 1e9))
    assert len(names) == (3 if isinstance(torso, MLP) else 2) and set(averages) == set(names)
    assert ("torso" in weights) != isinstance(torso, MLP)
    # Without limits a batch in training is normalized as when acting.
    np.testing.assert_allclose(trained, network(weights, obs, action), rtol=1e-3, atol=1e-3)
    without_action = jax.eval_shape(network.init, make_key(0), obs)
    assert without_action["norm_0"]["mean"].size + 2 == weights["norm_0"]["mean"].size

    many = with_deviations(random_weights(jax.eval_shape(critics.init, make_key(1), obs, action)))
    q_values, averages = critics.train(many, obs, action, weight, Limits(1, 0))
    assert q_values.shape == critics(many, obs, action).shape == (3, 8)
    assert all(x.shape[0] == 3 for x in jax.tree.leaves(averages))
    assert np.unique(np.asarray(q_values[:, 0])).size == 3
