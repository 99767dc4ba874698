"""PlanarReacher and PlanarSwimmer against NumPy versions of ivy_gym's equations."""

import jax
import numpy as np
import pytest

from parity.replay import first_states, play
from shoal.envs.planar.reacher import PlanarReacher
from shoal.envs.planar.swimmer import PlanarSwimmer

pytestmark = pytest.mark.sampled(2)


def played(env, x64, seed=0):
    """Whole episodes, with actions that go past their bounds: ours, the first states and the actions."""
    with jax.enable_x64(x64):
        states = first_states(env, 50)
        shape = (env.max_steps, 50, *env.action_space.shape)
        dtype = np.float64 if x64 else np.float32
        actions = np.random.default_rng(seed).uniform(-1.5, 1.5, shape).astype(dtype)
        ours = play(env, states, actions, None)
    assert not ours.terminated.any() and ours.truncated[-1].all() and not ours.truncated[:-1].any()
    assert ours.obs.dtype == ours.reward.dtype == np.float32
    return ours, jax.tree.map(np.asarray, states), np.clip(actions.astype(np.float64), -1, 1)


def assert_close(ours, obs, reward, dtype):
    # Positions are sums of hundreds of float32 numbers; in float64 only the observation is rounded.
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == np.float64 else {"rtol": 2e-5, "atol": 2e-5}
    np.testing.assert_allclose(ours.obs, obs, **tolerance)
    np.testing.assert_allclose(ours.reward, reward, **tolerance)


@pytest.mark.parametrize("fields", [{}, {"num_joints": 4, "torque_scale": 3.0, "dt": 0.02}, {"num_joints": 1}])
@pytest.mark.parametrize("x64", [False, True])
def test_an_arm_moves_as_the_reference(fields, x64):
    env = PlanarReacher(**fields)
    ours, start, actions = played(env, x64)
    angle, velocity, goal = (leaf.astype(np.float64) for leaf in (start.angle, start.velocity, start.goal))
    rows, rewards = [], []
    for torque in actions:
        velocity = velocity + env.dt * (env.torque_scale * torque)
        angle = angle + env.dt * velocity
        tip = np.stack([np.cos(angle).sum(1), np.sin(angle).sum(1)], 1)
        rewards.append(np.exp(-((tip - goal) ** 2).sum(1)))
        rows.append(np.concatenate([np.cos(angle), np.sin(angle), velocity, goal], 1))
    assert_close(ours, np.array(rows), np.array(rewards), start.angle.dtype)


@pytest.mark.parametrize("fields", [{}, {"num_urchins": 1, "dt": 0.02, "max_steps": 100}, {"num_urchins": 0}])
@pytest.mark.parametrize("x64", [False, True])
def test_a_swimmer_moves_as_the_reference(fields, x64):
    env = PlanarSwimmer(**fields)
    ours, start, actions = played(env, x64)
    position, goal, urchins = (leaf.astype(np.float64) for leaf in (start.position, start.goal, start.urchins))
    velocity, rows, rewards = np.zeros_like(position), [], []
    for push in actions:
        velocity = velocity + env.dt * push
        position = position + env.dt * velocity
        near = np.exp(-30 * ((position[:, None] - urchins) ** 2).sum(2))
        rewards.append(np.exp(-0.5 * ((position - goal) ** 2).sum(1)) * (1 - near).prod(1))
        rows.append(np.concatenate([urchins.reshape(50, -1), position, velocity, goal], 1))
    assert_close(ours, np.array(rows), np.array(rewards), start.position.dtype)
