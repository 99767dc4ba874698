"""Distributions against scipy and against their own samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete
from shoal.nn.distributions import (
    Categorical,
    DiagGaussian,
    MultiCategorical,
    distribution,
    draw_noise,
    head_size,
    masked,
)

P = np.array([0.1, 0.2, 0.7])
LOGITS = np.log(P).astype(np.float32)


def test_categorical_log_prob_and_entropy():
    policy = Categorical(jnp.asarray(LOGITS) + 3)
    np.testing.assert_allclose(jax.vmap(policy.log_prob)(jnp.arange(3)), LOGITS, atol=1e-6)
    np.testing.assert_allclose(policy.entropy(), stats.entropy([0.1, 0.2, 0.7]), rtol=1e-6)
    assert policy.mode() == 2


def test_categorical_samples_have_its_probabilities():
    noise = draw_noise(Discrete(3), make_key(0), (30_000,))
    drawn = np.asarray(jax.vmap(Categorical(jnp.asarray(LOGITS)).sample)(noise))
    assert stats.chisquare(np.bincount(drawn, minlength=3), 30_000 * P).pvalue > 1e-3


def test_masked_choices_are_never_drawn_and_add_no_entropy():
    policy = Categorical(masked(jnp.asarray(LOGITS), jnp.asarray([True, True, False])))
    drawn = jax.vmap(policy.sample)(draw_noise(Discrete(3), make_key(0), (1000,)))
    assert set(np.asarray(drawn).tolist()) == {0, 1}
    np.testing.assert_allclose(policy.entropy(), stats.entropy([1 / 3, 2 / 3]), rtol=1e-5)
    slope = jax.grad(lambda x: Categorical(masked(x, jnp.asarray([True, True, False]))).entropy())(jnp.asarray(LOGITS))
    assert np.isfinite(slope).all()


def test_multi_categorical_is_a_product():
    policy = MultiCategorical(jnp.concatenate([jnp.asarray(LOGITS), jnp.log(jnp.asarray([0.25, 0.75]))]), (3, 2))
    np.testing.assert_allclose(policy.log_prob(jnp.asarray([1, 0])), np.log(0.2 * 0.25), rtol=1e-6)
    np.testing.assert_allclose(
        policy.entropy(), stats.entropy([0.1, 0.2, 0.7]) + stats.entropy([0.25, 0.75]), rtol=1e-6
    )
    assert policy.mode().tolist() == [2, 1]
    drawn = np.asarray(jax.vmap(policy.sample)(draw_noise(MultiDiscrete((3, 2)), make_key(1), (20_000,))))
    assert stats.chisquare(np.bincount(drawn[:, 0], minlength=3), 20_000 * P).pvalue > 1e-3
    assert abs(drawn[:, 1].mean() - 0.75) < 0.02


def test_gaussian_against_scipy():
    mean, log_std = np.array([0.5, -1.0], np.float32), np.array([0.3, -0.7], np.float32)
    policy = DiagGaussian(jnp.asarray(mean), jnp.asarray(log_std))
    reference = stats.multivariate_normal(mean, np.diag(np.exp(2 * log_std)))
    np.testing.assert_allclose(policy.log_prob(jnp.asarray([0.1, 0.2])), reference.logpdf([0.1, 0.2]), rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), reference.entropy(), rtol=1e-5)
    drawn = np.asarray(jax.vmap(policy.sample)(draw_noise(Box(-1, 1, (2,)), make_key(0), (20_000,))))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.std(0), np.exp(log_std), rtol=0.03)


@pytest.mark.parametrize(("space", "size"), [(Discrete(5), 5), (MultiDiscrete((2, 3)), 5), (Box(-1, 1, (4,)), 4)])
def test_heads_fit_their_spaces(space, size):
    assert head_size(space) == size
    policy = distribution(space, jnp.zeros(size), jnp.zeros(size))
    assert bool(space.contains(jnp.clip(policy.mode(), -1, 1)))


def test_unsupported_actions_are_refused_in_words():
    with pytest.raises(ValueError, match="not supported: use Discrete, MultiDiscrete, or a Box of one axis"):
        head_size(Dict({"a": Discrete(2)}))
