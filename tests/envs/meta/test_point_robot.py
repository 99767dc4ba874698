"""PointRobot: rewards, starts, tasks, errors. Each past bug of gymnax has a test."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init, noise, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import Randomize
from shoal.envs.meta.point_robot import PointRobot

KEYS = jax.random.split(make_key(0), 5000)


def start(env, position, goal):
    pair = {"position": position, "goal": goal}
    return init(env, KEYS[0]).replace(**{name: jnp.asarray(value, jnp.float32) for name, value in pair.items()})


def move(env, state, x, y):
    return advance(env, state, jnp.asarray([x, y], jnp.float32), noise(env, KEYS[1]))


def test_the_move_that_reaches_the_goal_is_rewarded_and_the_move_that_leaves_it_is_not():
    env = PointRobot()  # gymnax looks at where the point was
    state, reward, terminated, *_ = move(env, start(env, (0.0, 0.75), (0.0, 1.0)), 0.0, 0.1)
    assert float(reward) == 1 and reward.dtype == np.float32 and not terminated
    state, reward, *_ = move(env, state, 0.0, -0.1)
    assert float(reward) == 0


def test_the_last_step_of_an_episode_is_rewarded_too():
    env = PointRobot(max_steps=1)
    _, reward, _, truncated, _ = move(env, start(env, (0.0, 0.75), (0.0, 1.0)), 0.0, 0.1)
    assert float(reward) == 1 and truncated


def test_dense_rewards_are_distances():
    env = PointRobot(dense_reward=True)
    _, reward, *_ = move(env, start(env, (-0.7, -0.1), (0.0, 0.4)), 0.1, 0.1)
    np.testing.assert_allclose(reward, -math.hypot(0.6, 0.4), rtol=1e-6)


def test_actions_are_clipped_in_the_dynamics_and_in_the_observation():
    env = PointRobot()  # gymnax shows them as they were
    state, *_ = move(env, start(env, (0.0, 0.0), (0.0, 1.0)), 5.0, -0.05)
    np.testing.assert_allclose(observe(env, state), [0.1, -0.05, 0, 0.1, -0.05, -0.9], rtol=1e-5)
    assert env.observation_space.contains(observe(env, state))


def test_a_point_stays_at_the_goal_without_respawn():
    for env, stays in ((PointRobot(), True), (PointRobot(respawn=True, start="half-disc"), False)):
        state, reward, *_ = move(env, start(env, (0.0, 1.0), (0.0, 1.0)), 0.1, 0.0)
        assert float(reward) == 1
        assert bool(np.allclose(state.position, (0.1, 1.0))) == stays
    assert noise(PointRobot(), KEYS[0]) is None


def test_names_have_the_rules_of_their_sources():
    ours, theirs = make("PointRobot-v0"), make("PointRobot-misc")
    assert (ours.max_steps, ours.start, ours.respawn) == (20, "box", False)
    assert (theirs.max_steps, theirs.start, theirs.respawn) == (100, "half-disc", True)


def states_of(env):
    states = jax.jit(jax.vmap(env.init))(KEYS)
    return np.asarray(states.position), np.asarray(states.goal)


def test_goals_lie_on_the_half_circle_and_starts_in_the_box_around_it():
    position, goal = states_of(PointRobot(circle_radius=2.0))
    np.testing.assert_allclose(np.hypot(*goal.T), 2, rtol=1e-5)
    assert stats.kstest(np.arctan2(goal[:, 1], goal[:, 0]) / np.pi, "uniform").pvalue > 1e-3
    assert stats.kstest(position[:, 0], stats.uniform(-3, 6).cdf).pvalue > 1e-3
    assert stats.kstest(position[:, 1], stats.uniform(-1, 4).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(position.T)[0, 1]) < 0.06 and abs(np.corrcoef(position[:, 0], goal[:, 0])[0, 1]) < 0.06


def test_other_starts():
    assert not states_of(PointRobot(start="origin"))[0].any()
    position, _ = states_of(PointRobot(start="half-disc"))
    assert stats.kstest(np.hypot(*position.T), "uniform").pvalue > 1e-3 and position[:, 1].min() >= -1e-6


def eastern_goal(key):
    return PointRobot(goal_x=1.0, goal_y=jax.random.uniform(key))


def test_goals_can_be_given_or_sampled():
    env = Randomize(PointRobot(goal_x=1.0, goal_y=0.0), eastern_goal)
    states = jax.vmap(env.init)(KEYS[:50])
    assert (states.inner.goal[:, 0] == 1).all() and len(set(states.inner.goal[:, 1].tolist())) == 50
    goals = jax.vmap(lambda x: init(PointRobot(goal_x=x, goal_y=0), KEYS[0]).goal)(jnp.array([0.5, -0.5]))
    assert goals.tolist() == [[0.5, 0.0], [-0.5, 0.0]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"start": "disc"}, "start='disc' is unknown. Choose one of: box, half-disc, origin"),
        ({"goal_x": 1.0}, "needs both goal_x and goal_y"),
        ({"goal_x": math.inf, "goal_y": 0.0}, "goal_x=inf is out of range"),
        ({"goal_radius": 0.0}, "goal_radius=0.0 is out of range"),
        ({"circle_radius": -1.0}, "circle_radius=-1.0 is out of range"),
        ({"max_force": 0.0}, "max_force=0.0 moves nothing"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        PointRobot(**fields)


def test_the_picture_shows_point_and_goal():
    env = PointRobot()
    picture = env.render(start(env, (-1.0, 0.5), (1.0, 0.0))).astype(int)
    # 480 / 3.6 = 133 pixels to a unit; x from -1.8, y down from 1.75.
    point, goal = picture[round(1.25 * 133.3), round(0.8 * 133.3)], picture[round(1.75 * 133.3), round(2.85 * 133.3)]
    assert point[2] > point[0] + 50 and goal[1] > goal[0] and picture[5, 5].tolist() == [255, 255, 255]
