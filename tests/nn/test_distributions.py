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
    SquashedGaussian,
    check_bounded,
    distribution,
    draw_noise,
    from_unit,
    head_size,
    masked,
    to_unit,
    uniform_action,
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


SKEWED = Box((-1.0, 10.0), (3.0, 10.5), (2,))


def test_a_squashed_gaussian_has_the_density_of_what_it_draws():
    mean, log_std, noise = np.array([0.3, -1.0]), np.array([-0.2, 0.4]), np.array([[0.5, -1.5], [-2.0, 0.1]])
    policy = SquashedGaussian(*(jnp.broadcast_to(jnp.float32(x), (2, 2)) for x in (mean, log_std)), SKEWED)
    action, log_prob = policy.draw(jnp.float32(noise))
    u = mean + np.exp(log_std) * noise
    np.testing.assert_allclose(action, [1.0, 10.25] + np.array([2.0, 0.25]) * np.tanh(u), rtol=1e-6)
    slope = 1 - np.tanh(u) ** 2  # of the action in u, on a scale from -1 to 1
    expected = (stats.norm.logpdf(u, mean, np.exp(log_std)) - np.log(slope)).sum(axis=1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5)
    np.testing.assert_array_equal(policy.sample(jnp.float32(noise)), action)
    np.testing.assert_allclose(policy.mode()[0], [1.0, 10.25] + np.array([2.0, 0.25]) * np.tanh(mean), rtol=1e-6)


def test_the_density_of_a_squashed_gaussian_integrates_to_one():
    space = Box(-2.0, 2.0, (1,))
    policy = SquashedGaussian(jnp.full((1,), 0.4), jnp.full((1,), -0.3), space)
    noise = np.linspace(-8, 8, 4001, dtype=np.float32)
    action, log_prob = jax.vmap(policy.draw)(jnp.asarray(noise[:, None]))
    np.testing.assert_allclose(np.trapezoid(np.exp(log_prob), to_unit(space, action)[:, 0]), 1, atol=1e-3)


@pytest.mark.parametrize("u", [-60.0, -20.0, 20.0, 60.0])
def test_squashing_far_out_stays_finite_and_inside(u):
    def log_prob(mean):
        policy = SquashedGaussian(jnp.broadcast_to(mean, (1,)), jnp.zeros(1), Box(-0.1, 0.3, (1,)))
        return policy.draw(jnp.zeros(1))[1]

    # 1 - tanh(u)^2 is 4 exp(-2 |u|) this far out, which float32 rounds to 0.
    expected = -0.5 * np.log(2 * np.pi) - (np.log(4) - 2 * abs(u))
    np.testing.assert_allclose(log_prob(jnp.float32(u)), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(log_prob)(jnp.float32(u)), 2 * np.sign(u), rtol=1e-5)
    action = SquashedGaussian(jnp.full((1,), u), jnp.zeros(1), Box(-0.1, 0.3, (1,))).mode()
    assert bool(Box(-0.1, 0.3, (1,)).contains(action))


def test_scales_of_a_box_go_both_ways():
    unit = jnp.asarray([[-1.0, 1.0], [0.0, 0.5]])
    action = from_unit(SKEWED, unit)
    np.testing.assert_allclose(action, [[-1, 10.5], [1, 10.375]], rtol=1e-6)
    np.testing.assert_allclose(to_unit(SKEWED, action), unit, atol=1e-5)
    np.testing.assert_array_equal(from_unit(SKEWED, 2 * unit[:1]), [[-1, 10.5]])  # never outside


@pytest.mark.parametrize("space", [SKEWED, Discrete(4)])
def test_uniform_actions_cover_their_space_evenly(space):
    drawn = np.asarray(uniform_action(space, draw_noise(space, make_key(3), (20_000,))))
    if isinstance(space, Discrete):
        assert stats.chisquare(np.bincount(drawn, minlength=4)).pvalue > 1e-3
        return
    for column, low, width in zip(drawn.T, [-1, 10], [4, 0.5], strict=True):
        assert stats.kstest(column, stats.uniform(low, width).cdf).pvalue > 1e-3


def test_uniform_actions_are_allowed_ones():
    mask = jnp.asarray([False, True, True, False])
    drawn = jax.vmap(lambda n: uniform_action(Discrete(4), n, mask))(draw_noise(Discrete(4), make_key(3), (2000,)))
    assert stats.chisquare(np.bincount(drawn, minlength=4)[1:3]).pvalue > 1e-3 and set(drawn.tolist()) == {1, 2}


def test_only_boxes_with_finite_bounds_pass_the_check():
    check_bounded(SKEWED)
    for space, words in ((Discrete(2), "needs actions in a Box"), (Box(-1, np.inf, (2,)), "both finite")):
        with pytest.raises(ValueError, match=words):
            check_bounded(space)
