"""PointRobot against a NumPy version written from the description of Dorfman, Shenfeld and Tamar (2021)."""

import jax
import numpy as np
import pytest

from parity.replay import first_states, noise_of, play
from shoal.envs.meta.point_robot import PointRobot

pytestmark = pytest.mark.sampled


def steps_of_the_reference(env, state, actions, noise):
    """Rewards and positions after each step, and how clear it was whether the goal was reached; all in float64."""
    position, goal = state.position.astype(np.float64), state.goal.astype(np.float64)
    rows = []
    for t, action in enumerate(actions.astype(np.float64)):
        position = position + np.clip(action, -env.max_force, env.max_force)
        distance = np.hypot(*(position - goal).T)
        reached = distance <= env.goal_radius
        rows.append(
            (-distance if env.dense_reward else reached.astype(float), position, abs(distance - env.goal_radius))
        )
        if env.respawn:
            radius, angle = env.circle_radius * noise[t, :, 0], np.pi * noise[t, :, 1].astype(np.float64)
            start = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
            position = np.where(reached[:, None], start, position)
            rows[-1] = (rows[-1][0], position, rows[-1][2])
    return (np.array(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"dense_reward": True, "start": "origin"},
        {"respawn": True, "start": "half-disc", "goal_radius": 0.5, "max_steps": 100},
        {"max_force": 0.03, "circle_radius": 2.0, "goal_radius": 1.0},
    ],
)
@pytest.mark.parametrize("x64", [False, True])
def test_an_episode_equals_the_reference(fields, x64):
    with jax.enable_x64(x64):
        env = PointRobot(**fields)
        steps, num = env.max_steps, 200
        dtype = np.float64 if x64 else np.float32
        states, noise = first_states(env, num), noise_of(env, steps, num)
        actions = np.random.default_rng(0).uniform(-0.15, 0.15, (steps, num, 2)).astype(dtype)
        ours = play(env, states, actions, noise)
    start = jax.tree.map(np.asarray, states)
    rewards, positions, margin = steps_of_the_reference(
        env, start, actions, None if noise is None else np.asarray(noise)
    )
    assert ours.state.position.dtype == dtype and ours.obs.dtype == np.float32
    clear = np.minimum.accumulate(margin, 0) > 1e-5  # from a rounded goal test on, respawned points go separate ways
    assert clear.mean() > 0.9 and (rewards[clear] > 0).any() != env.dense_reward
    tolerance = 1e-12 if x64 else 3e-6
    np.testing.assert_allclose(ours.state.position[clear], positions[clear], atol=tolerance)
    np.testing.assert_allclose(ours.reward[clear], rewards[clear], atol=3e-6 if env.dense_reward else 0)
    np.testing.assert_allclose(ours.obs[..., :2][clear], positions[clear], atol=3e-6)
    assert not ours.terminated.any() and ours.truncated[-1].all() and not ours.truncated[:-1].any()
