"""Surrogate objectives and value losses against numbers computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.surrogates import (
    SURROGATES,
    clipped_surrogate,
    clipped_value_loss,
    dpo_surrogate,
    probability_ratio,
    squared_value_loss,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    # clip 0.2: a gain counts up to 1.2 (loss -1.2), a loss of probability for a bad action down to 0.8;
    # moving the wrong way is never clipped.
    [(1.5, 1.0, -1.2), (0.5, 1.0, -0.5), (0.5, -1.0, 0.8), (1.5, -1.0, 1.5), (1.0, 2.0, -2.0)],
)
def test_clipped_surrogate_by_hand(ratio, advantage, expected):
    got = clipped_surrogate(jnp.float32(ratio), jnp.float32(advantage), jnp.float32(0.2))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "drift"),
    # Drift values of the closed form with alpha 2, beta 0.6, computed in double precision from the paper's equation.
    [(1.2, 1.0, 0.000664), (2.0, 1.0, 0.075766), (4.0, 1.0, 1.189703), (0.8, -1.0, 0.009749), (0.5, -1.0, 0.201457)],
)
def test_dpo_drift_matches_the_closed_form(ratio, advantage, drift):
    got = dpo_surrogate(jnp.float32(ratio), jnp.float32(advantage), jnp.float32(0.2)) + ratio * advantage
    np.testing.assert_allclose(got, drift, atol=2e-6)


@pytest.mark.parametrize("name", sorted(SURROGATES))
def test_every_surrogate_starts_as_the_policy_gradient(name):
    slope = jax.grad(SURROGATES[name])
    for advantage in (-1.5, 2.0):
        got = slope(jnp.float32(1.0), jnp.float32(advantage), jnp.float32(0.2))
        np.testing.assert_allclose(got, -advantage, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(SURROGATES))
@pytest.mark.parametrize("advantage", [-2.0, 2.0])
def test_an_infinite_ratio_gives_a_zero_gradient(name, advantage):
    def loss(log_ratio):
        return SURROGATES[name](probability_ratio(log_ratio), jnp.float32(advantage), jnp.float32(0.2))

    for log_ratio in (-jnp.inf, -200.0, -90.0, 90.0, 200.0):
        value, slope = jax.value_and_grad(loss)(jnp.float32(log_ratio))
        assert np.isfinite(value) and slope == 0, log_ratio


def test_a_ratio_is_that_of_the_probabilities():
    log_ratio = np.asarray([-19.0, -0.3, 0.0, 0.2, 19.0], np.float32)
    np.testing.assert_allclose(probability_ratio(jnp.asarray(log_ratio)), np.exp(log_ratio), rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "old", "target", "expected"),
    # Held within 0.2 of the old value; half the larger square: max(1, 1.8^2) / 2 = 1.62; max(0.1^2, 0.1^2) / 2 = 0.005;
    # max(0, 0.8^2) / 2 = 0.32.
    [(2.0, 1.0, 3.0, 1.62), (1.1, 1.0, 1.0, 0.005), (0.0, 1.0, 0.0, 0.32)],
)
def test_clipped_value_loss_by_hand(value, old, target, expected):
    got = clipped_value_loss(jnp.float32(value), jnp.float32(old), jnp.float32(target), jnp.float32(0.2))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_squared_value_loss_is_half_the_square():
    got = squared_value_loss(jnp.float32(3), jnp.float32(9), jnp.float32(1), jnp.float32(0.2))
    np.testing.assert_allclose(got, 2.0)
