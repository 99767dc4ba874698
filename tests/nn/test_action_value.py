"""Ensembles of critics against the same critics applied one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete
from shoal.nn.action_value import Critics
from shoal.nn.torsos import CNN, MLP
from weights import random_values, random_weights

VECTOR, IMAGE = Box(-1.0, 1.0, (3,)), Box(0, 255, (6, 6, 1), np.uint8)


def drawn(space, action_space, torso, count=2):
    critics = Critics(torso, space, action_space, count)
    obs, action = random_values(space, (5,)), random_values(action_space, (5,), seed=1)
    return critics, random_weights(jax.eval_shape(critics.init, make_key(0), obs, action)), obs, action


def one(weights, k):
    return jax.tree.map(lambda x: np.asarray(x[k], np.float64), weights)


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def test_critics_of_numbers_read_the_action_in_the_units_of_its_box():
    critics, weights, obs, action = drawn(VECTOR, Box(0.0, 10.0, (2,)), MLP((8,), "relu"))
    weights = jax.jit(critics.init)(make_key(0), obs, action)
    q_values = jax.jit(critics.__call__)(weights, obs, action)
    assert q_values.shape == (2, 5) and not np.allclose(q_values[0], q_values[1])  # each its own draw
    joined = np.concatenate([np.asarray(obs), np.asarray(action)], axis=1)
    for k in range(2):
        w = one(weights, k)
        hidden = np.maximum(dense(w["torso"]["params"]["Dense_0"], joined), 0)
        np.testing.assert_allclose(q_values[k], dense(w["head"], hidden)[:, 0], rtol=1e-4, atol=1e-5)


def test_critics_of_choices_value_all_of_them():
    critics, weights, obs, action = drawn(VECTOR, Discrete(4), MLP((8,), "relu"))
    chosen, every = map(np.asarray, jax.jit(lambda w: (critics(w, obs, action), critics.every(w, obs)))(weights))
    assert every.shape == (2, 5, 4)
    np.testing.assert_array_equal(chosen, every[:, np.arange(5), np.asarray(action)])
    w = one(weights, 1)
    hidden = np.maximum(dense(w["torso"]["params"]["Dense_0"], np.asarray(obs)), 0)
    np.testing.assert_allclose(every[1], dense(w["head"], hidden), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_critics_of_images_read_the_action_behind_their_torso(count):
    critics, weights, obs, action = drawn(IMAGE, Box(-1.0, 1.0, (2,)), CNN((2,), (8,)), count)
    last = count - 1

    @jax.jit
    def both(weights):
        torso = jax.tree.map(lambda x: x[last], weights["torso"])
        return critics(weights, obs, action), CNN((2,), (8,)).apply(torso, obs.astype(jnp.float32) / 255)

    q_values, hidden = both(weights)
    assert q_values.shape == (count, 5)
    w = one(weights, last)
    joint = dense(w["joint"]["params"]["Dense_0"], np.concatenate([hidden, np.asarray(action)], axis=1))
    np.testing.assert_allclose(q_values[last], dense(w["head"], np.maximum(joint, 0))[:, 0], rtol=1e-4, atol=1e-5)
