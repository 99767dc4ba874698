"""Acrobot against Gymnasium's, from injected states and over whole episodes. Its angles are compared as directions."""

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
from shoal.envs.classic.acrobot import Acrobot, AcrobotState

pytestmark = pytest.mark.sampled

make_state = state_maker(AcrobotState)
OPTIONS = {
    "book": ({}, {}),
    "nips": ({"equations": "nips"}, {"book_or_nips": "nips"}),
    "constants": (
        {
            "dt": 0.1, "link_length_1": 1.2, "link_length_2": 0.9, "link_mass_1": 0.8, "link_mass_2": 1.3,
            "link_com_pos_1": 0.6, "link_com_pos_2": 0.4, "link_moi": 1.1, "max_vel_1": 6.0, "max_vel_2": 9.0,
            "torques": (-2.0, 0.5, 1.5),
        },
        {
            "dt": 0.1, "LINK_LENGTH_1": 1.2, "LINK_LENGTH_2": 0.9, "LINK_MASS_1": 0.8, "LINK_MASS_2": 1.3,
            "LINK_COM_POS_1": 0.6, "LINK_COM_POS_2": 0.4, "LINK_MOI": 1.1, "MAX_VEL_1": 6.0, "MAX_VEL_2": 9.0,
            "AVAIL_TORQUE": [-2.0, 0.5, 1.5],
        },
    ),
}  # fmt: skip


class Replayed:
    """A generator that hands out given numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def uniform(self, low, high):
        number = next(self.numbers)
        assert low <= number <= high
        return number


def states_and_actions(n):
    rng = np.random.default_rng(0)
    top = np.array([np.pi, np.pi, 4 * np.pi, 9 * np.pi])
    states = rng.uniform(-top, top, (n, 4))
    half, tenth = n // 2, n // 10
    states[:half, 2:] *= 0.2  # speeds of ordinary play
    states[half : half + tenth, 2:] = rng.choice([-1, 1], (tenth, 2)) * top[2:]
    states[half + tenth : half + 2 * tenth, :2] = rng.choice([-1, 1], (tenth, 2)) * rng.uniform(3.1, 3.14, (tenth, 2))
    return states.astype(np.float32), rng.integers(0, 3, n)


def margin(state):
    return np.abs(-np.cos(state[:, 0]) - np.cos(state[:, 0] + state[:, 1]) - 1)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("x64", [False, True])
def test_one_step_equals_gymnasium(option, x64):
    fields, settings = OPTIONS[option]
    states, actions = states_and_actions(10_000 if option == "book" else 3_000)
    theirs = reference_step(reference("Acrobot-v1", settings), states.astype(np.float64), actions)
    env = Acrobot(**fields)
    bounded = (np.abs(theirs.state[:, 2]) == env.max_vel_1) | (np.abs(theirs.state[:, 3]) == env.max_vel_2)
    wrapped = np.abs(theirs.state[:, :2] - states[:, :2]).max(axis=1) > 3.5
    assert theirs.terminated.mean() > 0.05 and bounded.mean() > 0.05 and wrapped.mean() > 0.05
    with jax.enable_x64(x64):
        ours = our_step(env, make_state, states.astype(np.float64 if x64 else np.float32), actions)
    assert (np.abs(ours.state[:, :2]) <= np.float32(np.pi)).all()
    if x64:
        assert_same(ours, theirs, atol=1e-12, rtol=1e-12)
    else:
        # The second half starts at extreme speeds, where one step of Runge-Kutta magnifies rounding: by up to 2.4e-3
        # where LLVM does not contract products and sums.
        assert_same(ours, theirs, atol=4e-3, rtol=1e-5, margin=margin(theirs.state) / 10, angles=(0, 1))
        ours, theirs = first(len(states) // 2, ours), first(len(states) // 2, theirs)
        assert_same(ours, theirs, atol=1e-5, rtol=1e-5, margin=margin(theirs.state), angles=(0, 1))


def test_angles_wrap_as_gymnasium_wraps_them():
    # With dt = 0 the step only wraps. Both signs of pi stay; beyond it, whole turns are taken away.
    angles = np.array([np.pi, -np.pi, np.nextafter(np.pi, 4), -np.nextafter(np.pi, 4), 3.2, -3.2, 9.0, -9.0, 12.5])
    states = np.stack([angles, angles[::-1], 0 * angles, 0 * angles], axis=1)
    actions = np.ones(len(states), np.int64)
    theirs = reference_step(reference("Acrobot-v1", {"dt": 0.0}), states, actions)
    np.testing.assert_array_equal(theirs.state[:2, 0], [np.pi, -np.pi])
    with jax.enable_x64(True):
        ours = our_step(Acrobot(dt=0.0), make_state, states, actions)
    near = np.abs(np.abs(angles) - np.pi) < 1e-15  # one rounding beyond pi may stay
    np.testing.assert_allclose(ours.state[~near, 0], theirs.state[~near, 0], atol=1e-12)
    np.testing.assert_array_equal(ours.state[:2, 0], [np.pi, -np.pi])


def test_torque_noise_enters_as_in_gymnasium():
    states, actions = states_and_actions(1_000)
    noise = np.random.default_rng(2).uniform(-0.5, 0.5, len(states))
    env = reference("Acrobot-v1", {"torque_noise_max": 0.5})
    env.unwrapped._np_random = Replayed(noise)
    theirs = reference_step(env, states.astype(np.float64), actions)
    with jax.enable_x64(True):
        ours = our_step(Acrobot(torque_noise_max=0.5), make_state, states.astype(np.float64), actions, noise)
        assert_same(ours, theirs, atol=1e-12, rtol=1e-12)
        silent = our_step(Acrobot(), make_state, states.astype(np.float64), actions)
    assert not np.allclose(silent.state, ours.state, atol=1e-3)


def test_the_first_steps_of_an_episode_equal_gymnasium():
    # The motion is chaotic: rounding grows by orders of magnitude every few seconds, so only the start is compared.
    rng = np.random.default_rng(1)
    start = np.array([0.05, -0.02, 0.01, 0.03])
    theirs, actions = reference_episode(reference("Acrobot-v1"), start, lambda t, obs: int(rng.integers(0, 3)), 30)
    assert len(actions) == 30
    with jax.enable_x64(True):
        assert_same(our_episode(Acrobot(), make_state(*start), actions), theirs, atol=1e-12)
    assert_same(our_episode(Acrobot(), make_state(*start.astype(np.float32)), actions), theirs, atol=1e-4)


def test_an_idle_episode_reaches_its_time_limit_at_the_same_step():
    start = np.array([0.05, -0.02, 0.01, 0.03])
    theirs, actions = reference_episode(reference("Acrobot-v1"), start, lambda t, obs: 1, 501)
    assert len(actions) == 500 and theirs.truncated[-1]
    with jax.enable_x64(True):
        assert_same(our_episode(Acrobot(), make_state(*start), actions), theirs, atol=1e-10)


def test_pumping_reaches_the_line_on_the_same_step():
    start = np.array([0.05, -0.02, 0.01, 0.03])
    theirs, actions = reference_episode(
        reference("Acrobot-v1"), start, lambda t, obs: 1 if t == 0 else (2 if obs[5] > 0 else 0), 501
    )
    assert theirs.terminated[-1] and theirs.reward[-1] == 0
    with jax.enable_x64(True):
        assert_same(our_episode(Acrobot(), make_state(*start), actions), theirs, atol=1e-6)
