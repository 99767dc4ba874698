"""CartPole against Gymnasium's, from injected states and over whole episodes."""

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
from shoal.envs.classic.cartpole import CartPole, CartPoleState

pytestmark = pytest.mark.sampled(2)

make_state = state_maker(CartPoleState)
ANGLE = 12 * 2 * np.pi / 360
OPTIONS = {
    "default": ({}, {}, {}),
    "sutton_barto_reward": ({"sutton_barto_reward": True}, {"sutton_barto_reward": True}, {}),
    "semi-implicit": ({"integrator": "semi-implicit"}, {}, {"kinematics_integrator": "semi-implicit"}),
    "constants": (
        {"gravity": 7.0, "mass_cart": 1.5, "mass_pole": 0.4, "length": 0.8, "force_mag": 6.0, "tau": 0.03},
        {},
        # Gymnasium computes these two once, so a test has to keep them consistent.
        {
            "gravity": 7.0, "masscart": 1.5, "masspole": 0.4, "length": 0.8, "force_mag": 6.0, "tau": 0.03,
            "total_mass": 1.9, "polemass_length": 0.4 * 0.8,
        },
    ),
}  # fmt: skip


def states_and_actions(n):
    rng = np.random.default_rng(0)
    states = rng.uniform([-2.6, -3, -0.25, -3], [2.6, 3, 0.25, 3], (n, 4))
    states[: n // 10, 0] = rng.choice([-2.4, 2.4], n // 10)
    states[n // 10 : n // 5, 2] = rng.choice([-ANGLE, ANGLE], n // 10)
    return states.astype(np.float32), rng.integers(0, 2, n)


def margin(state):
    return np.minimum(np.abs(np.abs(state[:, 0]) - 2.4), np.abs(np.abs(state[:, 2]) - ANGLE))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("x64", [False, True])
def test_one_step_equals_gymnasium(option, x64):
    fields, kwargs, settings = OPTIONS[option]
    states, actions = states_and_actions(10_000 if option == "default" else 3_000)
    theirs = reference_step(reference("CartPole-v1", settings, **kwargs), states.astype(np.float64), actions)
    assert 0.1 < theirs.terminated.mean() < 0.9
    with jax.enable_x64(x64):
        ours = our_step(CartPole(**fields), make_state, states.astype(np.float64 if x64 else np.float32), actions)
    if x64:
        assert_same(ours, theirs, atol=1e-12)
    else:
        assert_same(ours, theirs, atol=1e-6, rtol=1e-6, margin=margin(theirs.state))


@pytest.mark.parametrize("option", ["default", "sutton_barto_reward"])
def test_a_threshold_is_reached_only_by_crossing_it(option):
    # With no velocity the position stays as injected, so both sides judge exactly the threshold.
    fields, kwargs, settings = OPTIONS[option]
    over = np.nextafter
    states = np.array(
        [[2.4, 0, 0, 0], [-2.4, 0, 0, 0], [over(2.4, 3), 0, 0, 0], [over(-2.4, -3), 0, 0, 0]]
        + [[0, 0, ANGLE, 0], [0, 0, -ANGLE, 0], [0, 0, over(ANGLE, 1), 0], [0, 0, over(-ANGLE, -1), 0]]
    )
    actions = np.zeros(8, np.int64)
    theirs = reference_step(reference("CartPole-v1", settings, **kwargs), states, actions)
    np.testing.assert_array_equal(theirs.terminated, [False, False, True, True] * 2)
    with jax.enable_x64(True):
        assert_same(our_step(CartPole(**fields), make_state, states, actions), theirs, atol=1e-12)


@pytest.mark.parametrize("name, limit", [("CartPole-v1", 500), ("CartPole-v0", 200)])
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_an_episode_with_its_time_limit_equals_gymnasium(name, limit):
    def balance(t, obs):
        return 1 if t == 0 else int(obs @ np.array([0.1, 0.2, 3.0, 1.0]) > 0)

    start = np.array([0.01, -0.02, 0.03, 0.04])
    theirs, actions = reference_episode(reference(name), start, balance, limit + 1)
    assert len(actions) == limit and theirs.truncated[-1] and not theirs.terminated.any()
    # A balanced pole is unstable: under fixed actions rounding grows 4.6-fold every 20 steps.
    env = CartPole(max_steps=limit)
    with jax.enable_x64(True):
        ours = our_episode(env, make_state(*start), actions)
    assert_same(first(100, ours), first(100, theirs), atol=1e-12)
    np.testing.assert_array_equal(ours.terminated[:400], theirs.terminated[:400])
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)
    ours = our_episode(env, make_state(*start.astype(np.float32)), actions)
    assert_same(first(100, ours), first(100, theirs), atol=1e-4)
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)


def test_a_fall_ends_the_episode_on_the_same_step():
    start = np.zeros(4)
    theirs, actions = reference_episode(reference("CartPole-v1"), start, lambda t, obs: 1, 100)
    assert theirs.terminated[-1] and theirs.reward[-1] == 1
    with jax.enable_x64(True):
        assert_same(our_episode(CartPole(), make_state(*start), actions), theirs, atol=1e-12)
