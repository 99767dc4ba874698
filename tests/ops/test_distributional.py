"""Distributional losses against plain NumPy loops, and the shared Huber function by hand."""

import jax.numpy as jnp
import numpy as np

from shoal.ops.distributional import cross_entropy, huber, project, quantile_huber


def test_projection_moves_mass_to_the_nearest_points():
    support = np.linspace(-2, 3, 11)
    random = np.random.default_rng(0)
    probability = random.dirichlet(np.ones(11), size=6)
    reward, bootstrap = random.normal(size=6) * 2, np.array([0.9, 0.9, 0, 0.5, 1, 0.99])
    expected = np.zeros((6, 11))
    for b in range(6):
        for i in range(11):
            place = (np.clip(reward[b] + bootstrap[b] * support[i], -2, 3) + 2) / 0.5
            low, high = int(np.floor(place)), int(np.ceil(place))
            expected[b, low] += probability[b, i] * (1 - (place - low))
            expected[b, high] += probability[b, i] * (place - low)
    arrays = (jnp.asarray(x, jnp.float32) for x in (support, probability, reward, bootstrap))
    projected = project(*arrays)
    np.testing.assert_allclose(projected, expected, atol=1e-5)
    np.testing.assert_allclose(projected.sum(axis=1), 1, atol=1e-5)


def test_cross_entropy_equals_numpy():
    random = np.random.default_rng(1)
    logits, target = random.normal(size=(4, 5)), random.dirichlet(np.ones(5), size=4)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(target, jnp.float32))
    np.testing.assert_allclose(loss, -(target * log_p).sum(1), rtol=1e-5)


def test_huber_is_quadratic_within_and_linear_beyond():
    np.testing.assert_allclose(huber(jnp.asarray([-3.0, -0.5, 0.0, 2.0]), 2.0), [4.0, 0.125, 0.0, 2.0])


def test_quantile_loss_equals_numpy():
    random = np.random.default_rng(2)
    quantiles, target = random.normal(size=(3, 4)), random.normal(size=(3, 6)) * 2
    expected = np.zeros(3)
    for b in range(3):
        for i in range(4):
            for y in target[b]:
                error = y - quantiles[b, i]
                size = 0.5 * error**2 if abs(error) <= 1.5 else 1.5 * (abs(error) - 0.75)
                expected[b] += abs((i + 0.5) / 4 - (error < 0)) * size / 1.5 / 6
    loss = quantile_huber(jnp.asarray(quantiles, jnp.float32), jnp.asarray(target, jnp.float32), 1.5)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
