"""The environments with goals: rewards by hand, the inner dynamics, new goals in new episodes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, observe
from shoal.core.registry import make
from shoal.envs.classic.cartpole import CartPole

KEY = jax.random.key(0)


def test_the_reward_of_cartpole_is_exp_of_minus_the_squared_distance_after_the_step():
    env = make("CartPoleGoal-v0")
    state = init(env, KEY)
    inner = state.inner.replace(x=jnp.float32(0.3), x_dot=jnp.float32(10.0))
    state = state.replace(inner=inner, goal=jnp.asarray([1.0], jnp.float32))
    after, reward, terminated, _, _ = advance(env, state, jnp.int32(1), None)
    # x = 0.3 + 0.02 * 10 = 0.5, so the reward is exp(-0.25).
    assert float(after.inner.x) == pytest.approx(0.5) and not bool(terminated)
    assert float(reward) == pytest.approx(math.exp(-0.25), rel=1e-5)


def test_the_reward_of_the_pendulum_compares_points_on_the_circle():
    env = make("PendulumGoal-v0")
    state = init(env, KEY)
    at_rest = state.inner.replace(theta=jnp.float32(0), theta_dot=jnp.float32(0))
    for goal, squared in (([1, 0], 0.0), ([0, 1], 2.0), ([-1, 0], 4.0)):
        there = state.replace(inner=at_rest, goal=jnp.asarray(goal, jnp.float32))
        _, reward, *_ = advance(env, there, jnp.zeros(1), None)
        assert float(reward) == pytest.approx(math.exp(-squared), rel=1e-5)


def test_the_dynamics_are_those_of_the_inner_environment():
    env, bare = make("CartPoleGoal-v0"), CartPole(max_steps=200)
    state = init(env, KEY)
    inner = state.inner
    for action in (1, 0, 1):
        state, _, terminated, truncated, _ = advance(env, state, jnp.int32(action), None)
        inner, _, *flags, _ = advance(bare, inner, jnp.int32(action), None)
        jax.tree.map(np.testing.assert_array_equal, state.inner, inner)
        assert flags == [terminated, truncated]
    np.testing.assert_array_equal(observe(env, state)["observation"], observe(bare, inner))


@pytest.mark.parametrize("name", ["CartPoleGoal-v0", "PendulumGoal-v0"])
def test_goals_differ_between_episodes_and_fill_their_space(name):
    env = make(name)
    goals = np.asarray(jax.vmap(env.sample_goal)(jax.random.split(KEY, 256)))
    low, high = env.goal_space.bounds()
    assert np.all((goals >= low) & (goals <= high))
    np.testing.assert_allclose([goals.min(axis=0), goals.max(axis=0)], [low, high], atol=0.05 * high[0])
    if goals.shape[1] == 2:
        np.testing.assert_allclose(np.sum(goals**2, axis=1), 1, rtol=1e-5)
