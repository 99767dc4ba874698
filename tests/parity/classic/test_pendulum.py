"""Pendulum against Gymnasium's, from injected states and over whole episodes."""

import jax
import numpy as np
import pytest

from parity.classic.replay import (
    assert_same,
    first,
    our_episode,
    our_step,
    reference,
    reference_episode,
    reference_step,
    state_maker,
)
from shoal.envs.classic.pendulum import Pendulum, PendulumState

pytestmark = pytest.mark.sampled(2)

make_state = state_maker(PendulumState, 0.0)
OPTIONS = {
    "default": ({}, {}, {}),
    "g": ({"g": 9.81}, {"g": 9.81}, {}),
    "constants": (
        {"mass": 1.5, "length": 0.7, "dt": 0.02, "max_speed": 5.0, "max_torque": 1.0},
        {},
        {"m": 1.5, "l": 0.7, "dt": 0.02, "max_speed": 5.0, "max_torque": 1.0},
    ),
}


def states_and_actions(n):
    rng = np.random.default_rng(0)
    states = rng.uniform([-80, -8], [80, 8], (n, 2))
    tenth = n // 10
    states[:tenth, 0] = rng.choice([-np.pi, np.pi], tenth) * rng.choice([1, 3, 5], tenth)
    states[tenth : 2 * tenth, 1] = rng.choice([-8, 8], tenth)
    states[2 * tenth : 5 * tenth, 0] = rng.uniform(-np.pi, np.pi, 3 * tenth)
    return states.astype(np.float32), rng.uniform(-3, 3, (n, 1)).astype(np.float32)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("x64", [False, True])
def test_one_step_equals_gymnasium(option, x64):
    fields, kwargs, settings = OPTIONS[option]
    states, actions = states_and_actions(10_000 if option == "default" else 3_000)
    theirs = reference_step(
        reference("Pendulum-v1", settings, **kwargs), states.astype(np.float64), actions.astype(np.float64)
    )
    dtype = np.float64 if x64 else np.float32
    with jax.enable_x64(x64):
        ours = our_step(Pendulum(**fields), make_state, states.astype(dtype), actions.astype(dtype))
    if x64:
        assert_same(ours, theirs, atol=1e-12)
    else:
        assert_same(ours, theirs, atol=5e-6, rtol=1e-6)


@pytest.mark.parametrize("x64", [False, True])
def test_hanging_exactly_down_costs_pi_squared_from_either_side(x64):
    states = np.array([[np.pi, 0.0], [-np.pi, 0.0], [3 * np.pi, 0.0]])
    actions = np.zeros((3, 1))
    theirs = reference_step(reference("Pendulum-v1"), states, actions)
    with jax.enable_x64(x64):
        dtype = np.float64 if x64 else np.float32
        ours = our_step(Pendulum(), make_state, states.astype(dtype), actions.astype(dtype))
    np.testing.assert_allclose(ours.reward, [-(np.pi**2)] * 3, rtol=1e-6)
    np.testing.assert_allclose(ours.reward, theirs.reward, rtol=1e-6)


def test_an_episode_with_its_time_limit_equals_gymnasium():
    rng = np.random.default_rng(1)
    start = np.array([3.0, 0.5])
    theirs, actions = reference_episode(reference("Pendulum-v1"), start, lambda t, obs: rng.uniform(-2, 2, (1,)), 201)
    assert len(actions) == 200 and theirs.truncated[-1] and not theirs.terminated.any()
    with jax.enable_x64(True):
        assert_same(our_episode(Pendulum(), make_state(*start), actions), theirs, atol=1e-12, rtol=1e-12)
    ours = our_episode(Pendulum(), make_state(*start.astype(np.float32)), actions.astype(np.float32))
    assert_same(first(50, ours), first(50, theirs), atol=1e-3, rtol=1e-4)
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)
