"""MountainCarContinuous against Gymnasium's, from injected states and over whole episodes.

Gymnasium rounds this one's state to float32 after every step. The float64 tests replace the `float32` of its module, so
that the same equations run in double precision.
"""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from gymnasium.envs.classic_control import continuous_mountain_car

from parity.classic.replay import (
    assert_same,
    our_episode,
    our_step,
    reference,
    reference_episode,
    reference_step,
    state_maker,
)
from shoal.envs.classic.mountain_car import MountainCarState
from shoal.envs.classic.mountain_car_continuous import MountainCarContinuous

pytestmark = pytest.mark.sampled(2)

make_state = state_maker(MountainCarState)
CONSTANTS = {
    "min_position": -1.1, "max_position": 0.7, "max_speed": 0.05, "goal_position": 0.5, "power": 0.002,
    "min_action": -0.5, "max_action": 0.75,
}  # fmt: skip
OPTIONS = {
    "default": ({}, {}, {}),
    "goal_velocity": ({"goal_velocity": 0.05}, {"goal_velocity": 0.05}, {}),
    "constants": (CONSTANTS, {}, CONSTANTS),
}


@pytest.fixture
def double_reference(monkeypatch):
    monkeypatch.setattr(continuous_mountain_car, "np", SimpleNamespace(array=np.array, float32=np.float64))


def make_reference(settings, kwargs):
    # The spaces are built with the real float32; only what a step stores is wanted in double precision.
    return reference("MountainCarContinuous-v0", settings, **kwargs)


def states_and_actions(n):
    rng = np.random.default_rng(0)
    states = rng.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2))
    tenth = n // 10
    states[:tenth, 0] = -1.2
    states[tenth : 2 * tenth, 0] = rng.uniform(-1.2, -1.13, tenth)
    states[2 * tenth : 3 * tenth, 0] = rng.uniform(0.38, 0.6, tenth)
    states[3 * tenth : 4 * tenth, 1] = rng.choice([-0.07, 0.07], tenth)
    return states.astype(np.float32), rng.uniform(-2, 2, (n, 1)).astype(np.float32)


def margin(env, states, state):
    goal, goal_velocity = np.abs(state[:, 0] - env.goal_position), np.abs(state[:, 1] - env.goal_velocity)
    rolled = states[:, 0].astype(np.float64) + state[:, 1]
    wall = np.where(state[:, 0] > np.float32(env.min_position), np.abs(rolled - env.min_position), 1)
    return np.minimum(np.minimum(goal, wall), np.where(env.goal_velocity == 0, 1, goal_velocity))


@pytest.mark.parametrize("option", OPTIONS)
def test_one_step_equals_gymnasium(option):
    fields, kwargs, settings = OPTIONS[option]
    states, actions = states_and_actions(10_000 if option == "default" else 3_000)
    theirs = reference_step(make_reference(settings, kwargs), states, actions)
    env = MountainCarContinuous(**fields)
    at_wall = (theirs.state[:, 0] == np.float32(env.min_position)) & (theirs.state[:, 1] == 0)
    assert theirs.terminated.mean() > 0.02 and at_wall.mean() > 0.05 and (np.abs(actions) > 1).mean() > 0.4
    assert_same(our_step(env, make_state, states, actions), theirs, atol=1e-6, margin=margin(env, states, theirs.state))


@pytest.mark.parametrize("option", OPTIONS)
def test_one_step_equals_gymnasium_in_float64(option, double_reference):
    fields, kwargs, settings = OPTIONS[option]
    states, actions = states_and_actions(3_000)
    states, actions = states.astype(np.float64), actions.astype(np.float64)
    theirs = reference_step(make_reference(settings, kwargs), states, actions)
    with jax.enable_x64(True):
        assert_same(our_step(MountainCarContinuous(**fields), make_state, states, actions), theirs, atol=1e-12)


def test_the_left_wall_stops_the_car_and_lets_it_go():
    # gymnax keeps a car at the wall with its speed; Gymnasium (and the physics) take the speed away.
    states = np.array([[-1.19, -0.05], [-1.2, -0.07], [-1.2, 0.0]], np.float32)
    actions = np.array([[0.0], [-1.0], [0.0]], np.float32)
    theirs = reference_step(make_reference({}, {}), states, actions)
    np.testing.assert_array_equal(theirs.state[:, 1] == 0, [True, True, False])
    ours = our_step(MountainCarContinuous(), make_state, states, actions)
    np.testing.assert_array_equal(ours.state[:2], np.array([[-1.2, 0], [-1.2, 0]], np.float32))
    assert ours.state[2, 1] > 0  # from rest at the wall the slope pulls it back down
    assert_same(ours, theirs, atol=1e-6)


def test_force_beyond_the_limits_is_penalized_but_not_applied():
    states, actions = np.array([[-0.5, 0.0], [-0.5, 0.0]], np.float32), np.array([[3.0], [1.0]], np.float32)
    ours = our_step(MountainCarContinuous(), make_state, states, actions)
    np.testing.assert_array_equal(ours.state[0], ours.state[1])
    np.testing.assert_allclose(ours.reward, [-0.9, -0.1], rtol=1e-6)
    assert_same(ours, reference_step(make_reference({}, {}), states, actions), atol=1e-6)


def test_an_episode_with_its_time_limit_equals_gymnasium(double_reference):
    rng = np.random.default_rng(1)
    start = np.array([-0.5, 0.0])
    theirs, actions = reference_episode(make_reference({}, {}), start, lambda t, obs: rng.uniform(-1, 1, (1,)), 1000)
    assert len(actions) == 999 and theirs.truncated[-1] and not theirs.terminated.any()
    with jax.enable_x64(True):
        ours = our_episode(MountainCarContinuous(), make_state(*start), actions)
    assert_same(ours, theirs, atol=1e-12)


def test_an_episode_in_float32_equals_gymnasium_up_to_the_goal():
    start = np.array([-0.5, 0.0], np.float32)
    theirs, actions = reference_episode(
        make_reference({}, {}),
        start,
        lambda t, obs: np.array([-1.0 if t and obs[1] < 0 else 1.0], np.float32),
        1000,
    )
    assert theirs.terminated[-1] and theirs.reward[-1] > 99
    assert_same(our_episode(MountainCarContinuous(), make_state(*start), actions), theirs, atol=1e-4)
