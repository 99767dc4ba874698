"""Observations of every space are converted to the vectors that networks read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.nn.actor_critic import ActorCritic
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.torso_choice import default_torso
from weights import random_values, random_weights

SPACES = [
    Discrete(3),
    MultiDiscrete((2, 3)),
    MultiDiscrete((4, 4, 4)),
    Box(-1, 1, (4,)),
    Box(0, 255, (6, 6, 3), np.uint8),
    Box(0, 1, (5, 5, 2), np.bool_),
    Tuple((Discrete(2), Box(0, 1, (2,)))),
    Dict({"image": Box(0, 255, (3, 3, 1), np.uint8), "direction": Discrete(4)}),
]


def test_discrete_observations_are_one_hot_and_parts_are_concatenated():
    space = Dict({"b": Box(0, 1, (2,)), "a": Discrete(3)})
    got = flat_features(space, {"a": jnp.int32(1), "b": jnp.asarray([0.5, 0.25])})
    assert got.tolist() == [0, 1, 0, 0.5, 0.25]


@pytest.mark.parametrize("nvec, expected", [((2, 3), [0, 1, 0, 0, 1]), ((3, 3), [0, 1, 0, 0, 0, 1])])
def test_multi_discrete_observations_are_concatenated_one_hot_vectors(nvec, expected):
    assert flat_features(MultiDiscrete(nvec), jnp.asarray([1, 2])).tolist() == expected


def test_uint8_images_are_scaled_and_flags_are_not():
    assert image_features(Box(0, 255, (1, 1, 1), np.uint8), jnp.full((1, 1, 1), 255, jnp.uint8)).item() == 1.0
    assert image_features(Box(0, 1, (1, 1, 1), np.bool_), jnp.ones((1, 1, 1), bool)).item() == 1.0


def test_uint8_is_divided_by_its_bound_and_normalized_inputs_are_not():
    assert flat_features(Box(0, 1, (2,), np.uint8), jnp.asarray([0, 1], jnp.uint8)).tolist() == [0, 1]
    assert flat_features(Box(0, 10, (2,), np.uint8), jnp.asarray([5, 10], jnp.uint8)).tolist() == [0.5, 1]
    normalized = jnp.asarray([-1.5, 2.0])
    assert flat_features(Box(0, 255, (2,), np.uint8), normalized).tolist() == [-1.5, 2.0]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("shared", [False, True])
def test_networks_accept_any_observation_with_any_leading_axes(space, shared):
    nets = ActorCritic(default_torso(space, (8,), "tanh"), space, Discrete(2), shared)
    one = random_values(space)
    stacked = jax.tree.map(lambda x: np.broadcast_to(x, (3, 5, *x.shape)), one)

    @jax.jit
    def found(weights, one, stacked):
        many = {"logits": nets.policy(weights, stacked).logits, "value": nets.value(weights, stacked)}
        return *nets.policy_and_value(weights, one), many

    policy, value, many = found(random_weights(jax.eval_shape(nets.init, make_key(1), one)), one, stacked)
    assert policy.logits.shape == (2,) and value.shape == ()
    assert many["logits"].shape == (3, 5, 2) and many["value"].shape == (3, 5)
    np.testing.assert_allclose(many["logits"][1, 2], policy.logits, atol=1e-5)
    np.testing.assert_allclose(many["value"][2, 4], value, atol=1e-5)
    assert is_image(space) == (isinstance(space, Box) and len(space.shape) == 3)
