"""Bandits: rewards, observations, tasks and errors; rewards under given noise are computed by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import Randomize
from shoal.envs.meta.bernoulli_bandit import BernoulliBandit
from shoal.envs.meta.gaussian_bandit import GaussianBandit

KEYS = jax.random.split(make_key(0), 20_000)
BANDITS = [BernoulliBandit(), GaussianBandit(), BernoulliBandit(num_arms=5), GaussianBandit(num_arms=4)]


def means_of(env, keys=KEYS):
    return np.asarray(jax.jit(jax.vmap(env.init))(keys).means)


def pulls(env, state, arms, noises):
    """Reward and observation after each pull."""
    seen = []
    for arm, lot in zip(arms, noises, strict=True):
        state, reward, terminated, truncated, _ = advance(env, state, jnp.int32(arm), jnp.float32(lot))
        assert reward.dtype == np.float32 and not terminated
        seen.append((float(reward), np.asarray(observe(env, state)), bool(truncated)))
    return state, seen


def test_a_bernoulli_arm_pays_when_the_noise_is_below_its_probability():
    env = BernoulliBandit(num_arms=3, probabilities=(0.0, 0.25, 1.0), max_steps=4)
    state, seen = pulls(env, init(env, KEYS[0]), (1, 1, 2, 0), (0.24, 0.25, 0.999, 0.0))
    assert [reward for reward, *_ in seen] == [1, 0, 1, 0]  # gymnax pays in integers
    expected = [[1, 0, 1, 0, -0.5], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0.5], [0, 1, 0, 0, 1]]
    assert [obs.tolist() for _, obs, _ in seen] == expected
    assert [truncated for *_, truncated in seen] == [False, False, False, True]
    assert state.pulls.tolist() == [1, 2, 1]


def test_gaussian_arms_pay_mean_plus_noise_and_the_first_arm_pays_zero():
    env = GaussianBandit(num_arms=3, means=(0.5, -2.0), deviation=0.25, max_steps=10)
    _, seen = pulls(env, init(env, KEYS[0]), (0, 1, 2), (3.0, 2.0, -1.0))
    assert [reward for reward, *_ in seen] == [0.0, 1.0, -2.25]
    np.testing.assert_allclose(seen[2][1], [-2.25, 0, 0, 1, -0.4], rtol=1e-6)


@pytest.mark.parametrize("env", BANDITS, ids=lambda env: f"{type(env).__name__}-{env.num_arms}")
def test_the_first_observation_is_zero_and_all_observations_are_in_the_space(env):
    state = init(env, KEYS[0])
    expected = [0.0, 1.0, *[0.0] * (env.num_arms - 1), -1.0]
    assert observe(env, state).tolist() == expected
    assert env.observation_space.shape == (env.num_arms + 2,) and env.action_space.n == env.num_arms

    def pull(state, given):
        state, *_ = env.advance(state, given[0] % env.num_arms, env.noise(given[1]))
        return state, env.observation_space.contains(env.observe(state))

    # Past the limit, where gymnax's clock leaves its space.
    assert jax.jit(lambda *given: jax.lax.scan(pull, state, given)[1])(jnp.arange(101), KEYS[:101]).all()


def test_observed_time_is_scaled_by_the_time_limit():
    env = GaussianBandit(max_steps=40)  # in gymnax 100 steps are the unit whatever the limit is
    state = init(env, KEYS[0])
    assert [float(observe(env, state.replace(time=jnp.int32(t)))[-1]) for t in (0, 20, 40)] == [-1, 0, 1]


@pytest.mark.parametrize("arms", [2, 5])
def test_one_arm_is_good_and_it_is_uniformly_sampled(arms):
    means = means_of(BernoulliBandit(num_arms=arms, reward_prob=0.2))
    np.testing.assert_allclose(np.sort(means, 1), [[0.2] * (arms - 1) + [0.8]] * len(means), rtol=1e-6)
    assert stats.chisquare(np.bincount(means.argmax(1), minlength=arms)).pvalue > 1e-3


def test_independent_arms_are_uniform():
    means = means_of(BernoulliBandit(num_arms=3, arms="independent"))
    assert min(stats.kstest(means[:, i], "uniform").pvalue for i in range(3)) > 1e-3
    assert np.abs(np.corrcoef(means.T) - np.eye(3)).max() < 0.03


def test_uncertain_arms_have_the_given_prior():
    means = means_of(GaussianBandit(num_arms=3, prior_mean=0.5, prior_deviation=2.0))
    assert (means[:, 0] == 0).all()
    assert min(stats.kstest(means[:, i], stats.norm(0.5, 2).cdf).pvalue for i in (1, 2)) > 1e-3
    assert abs(np.corrcoef(means[:, 1], means[:, 2])[0, 1]) < 0.03


def test_noise_is_uniform_and_normal():
    assert stats.kstest(jax.jit(jax.vmap(BernoulliBandit().noise))(KEYS), "uniform").pvalue > 1e-3
    assert stats.kstest(jax.jit(jax.vmap(GaussianBandit().noise))(KEYS), "norm").pvalue > 1e-3


def some_arms(key):
    return BernoulliBandit(num_arms=4, probabilities=jax.random.uniform(key, (4,), maxval=0.5))


def test_arms_can_be_sampled_for_every_episode():
    env = Randomize(BernoulliBandit(num_arms=4, probabilities=jnp.zeros(4)), some_arms)
    states = jax.jit(jax.vmap(env.init))(KEYS[:100])
    np.testing.assert_array_equal(states.inner.means, states.env.probabilities)
    assert len(np.unique(np.asarray(states.inner.means))) == 400 and states.inner.means.max() < 0.5


@pytest.mark.parametrize("cls", [BernoulliBandit, GaussianBandit])
def test_every_member_can_have_its_own_arms_without_recompilation(cls):
    field, arms = ("probabilities", 2) if cls is BernoulliBandit else ("means", 1)
    traces = []

    @jax.jit
    def means(values):
        def of_member(value):
            traces.append(value)
            return cls(**{field: value}).init(KEYS[0]).means

        return jax.vmap(of_member)(values)

    for low in (0.1, 0.3):
        values = low + 0.1 * jnp.arange(3 * arms).reshape(3, arms).astype(jnp.float32)
        np.testing.assert_array_equal(means(values)[:, 2 - arms :], values)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("cls", "fields", "words"),
    [
        (BernoulliBandit, {"num_arms": 1}, "num_arms=1 leaves nothing to choose"),
        (GaussianBandit, {"num_arms": 0}, "num_arms=0 leaves nothing to choose"),
        (BernoulliBandit, {"reward_prob": 1.2}, "reward_prob=1.2 is out of range"),
        (BernoulliBandit, {"probabilities": (0.5, -0.1)}, "probabilities=-0.1.* is out of range"),
        (BernoulliBandit, {"probabilities": (0.5, 0.1, 0.2)}, r"shape \(3,\); with num_arms=2 it needs 2"),
        (BernoulliBandit, {"probabilities": 0.5}, r"shape \(\); with num_arms=2 it needs 2"),
        (BernoulliBandit, {"arms": "many"}, "Choose 'one-good' or 'independent'"),
        (GaussianBandit, {"means": (0.5, 0.1)}, r"shape \(2,\); with num_arms=2 it needs 1"),
        (GaussianBandit, {"means": (math.nan,)}, "means=nan is out of range"),
        (GaussianBandit, {"deviation": -1.0}, "deviation=-1.0 is out of range"),
        (GaussianBandit, {"prior_deviation": math.inf}, "prior_deviation=inf is out of range"),
    ],
)
def test_invalid_arguments_are_refused(cls, fields, words):
    with pytest.raises(ValueError, match=words):
        cls(**fields)


def test_the_picture_shows_arms_and_pulls():
    env = make("BernoulliBandit-misc", num_arms=3, probabilities=(0.2, 0.9, 0.5))
    state, _ = pulls(env, init(env, KEYS[0]), (2,), (0.1,))
    picture = env.render(state).astype(int)
    assert picture.shape == (320, 320, 3)
    green = (picture[..., 1] - picture[..., 0] > 40).any(0)
    assert green[107:213].any() and not green[:106].any()  # the best arm, in the middle third
    blue = (picture[..., 2] - picture[..., 0] > 100).any(0)
    assert blue[214:].any() and not blue[:213].any()  # the arm pulled last
    fresh = env.render(init(env, KEYS[0])).astype(int)
    assert not (fresh[..., 2] - fresh[..., 0] > 100).any()
