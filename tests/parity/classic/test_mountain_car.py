"""MountainCar against Gymnasium's, from injected states and over whole episodes."""

import jax
import numpy as np
import pytest

from parity.classic.replay import (
    assert_same,
    our_episode,
    our_step,
    reference,
    reference_episode,
    reference_step,
    state_maker,
)
from shoal.envs.classic.mountain_car import MountainCar, MountainCarState

pytestmark = pytest.mark.sampled(2)

make_state = state_maker(MountainCarState)
CONSTANTS = {
    "min_position": -1.1, "max_position": 0.7, "max_speed": 0.05, "goal_position": 0.45, "force": 0.002,
    "gravity": 0.003,
}  # fmt: skip
OPTIONS = {
    "default": ({}, {}, {}),
    "goal_velocity": ({"goal_velocity": 0.05}, {"goal_velocity": 0.05}, {}),
    "constants": (CONSTANTS, {}, CONSTANTS),
}


def states_and_actions(n):
    rng = np.random.default_rng(0)
    states = rng.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2))
    tenth = n // 10
    states[:tenth, 0] = -1.2
    states[tenth : 2 * tenth, 0] = rng.uniform(-1.2, -1.13, tenth)
    states[2 * tenth : 3 * tenth, 0] = rng.uniform(0.42, 0.6, tenth)
    states[3 * tenth : 4 * tenth, 1] = rng.choice([-0.07, 0.07], tenth)
    return states.astype(np.float32), rng.integers(0, 3, n)


def margin(env, states, state):
    goal, goal_velocity = np.abs(state[:, 0] - env.goal_position), np.abs(state[:, 1] - env.goal_velocity)
    rolled = states[:, 0].astype(np.float64) + state[:, 1]  # right of the wall, or the velocity would be 0
    wall = np.where(state[:, 0] > env.min_position, np.abs(rolled - env.min_position), 1)
    return np.minimum(np.minimum(goal, wall), np.where(env.goal_velocity == 0, 1, goal_velocity))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("x64", [False, True])
def test_one_step_equals_gymnasium(option, x64):
    fields, kwargs, settings = OPTIONS[option]
    states, actions = states_and_actions(10_000 if option == "default" else 3_000)
    theirs = reference_step(reference("MountainCar-v0", settings, **kwargs), states.astype(np.float64), actions)
    env = MountainCar(**fields)
    at_wall = (theirs.state[:, 0] == env.min_position) & (theirs.state[:, 1] == 0)
    assert theirs.terminated.mean() > 0.02 and at_wall.mean() > 0.05
    with jax.enable_x64(x64):
        ours = our_step(env, make_state, states.astype(np.float64 if x64 else np.float32), actions)
    if x64:
        assert_same(ours, theirs, atol=1e-12)
    else:
        assert_same(ours, theirs, atol=1e-6, margin=margin(env, states, theirs.state))


@pytest.mark.parametrize("x64", [False, True])
def test_the_goal_counts_from_exactly_its_position_and_velocity(x64):
    # Without forces the car rolls by its velocity; all these numbers are exact in binary, so 7/16 + 1/16 is the goal.
    states = np.array([[7 / 16, 1 / 16], [7 / 16 - 2**-10, 1 / 16], [7 / 16, 1 / 16 - 2**-10], [0.5, 1 / 32]])
    theirs = reference_step(
        reference("MountainCar-v0", {"force": 0.0, "gravity": 0.0}, goal_velocity=1 / 16), states, np.ones(4, np.int64)
    )
    np.testing.assert_array_equal(theirs.terminated, [True, False, False, False])
    env = MountainCar(force=0.0, gravity=0.0, goal_velocity=1 / 16)
    with jax.enable_x64(x64):
        ours = our_step(env, make_state, states.astype(np.float64 if x64 else np.float32), np.ones(4, np.int64))
        assert_same(ours, theirs, atol=0)


def test_an_episode_with_its_time_limit_equals_gymnasium():
    rng = np.random.default_rng(1)
    start = np.array([-0.5, 0.0])
    theirs, actions = reference_episode(reference("MountainCar-v0"), start, lambda t, obs: int(rng.integers(0, 3)), 201)
    assert len(actions) == 200 and theirs.truncated[-1] and not theirs.terminated.any()
    with jax.enable_x64(True):
        assert_same(our_episode(MountainCar(), make_state(*start), actions), theirs, atol=1e-12)
    assert_same(our_episode(MountainCar(), make_state(*start.astype(np.float32)), actions), theirs, atol=1e-4)


def test_swinging_up_reaches_the_goal_on_the_same_step():
    start = np.array([-0.9, -0.04])
    theirs, actions = reference_episode(
        reference("MountainCar-v0"), start, lambda t, obs: 0 if t and obs[1] < 0 else 2, 201
    )
    assert theirs.terminated[-1] and (theirs.state[:, 0] == -1.2).any()  # it met the left wall on its way
    with jax.enable_x64(True):
        assert_same(our_episode(MountainCar(), make_state(*start), actions), theirs, atol=1e-12)
