"""Epsilon-greedy action selection from Q-values."""

import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.ops.exploration import epsilon_greedy, greedy, sample_uniforms


def test_epsilon_is_the_fraction_of_uniform_actions():
    dice = sample_uniforms(make_key(0), (40_000,), 4)
    q_values = jnp.broadcast_to(jnp.asarray([0.0, 3.0, 1.0, 2.0]), (40_000, 4))
    action = epsilon_greedy(q_values, 0.4, dice)
    share = np.bincount(np.asarray(action), minlength=4) / 40_000
    np.testing.assert_allclose(share, [0.1, 0.7, 0.1, 0.1], atol=0.01)


def test_forbidden_actions_are_never_chosen():
    mask = jnp.broadcast_to(jnp.asarray([True, False, False, True]), (4_000, 4))
    q_values = jnp.broadcast_to(jnp.asarray([0.0, 9.0, 8.0, 1.0]), (4_000, 4))
    dice = sample_uniforms(make_key(1), (4_000,), 4)
    for epsilon in (0.0, 1.0):
        chosen = np.unique(epsilon_greedy(q_values, epsilon, dice, mask))
        assert set(chosen) <= {0, 3}
    assert greedy(q_values[0], mask[0]) == 3
