"""The network of a policy without a value head."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.core.spaces import Box
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torsos import MLP


def test_a_policy_network_is_a_torso_and_a_small_head():
    network = PolicyNetwork(MLP((8,), "relu"), Box(-1.0, 1.0, (3,)), 4)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    weights = jax.jit(network.init)(make_key(0), obs)
    dense = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(np.asarray(obs) @ np.asarray(dense["kernel"], np.float64), 0)
    expected = hidden @ np.asarray(weights["head"]["kernel"], np.float64)
    apply = jax.jit(network.__call__)
    np.testing.assert_allclose(apply(weights, obs), expected, rtol=1e-4, atol=1e-6)
    kernel = np.asarray(weights["head"]["kernel"], np.float64)
    np.testing.assert_allclose(kernel.T @ kernel, 1e-4 * np.eye(4), atol=1e-8)
    shifted = {**weights, "head": {**weights["head"], "bias": jnp.full(4, 2.0)}}
    np.testing.assert_allclose(apply(shifted, obs), expected + 2, rtol=1e-4)
