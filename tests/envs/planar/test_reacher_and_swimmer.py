"""PlanarReacher and PlanarSwimmer: starts, clipped actions, tasks, errors, pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import Randomize
from shoal.envs.planar.reacher import PlanarReacher
from shoal.envs.planar.swimmer import PlanarSwimmer

KEYS = jax.random.split(make_key(0), 4000)


def states_of(env, keys=KEYS):
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(env.init))(keys))


def uniform(numbers, bound):
    return stats.kstest(numbers.ravel(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


@pytest.mark.parametrize("joints", [1, 2, 5])  # gymnax has two, or an error
def test_arms_start_anywhere_and_all_joints_are_observed(joints):
    env = PlanarReacher(num_joints=joints)
    states = states_of(env)
    assert uniform(states.angle, np.pi) and uniform(states.velocity, 1.0) and uniform(states.goal, joints)
    obs = jax.jit(jax.vmap(env.observe))(states)
    assert obs.shape == (4000, 3 * joints + 2) and jax.jit(jax.vmap(env.observation_space.contains))(obs).all()
    assert env.action_space.shape == (joints,)


def test_an_arm_whose_tip_is_at_the_goal_earns_1():
    env = PlanarReacher(num_joints=3, goal_x=1.0, goal_y=2.0)
    state = init(env, KEYS[0]).replace(angle=jnp.array([0.0, 0.5, 0.5]) * jnp.pi, velocity=jnp.zeros(3))
    _, reward, *_ = advance(env, state, jnp.zeros(3), None)
    np.testing.assert_allclose(reward, 1, rtol=1e-6)
    _, reward, *_ = advance(env, state.replace(goal=jnp.array([1.0, 1.0])), jnp.zeros(3), None)
    np.testing.assert_allclose(reward, np.exp(-1), rtol=1e-5)


@pytest.mark.parametrize("env", [PlanarReacher(), PlanarSwimmer()])
def test_actions_are_clipped(env):
    state = init(env, KEYS[0])
    far, most = (advance(env, state, jnp.array([x, -x]), None)[0] for x in (7.0, 1.0))
    np.testing.assert_array_equal(far.velocity, most.velocity)
    np.testing.assert_allclose(most.velocity - state.velocity, [0.05, -0.05], rtol=1e-4)


def test_swimmers_start_at_rest_anywhere():
    env = PlanarSwimmer(num_urchins=3)
    states = states_of(env)
    assert all(uniform(part, 1.0) for part in (states.position, states.goal, states.urchins))
    assert not states.velocity.any() and states.urchins.shape == (4000, 3, 2)
    assert abs(np.corrcoef(states.position[:, 0], states.goal[:, 0])[0, 1]) < 0.07
    obs = jax.jit(jax.vmap(env.observe))(states)
    assert obs.shape == (4000, 12) and jax.jit(jax.vmap(env.observation_space.contains))(obs).all()


def test_a_near_urchin_reduces_the_reward_of_the_goal():
    env = PlanarSwimmer(num_urchins=1, goal_x=0.5, goal_y=0.5)
    state = init(env, KEYS[0]).replace(position=jnp.array([0.5, 0.5]))
    rewards = [
        float(advance(env, state.replace(urchins=jnp.array([[0.5 + d, 0.5]])), jnp.zeros(2), None)[1])
        for d in (0.0, 0.1, 5.0)
    ]
    np.testing.assert_allclose(rewards, [0, 1 - np.exp(-0.3), 1], atol=1e-6)


def arm_to_the_left(key):
    return PlanarReacher(goal_x=-1.0, goal_y=jax.random.uniform(key))


def swim_to_the_left(key):
    return PlanarSwimmer(goal_x=-2.0, goal_y=jax.random.uniform(key))


@pytest.mark.parametrize("sample", [arm_to_the_left, swim_to_the_left])
def test_goals_can_be_given_or_sampled(sample):
    env = Randomize(sample(KEYS[0]), sample)
    states = states_of(env, KEYS[:50])
    assert len(set(states.inner.goal[:, 0].tolist())) == 1 and len(set(states.inner.goal[:, 1].tolist())) == 50
    obs = jax.jit(jax.vmap(env.observe))(states)
    assert jax.jit(jax.vmap(env.observation_space.contains))(obs).all()
    cls = type(sample(KEYS[0]))
    goals = jax.vmap(lambda x: cls(goal_x=x, goal_y=0).init(KEYS[0]).goal)(jnp.array([0.5, -0.5]))
    assert goals.tolist() == [[0.5, 0.0], [-0.5, 0.0]]


def test_names_of_gymnax_are_found():
    assert isinstance(make("Reacher-misc"), PlanarReacher) and make("Reacher-misc").max_steps == 100
    assert isinstance(make("Swimmer-misc"), PlanarSwimmer) and make("Swimmer-misc").max_steps == 500


@pytest.mark.parametrize(
    ("cls", "fields", "words"),
    [
        (PlanarReacher, {"num_joints": 0}, "num_joints=0 is too small"),
        (PlanarReacher, {"goal_x": 1.0}, "needs both goal_x and goal_y"),
        (PlanarReacher, {"goal_x": 1.5, "goal_y": 1.5}, r"goal \(1.5, 1.5\) is out of reach: 2 joints"),
        (PlanarReacher, {"goal_x": float("nan"), "goal_y": 1.5}, "out of reach"),
        (PlanarReacher, {"dt": float("nan")}, "dt=nan is out of range: give a finite number above 0"),
        (PlanarReacher, {"torque_scale": float("inf")}, "torque_scale=inf is out of range"),
        (PlanarSwimmer, {"dt": -0.05}, "dt=-0.05 is out of range: give a finite number above 0"),
        (PlanarSwimmer, {"num_urchins": -1}, "num_urchins=-1 is too small"),
        (PlanarSwimmer, {"goal_y": 1.0}, "needs both goal_x and goal_y"),
        (PlanarSwimmer, {"goal_x": float("inf"), "goal_y": 1.0}, "goal_x=inf is out of range"),
    ],
)
def test_invalid_arguments_are_refused(cls, fields, words):
    with pytest.raises(ValueError, match=words):
        cls(**fields)


def test_the_picture_of_an_arm_ends_in_a_red_tip():
    env = PlanarReacher(goal_x=0.0, goal_y=-1.5)
    picture = env.render(init(env, KEYS[0]).replace(angle=jnp.array([0.0, 0.5]) * jnp.pi))
    at = lambda x, y: picture[round(200 - y * 200 / 2.2), round(200 + x * 200 / 2.2)].astype(int)  # noqa: E731
    assert at(1, 1)[0] > at(1, 1)[1] + 80 and at(0.5, 0).max() < 40 and at(0, -1.5)[2] == 255 > at(0, -1.5)[0]


def test_the_picture_of_a_swimmer_shows_urchins_and_goal():
    env = PlanarSwimmer(num_urchins=1, goal_x=0.5, goal_y=0.5)
    state = init(env, KEYS[0]).replace(urchins=jnp.array([[-0.5, -0.5]]), position=jnp.array([0.5, -0.5]))
    picture = env.render(state)
    at = lambda x, y: picture[round(200 - y * 200 / 1.35), round(200 + x * 200 / 1.35)].astype(int)  # noqa: E731
    urchin, goal, fish = at(-0.5, -0.5), at(0.5, 0.5), at(0.5, -0.5)
    assert urchin.max() < 100 and goal[1] > goal[0] + 40 and fish[0] > fish[2] + 100
