"""Classic-control environments without the reference: fields, derived constants, errors, spaces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, noise
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.envs.classic.acrobot import Acrobot
from shoal.envs.classic.cartpole import CartPole, CartPoleState
from shoal.envs.classic.mountain_car import MountainCar
from shoal.envs.classic.mountain_car_continuous import MountainCarContinuous
from shoal.envs.classic.pendulum import Pendulum

NAMES = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]


def rollout(env, num_steps=300, num_envs=256):
    """Random play without resets, compiled: terminated [T, E], and whether what is seen lies in its space."""

    def step(state, key):
        def one(state, key):
            k_act, k_step = jax.random.split(key)
            obs, state, _, terminated, _, _ = env.step(k_step, state, env.action_space.sample(k_act))
            return state, (obs, terminated)

        return jax.vmap(one)(state, jax.random.split(key, num_envs))

    def play():
        _, start = jax.vmap(env.reset)(jax.random.split(make_key(0), num_envs))
        obs, terminated = jax.lax.scan(step, start, jax.random.split(make_key(1), num_steps))[1]
        return terminated, jax.vmap(jax.vmap(env.observation_space.contains))(obs)

    return map(np.asarray, jax.jit(play)())


@pytest.mark.parametrize("name", NAMES)
def test_every_observation_of_an_episode_lies_in_the_observation_space(name):
    env = make(name)
    terminated, inside = rollout(env)
    alive = np.concatenate([np.ones((1, terminated.shape[1]), bool), np.cumprod(~terminated, 0)[:-1] > 0])
    assert inside[alive].all()


@pytest.mark.parametrize("name", NAMES)
def test_a_step_in_float64_returns_float32_observations_and_rewards(name):
    with jax.enable_x64(True):
        env = make(name)
        action = env.action_space.sample(make_key(2))
        obs, state, reward, *_ = jax.jit(lambda key: env.step(key, env.init(key), action))(make_key(1))
        floats = {leaf.dtype for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)}
        assert floats == {np.dtype(np.float64)}
        assert obs.dtype == np.float32 and reward.dtype == np.float32


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_constants_as_arrays_give_the_same_step_as_constants_as_numbers(name):
    env = make(name)
    state, action = init(env, make_key(0)), env.action_space.sample(make_key(2))
    as_numbers = jax.jit(lambda state: env.advance(state, action, None))(state)
    as_arrays = advance(to_arrays(env), state, action, None)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), as_numbers, as_arrays)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_population_of_environments_is_stepped_in_one_batch(name):
    gravity = "g" if name == "Pendulum-v1" else "gravity"
    env = make(name)
    envs = jax.vmap(lambda g: env.replace(**{gravity: g}))(jnp.array([1.0, 1.5]) * getattr(env, gravity))
    state, action = init(env, make_key(0)), env.action_space.sample(make_key(2))
    axes = jax.tree.map(lambda x: 0 if isinstance(x, jax.Array) else None, envs)
    after, *_ = jax.jit(jax.vmap(lambda one_env: one_env.advance(state, action, None), in_axes=(axes,)))(envs)
    moved = [leaf for leaf in jax.tree.leaves(after) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert any(leaf.shape == (2,) and leaf[0] != leaf[1] for leaf in moved)


def test_a_heavier_pole_makes_the_whole_cart_heavier():
    env = CartPole(mass_pole=1.0)
    assert env.total_mass == 2.0 and env.polemass_length == 0.5
    # Upright and at rest: push = F / M, theta_acc = -push / (l (4/3 - m / M)) = -5 / (0.5 (4/3 - 1/2)) = -12,
    # x_acc = push - m l theta_acc / M = 5 + 0.25 * 12 = 8; velocities after 0.02 s: 0.16 and -0.24.
    still = CartPoleState(jnp.int32(0), *(jnp.float32(0),) * 4)
    state, *_ = advance(env, still, jnp.int32(1), None)
    np.testing.assert_allclose([state.x_dot, state.theta_dot], [0.16, -0.24], rtol=1e-6)


def test_spaces_follow_the_fields_that_bound_them():
    assert MountainCar(max_position=1.0).observation_space.high == (1.0, 0.07)
    assert Pendulum(max_torque=3.0).action_space.high == 3.0
    assert Pendulum(max_speed=jnp.array([5.0, 9.0])).observation_space.high == (1.0, 1.0, 9.0)
    assert CartPole(x_threshold=3.0).observation_space.high[0] == 6.0
    assert Acrobot(max_vel_1=2.0).observation_space.high[4] == 2.0


def test_a_traced_bound_leaves_the_space_open():
    seen = []
    jax.jit(lambda env: seen.append(env.observation_space.high))(to_arrays(Pendulum()))
    assert seen == [(1.0, 1.0, np.inf)]


@pytest.mark.parametrize("cls", [CartPole, Acrobot, MountainCar, MountainCarContinuous])
def test_reversed_reset_bounds_are_refused(cls):
    with pytest.raises(ValueError, match="reset_low=1.0 is above reset_high=0.0"):
        cls(reset_low=1.0, reset_high=0.0)


def test_an_unknown_kind_of_dynamics_is_refused():
    with pytest.raises(ValueError, match="Choose 'euler' or 'semi-implicit'"):
        CartPole(integrator="rk4")
    with pytest.raises(ValueError, match="Choose 'book' or 'nips'"):
        Acrobot(equations="paper")


def test_acrobot_samples_noise_only_with_torque_noise():
    assert noise(Acrobot(), make_key(0)) is None
    drawn = jax.jit(jax.vmap(Acrobot(torque_noise_max=0.5).noise))(jax.random.split(make_key(0), 1000))
    assert float(jnp.abs(drawn).max()) <= 0.5 and float(drawn.min()) < -0.45 and float(drawn.max()) > 0.45
