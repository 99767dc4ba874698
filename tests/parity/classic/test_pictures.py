"""Pictures against Gymnasium's: the same size, and nearly the same pixels.

Gymnasium rounds every position to whole pixels and includes the rim, so rims differ by one pixel. A picture that lacks
a part, or has it in another position or color, exceeds the bounds below.
"""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import shoal.envs.classic.acrobot as acrobot
import shoal.envs.classic.cartpole as cartpole
import shoal.envs.classic.mountain_car as mountain_car
import shoal.envs.classic.mountain_car_continuous as mountain_car_continuous
import shoal.envs.classic.pendulum as pendulum

START = jnp.int32(0)


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def theirs(name, state, **attributes):
    reference = gymnasium.make(name, render_mode="rgb_array")
    reference.reset(seed=0)
    reference.unwrapped.state = np.array(state, float)
    for attribute, value in attributes.items():
        setattr(reference.unwrapped, attribute, value)
    picture = reference.render()
    reference.close()
    return picture


def difference(ours, reference):
    """(mean absolute difference, the same against a picture that is empty)."""
    assert ours.dtype == np.uint8 and ours.shape == reference.shape
    wide = reference.astype(int)
    return np.abs(wide - ours).mean(), np.abs(wide - 255).mean()


def numbers(*values):
    return [jnp.float32(value) for value in values]


@pytest.mark.parametrize("state", [(0, 0, 0.05, 0), (-1.5, 0, -0.2, 0), (2.39, 1, 0.2, 0), (0.7, 0, -1.2, 0)])
def test_cartpole_looks_the_same(state):
    ours = cartpole.CartPole().render(cartpole.CartPoleState(START, *numbers(*state)))
    off, empty = difference(ours, theirs("CartPole-v1", state))
    assert off < 0.2 < 1.4 < empty


@pytest.mark.parametrize("state", [(0.3, -0.6, 0, 0), (2.5, 1.0, 0, 0), (0, 0, 0, 0), (-1.6, 3.0, 0, 0)])
def test_acrobot_looks_the_same(state):
    ours = acrobot.Acrobot().render(acrobot.AcrobotState(START, *numbers(*state)))
    off, empty = difference(ours, theirs("Acrobot-v1", state))
    assert off < 0.4 < 2 < empty


@pytest.mark.parametrize("position", [-1.2, -0.5, 0.3, 0.5])
@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("MountainCar-v0", mountain_car.MountainCar()),
        ("MountainCarContinuous-v0", mountain_car_continuous.MountainCarContinuous()),
    ],
)
def test_mountain_cars_look_the_same(name, env, position):
    ours = env.render(mountain_car.MountainCarState(START, *numbers(position, 0)))
    off, empty = difference(ours, theirs(name, (position, 0)))
    assert off < 0.4 < 1.2 < empty


@pytest.mark.parametrize("state", [(0.3, 0, 0), (2.5, 1, -1), (-1.2, 3, 0.3), (9, 0, 2)])
def test_pendulum_looks_the_same(state):
    ours = pendulum.Pendulum().render(pendulum.PendulumState(START, *numbers(*state)))
    off, empty = difference(ours, theirs("Pendulum-v1", state[:2], last_u=state[2]))
    assert off < 0.15 + 0.5 * abs(state[2]) < 1.2 < empty  # the arrow is of our own design


@pytest.mark.parametrize(("torque", "open_quarter"), [(2, np.s_[150:249, 251:350]), (-2, np.s_[150:249, 150:249])])
def test_the_pendulums_arrow_turns_with_the_torque(torque, open_quarter):
    # Hanging down. The arrow begins at the top and ends a little under three quarters of a turn on: one stays open.
    picture = pendulum.Pendulum().render(pendulum.PendulumState(START, *numbers(np.pi, 0, torque)))
    reference = theirs("Pendulum-v1", (np.pi, 0), last_u=torque)
    for dark in (picture.max(axis=2) < 100, reference.max(axis=2) < 100):
        quarters = [dark[150:249, 150:249], dark[150:249, 251:350], dark[251:350, 150:249], dark[251:350, 251:350]]
        assert dark[open_quarter].sum() == min(quarter.sum() for quarter in quarters)
