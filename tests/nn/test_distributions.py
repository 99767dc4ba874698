"""Distributions against SciPy and against their own samples."""

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
    SquashedGaussian,
    as_action,
    check_bounded,
    distribution,
    head_size,
    masked,
    sample_noise,
    uniform_action,
)

P = np.array([0.1, 0.2, 0.7])
LOGITS = np.log(P).astype(np.float32)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))


def drawn_from(policy, noise):
    """Samples of a distribution for many noise values."""
    return np.asarray(jax.jit(jax.vmap(policy.sample))(noise))


def evaluated(policy, *actions):
    """(log-probability of each action, entropy, mode)."""
    return jax.jit(lambda: ([policy.log_prob(a) for a in actions], policy.entropy(), policy.mode()))()


def test_categorical_log_prob_and_entropy():
    log_probs, entropy, mode = evaluated(Categorical(jnp.asarray(LOGITS + 3)), *map(jnp.int32, range(3)))
    np.testing.assert_allclose(log_probs, LOGITS, atol=1e-6)
    np.testing.assert_allclose(entropy, stats.entropy([0.1, 0.2, 0.7]), rtol=1e-6)
    assert mode == 2


def test_categorical_samples_have_its_probabilities():
    noise = noise_of(Discrete(3), make_key(0), (30_000,))
    drawn = drawn_from(Categorical(jnp.asarray(LOGITS)), noise)
    assert stats.chisquare(np.bincount(drawn, minlength=3), 30_000 * P).pvalue > 1e-3


def test_masked_actions_are_never_sampled_and_add_no_entropy():
    policy = Categorical(masked(jnp.asarray(LOGITS), jnp.asarray([True, True, False])))
    drawn = drawn_from(policy, noise_of(Discrete(3), make_key(0), (1000,)))
    assert set(drawn.tolist()) == {0, 1}

    def entropy(logits):
        return Categorical(masked(logits, jnp.asarray([True, True, False]))).entropy()

    nats, slope = jax.jit(jax.value_and_grad(entropy))(LOGITS)
    np.testing.assert_allclose(nats, stats.entropy([1 / 3, 2 / 3]), rtol=1e-5)
    assert np.isfinite(slope).all()


def test_multi_categorical_is_a_product():
    policy = MultiCategorical(jnp.asarray(np.concatenate([LOGITS, np.log([0.25, 0.75])]), jnp.float32), (3, 2))
    (log_prob,), entropy, mode = evaluated(policy, jnp.asarray([1, 0]))
    np.testing.assert_allclose(log_prob, np.log(0.2 * 0.25), rtol=1e-6)
    np.testing.assert_allclose(entropy, stats.entropy([0.1, 0.2, 0.7]) + stats.entropy([0.25, 0.75]), rtol=1e-6)
    assert mode.tolist() == [2, 1]
    drawn = drawn_from(policy, noise_of(MultiDiscrete((3, 2)), make_key(1), (20_000,)))
    assert stats.chisquare(np.bincount(drawn[:, 0], minlength=3), 20_000 * P).pvalue > 1e-3
    assert abs(drawn[:, 1].mean() - 0.75) < 0.02


def test_gaussian_against_scipy():
    mean, log_std = np.array([0.5, -1.0], np.float32), np.array([0.3, -0.7], np.float32)
    policy = DiagGaussian(jnp.asarray(mean), jnp.asarray(log_std))
    reference = stats.multivariate_normal(mean, np.diag(np.exp(2 * log_std)))
    (log_prob,), entropy, _ = evaluated(policy, jnp.asarray([0.1, 0.2]))
    np.testing.assert_allclose(log_prob, reference.logpdf([0.1, 0.2]), rtol=1e-5)
    np.testing.assert_allclose(entropy, reference.entropy(), rtol=1e-5)
    drawn = drawn_from(policy, noise_of(Box(-1, 1, (2,)), make_key(0), (20_000,)))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.std(0), np.exp(log_std), rtol=0.03)


@pytest.mark.parametrize(("space", "size"), [(Discrete(5), 5), (MultiDiscrete((2, 3)), 5), (Box(-1, 1, (4,)), 4)])
def test_heads_fit_their_spaces(space, size):
    assert head_size(space) == size
    policy = distribution(space, jnp.zeros(size), jnp.zeros(size))
    assert bool(space.contains(jnp.clip(policy.mode(), -1, 1)))


def test_unsupported_action_spaces_are_refused():
    with pytest.raises(ValueError, match="not supported: use Discrete, MultiDiscrete, or a Box of one axis"):
        head_size(Dict({"a": Discrete(2)}))


SKEWED = Box((-1.0, 10.0), (3.0, 10.5), (2,))


def test_the_log_density_of_a_squashed_gaussian_matches_its_samples():
    mean, log_std, noise = np.array([0.3, -1.0]), np.array([-0.2, 0.4]), np.array([[0.5, -1.5], [-2.0, 0.1]])
    policy = SquashedGaussian(*(jnp.asarray(np.broadcast_to(np.float32(x), (2, 2))) for x in (mean, log_std)))
    (action, log_prob), sample, mode = jax.jit(
        lambda n: (policy.sample_with_log_prob(n), policy.sample(n), policy.mode())
    )(np.float32(noise))
    u = mean + np.exp(log_std) * noise
    np.testing.assert_allclose(action, np.tanh(u), rtol=1e-6)
    slope = 1 - np.tanh(u) ** 2  # of the action in u, on a scale from -1 to 1
    expected = (stats.norm.logpdf(u, mean, np.exp(log_std)) - np.log(slope)).sum(axis=1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5)
    np.testing.assert_array_equal(sample, action)
    np.testing.assert_allclose(np.asarray(mode)[0], np.tanh(mean), rtol=1e-6)
    as_taken = jax.jit(lambda x: as_action(SKEWED, x))(action)
    np.testing.assert_allclose(as_taken, [1.0, 10.25] + np.array([2.0, 0.25]) * np.tanh(u), rtol=1e-6)


def test_the_density_of_a_squashed_gaussian_integrates_to_one():
    policy = SquashedGaussian(jnp.full((1,), 0.4), jnp.full((1,), -0.3))
    noise = np.linspace(-8, 8, 4001, dtype=np.float32)
    action, log_prob = jax.jit(jax.vmap(policy.sample_with_log_prob))(noise[:, None])
    np.testing.assert_allclose(np.trapezoid(np.exp(log_prob), action[:, 0]), 1, atol=1e-3)


@pytest.mark.parametrize("u", [-60.0, -20.0, 20.0, 60.0])
def test_squashed_large_inputs_stay_finite_and_within_bounds(u):
    @jax.jit
    def found(mean):
        """(log-density, its slope, the mode)"""

        def log_prob(mean):
            policy = SquashedGaussian(jnp.broadcast_to(mean, (1,)), jnp.zeros(1))
            return policy.sample_with_log_prob(jnp.zeros(1))[1], policy.mode()

        (density, mode), slope = jax.value_and_grad(log_prob, has_aux=True)(mean)
        return density, slope, mode

    # 1 - tanh(u)^2 is 4 exp(-2 |u|) this far out, which float32 rounds to 0.
    expected = -0.5 * np.log(2 * np.pi) - (np.log(4) - 2 * abs(u))
    density, slope, mode = found(np.float32(u))
    np.testing.assert_allclose(density, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, 2 * np.sign(u), rtol=1e-5)
    assert bool(Box(-1.0, 1.0, (1,)).contains(mode))


@pytest.mark.parametrize("space", [SKEWED, Discrete(4)])
def test_uniform_actions_cover_their_space_evenly(space):
    drawn = np.asarray(
        jax.jit(lambda n: as_action(space, uniform_action(space, n)))(noise_of(space, make_key(3), (20_000,)))
    )
    if isinstance(space, Discrete):
        assert stats.chisquare(np.bincount(drawn, minlength=4)).pvalue > 1e-3
        return
    for column, low, width in zip(drawn.T, [-1, 10], [4, 0.5], strict=True):
        assert stats.kstest(column, stats.uniform(low, width).cdf).pvalue > 1e-3


def test_uniform_actions_respect_the_mask():
    mask = jnp.asarray([False, True, True, False])
    drawn = jax.jit(jax.vmap(lambda n: uniform_action(Discrete(4), n, mask)))(
        noise_of(Discrete(4), make_key(3), (2000,))
    )
    assert stats.chisquare(np.bincount(drawn, minlength=4)[1:3]).pvalue > 1e-3 and set(drawn.tolist()) == {1, 2}


def test_only_boxes_with_finite_bounds_pass_the_check():
    check_bounded(SKEWED)
    for space, words in ((Discrete(2), "needs actions in a Box"), (Box(-1, np.inf, (2,)), "both finite")):
        with pytest.raises(ValueError, match=words):
            check_bounded(space)
