"""Taxi: a ride, the action mask, fickle passengers, errors, the picture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance
from shoal.core.keys import make_key
from shoal.envs.toy_text.taxi import ABOARD, Taxi, TaxiNoise, TaxiState, decode, encode

SOUTH, NORTH, EAST, WEST, PICK_UP, DROP_OFF = range(6)
RED, GREEN, YELLOW, BLUE = range(4)


def state_of(row, column, passenger, destination, *, is_fickle=False):
    index = jnp.uint16(encode(row, column, passenger, destination))
    return TaxiState(jnp.int32(0), index, jnp.bool_(is_fickle))


def drive(env, state, *actions, noise=None):
    """The states passed through, decoded, and the rewards."""
    passed, rewards = [], []
    for action in actions:
        state, reward, terminated, *_ = advance(env, state, jnp.int32(action), noise)
        passed.append(decode(int(state.index)))
        rewards.append(float(reward))
    return passed, rewards, bool(terminated)


def test_a_passenger_is_picked_up_and_dropped_off():
    passed, rewards, terminated = drive(Taxi(), state_of(1, 0, RED, YELLOW), NORTH, PICK_UP, *[SOUTH] * 4, DROP_OFF)
    assert passed[1] == (0, 0, ABOARD, YELLOW) and passed[-1] == (4, 0, YELLOW, YELLOW)
    assert rewards == [-1] * 6 + [20] and terminated


def test_a_passenger_may_get_off_at_another_stand():
    passed, rewards, terminated = drive(Taxi(), state_of(0, 0, ABOARD, YELLOW), DROP_OFF)
    assert passed == [(0, 0, RED, YELLOW)] and rewards == [-1] and not terminated


@pytest.mark.parametrize(
    "state, action",
    [
        (state_of(2, 2, RED, BLUE), PICK_UP),
        (state_of(0, 0, GREEN, BLUE), PICK_UP),
        (state_of(2, 2, ABOARD, BLUE), DROP_OFF),
        (state_of(4, 3, RED, BLUE), DROP_OFF),
    ],
)
def test_an_illegal_action_costs_ten_and_changes_nothing(state, action):
    passed, rewards, terminated = drive(Taxi(), state, action)
    assert passed == [decode(int(state.index))] and rewards == [-10] and not terminated


def test_walls_stop_a_taxi():
    for row, column in ((0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)):
        for start, action in ((column, EAST), (column + 1, WEST)):
            passed, *_ = drive(Taxi(), state_of(row, start, RED, BLUE), action)
            assert passed[0][:2] == (row, start)
    assert drive(Taxi(), state_of(2, 1, RED, BLUE), EAST)[0][0][:2] == (2, 2)


def test_the_mask_allows_only_actions_that_change_the_state():
    env = Taxi()
    assert env.action_mask(state_of(0, 0, RED, BLUE)).tolist() == [True, False, True, False, True, False]
    assert env.action_mask(state_of(4, 3, ABOARD, BLUE)).tolist() == [False, True, True, False, False, True]
    assert Taxi(masked=False).action_mask(state_of(0, 0, RED, BLUE)) is None


@pytest.mark.parametrize("new, destination", [(0, RED), (1, GREEN), (2, BLUE)])
def test_a_fickle_passenger_changes_the_destination_at_the_first_ride(new, destination):
    env, noise = Taxi(fickle_passenger=True), TaxiNoise(None, jnp.int32(new))
    fickle = state_of(2, 0, ABOARD, YELLOW, is_fickle=True)
    passed, *_ = drive(env, fickle, WEST, NORTH, NORTH, noise=noise)  # a wall, then two cells
    assert [destination for *_, destination in passed] == [YELLOW, destination, destination]
    steady = fickle.replace(is_fickle=jnp.bool_(False))
    assert drive(env, steady, NORTH, noise=noise)[0][0][3] == YELLOW
    waiting = state_of(2, 0, RED, YELLOW, is_fickle=True)
    assert drive(env, waiting, NORTH, noise=noise)[0][0][3] == YELLOW


def test_the_fraction_of_fickle_passengers_equals_the_field():
    def share(probability):
        env = Taxi(fickle_passenger=True, fickle_probability=probability)
        return jax.vmap(env.init)(jax.random.split(make_key(0), 10_000)).is_fickle.mean()

    np.testing.assert_allclose(jax.vmap(share)(jnp.array([0.0, 0.3, 1.0])), [0, 0.3, 1], atol=0.025)
    assert not jax.vmap(Taxi().init)(jax.random.split(make_key(0), 100)).is_fickle.any()


def test_all_other_destinations_are_equally_likely():
    new = jax.vmap(Taxi(fickle_passenger=True).noise)(jax.random.split(make_key(0), 30_000)).new_destination
    assert np.abs(np.bincount(new, minlength=4) - [10_000, 10_000, 10_000, 0]).max() < 5 * np.sqrt(30_000 * 2 / 9)


def test_rewards_are_finite():
    with pytest.raises(ValueError, match="Taxi.step_reward=nan is out of range: give a finite number"):
        Taxi(step_reward=float("nan"))


@pytest.mark.parametrize("field", ["rainy_probability", "fickle_probability"])
def test_an_invalid_probability_is_refused(field):
    with pytest.raises(ValueError, match=f"{field}=1.01 is out of range"):
        Taxi(**{field: 1.01})


def test_the_picture_shows_taxi_passenger_and_destination():
    env = Taxi()
    picture = env.render(state_of(2, 2, RED, BLUE))
    assert picture.shape == (320, 320, 3) and picture.dtype == np.uint8

    def changed(*state):
        other = env.render(state_of(*state))
        return {tuple(cell) for cell in (np.argwhere((picture != other).any(axis=-1)) // 64).tolist()}

    assert changed(2, 3, RED, BLUE) == {(2, 2), (2, 3)}
    assert changed(2, 2, GREEN, BLUE) == {(0, 0), (0, 4)}
    assert changed(2, 2, RED, YELLOW) == {(4, 3), (4, 0)}
    assert changed(2, 2, ABOARD, BLUE) == {(0, 0), (2, 2)}
