"""Freeway against MinAtar's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minatar.replay import Adapter, changed, compare, first_states_of, reference
from shoal.core.keys import make_key
from shoal.envs.minatar.freeway import Freeway
from shoal.rollouts.rollout import sample_noise

pytestmark = pytest.mark.sampled


def numbers(word):
    return [int(word) >> 4 * i & 15 for i in range(8)]


def packed(columns):
    return sum(np.asarray(column).astype(np.uint64) << np.uint64(4 * i) for i, column in enumerate(columns))


def ways(noise):
    """(speeds, whether cars go right): decimal digits of a fraction of 28 bits, computed by hand."""
    digits = []
    for word in noise:
        fraction = int(word) >> 4
        digits += [fraction * 10 ** (k + 1) // 2**28 % 10 for k in range(4)]
    return np.array([digit % 5 + 1 for digit in digits]), np.array([digit >= 5 for digit in digits])


def answers(noise):
    speeds, right = ways(noise)
    return [("randint", lambda low, high, n: speeds.copy()), ("rand", np.where(right, 0.75, 0.25))]


def put(game, state):
    game.pos, game.move_timer = int(state.y), int(state.move_timer)
    columns = zip(*(numbers(word) for word in (state.cars, state.timers, state.speeds, state.go_right)), strict=True)
    game.cars = [[x, i + 1, timer, speed if right else -speed] for i, (x, timer, speed, right) in enumerate(columns)]
    game.terminate_timer = 2500 - int(state.time)


def theirs(game):
    return {
        "chicken": (game.pos, game.move_timer),
        "left": game.terminate_timer,
        "cars": [[int(number) for number in car] for car in game.cars],
    }


def ours(state):
    lanes = zip(*(numbers(word) for word in (state.cars, state.timers, state.speeds, state.go_right)), strict=True)
    return {
        "chicken": (int(state.y), int(state.move_timer)),
        "left": 2500 - int(state.time),
        "cars": [[x, i + 1, timer, speed if right else -speed] for i, (x, timer, speed, right) in enumerate(lanes)],
    }


ADAPTER = Adapter(answers, put, theirs, ours)


def crafted(env):
    """Random states: any positions, speeds and timers, and the last steps of an episode."""
    rng, n = np.random.default_rng(0), 1500
    speeds = rng.integers(1, 6, (8, n))
    fields = {
        "cars": packed(rng.integers(0, 10, (8, n))),
        "speeds": packed(speeds),
        "timers": packed(rng.integers(0, speeds + 1)),
        "go_right": packed(rng.integers(0, 2, (8, n))),
        "y": rng.integers(1, 10, n),
        "move_timer": rng.integers(0, 4, n),
        "time": rng.choice([0, 100, 2497, 2498, 2499, 2500], n),
    }
    return changed(first_states_of(env, n), **fields)


def upwards(game, rng):
    return int(rng.integers(3)) if rng.random() < 0.2 else 1


def test_games_equal_minatars():
    env = Freeway()
    their_states = compare(env, ADAPTER, first_states_of(env), 10_000)
    assert min(each["left"] for each in their_states) == -1  # whole games, which end on step 2,501
    their_states = compare(env, ADAPTER, first_states_of(env), 10_000, policy=upwards)
    assert len({str([car[3] for car in each["cars"]]) for each in their_states}) > 30  # many crossings


@pytest.mark.parametrize("minimal", [True, False])
def test_single_steps_from_every_kind_of_state_equal_minatars(minimal):
    env = Freeway(sticky_action_prob=0.0, minimal_actions=minimal)
    compare(env, ADAPTER, crafted(env), 4_000, restart=3)


def test_the_first_state_is_minatars():
    env = Freeway()
    init, noise, observe = jax.jit(env.init), jax.jit(env.game_noise), jax.jit(env.observe)
    for seed in range(16):
        state = jax.tree.map(np.asarray, init(make_key(seed)))
        their_env = reference(env)
        their_env.env.random.load(iter(answers(noise(make_key(seed)))))
        their_env.reset()
        assert theirs(their_env.env) == ours(state)
        np.testing.assert_array_equal(observe(jax.tree.map(jnp.asarray, state)), their_env.state())


def test_speeds_and_directions_are_uniform_in_every_lane():
    _, noise = sample_noise(Freeway(), make_key(0), (20_000,))
    sampled = [ways(pair) for pair in np.asarray(noise)]
    choices = np.array([speeds + 5 * right for speeds, right in sampled])
    for lane in range(8):
        fraction = np.bincount(choices[:, lane], minlength=11)[1:] / len(choices)
        assert np.abs(fraction - 0.1).max() < 0.01
    together = np.corrcoef(choices.T) - np.eye(8)
    assert np.abs(together).max() < 0.03
