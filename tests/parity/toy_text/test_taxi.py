"""Taxi against Gymnasium's: every entry of the table, the mask, and episodes with rain and fickle passengers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.toy_text.tables import (
    Queue,
    assert_same_table,
    assert_same_values,
    draws,
    our_best_values,
    our_run,
    reference,
)
from shoal.core.registry import make
from shoal.envs.toy_text.taxi import TaxiState, decode, encode

pytestmark = pytest.mark.sampled

WEATHER = [{}, {"is_rainy": True}, {"is_rainy": True, "rainy_probability": 0.6}]


@pytest.mark.parametrize("weather", WEATHER)
def test_the_table_equals_gymnasium(weather):
    assert_same_table(make("Taxi-v4", **weather), reference("Taxi-v4", **weather))


@pytest.mark.parametrize("weather", WEATHER)
def test_planning_equals_gymnasium(weather):
    assert_same_values(make("Taxi-v4", **weather), reference("Taxi-v4", **weather), sweeps=400)


def test_the_mask_equals_gymnasium():
    theirs, index = reference("Taxi-v4").unwrapped, jnp.arange(500, dtype=jnp.uint16)
    states = jax.vmap(lambda i: TaxiState(jnp.int32(0), i, jnp.bool_(False)))(index)
    for fields in ({}, {"is_rainy": True}):
        ours = jax.vmap(make("Taxi-v4", **fields).action_mask)(states)
        np.testing.assert_array_equal(ours, [theirs.action_mask(i) for i in range(500)])


def test_encoding_equals_gymnasium():
    theirs = reference("Taxi-v4").unwrapped
    for index in range(500):
        assert decode(index) == theirs.decode(index)
        assert encode(*decode(index)) == index
    parts = decode(jnp.arange(500, dtype=jnp.uint16))
    np.testing.assert_array_equal(encode(*parts), np.arange(500))


@pytest.mark.parametrize("is_rainy", [False, True])
@pytest.mark.parametrize("fickle_passenger", [False, True])
def test_episodes_equal_gymnasium(is_rainy, fickle_passenger):
    steps = 20_000
    settings = {"is_rainy": is_rainy, "fickle_passenger": fickle_passenger, "fickle_probability": 0.7}
    env, theirs, queue = make("Taxi-v4", **settings), reference("Taxi-v4", **settings), Queue()
    starts, noise, actions = draws(env, steps)
    # Three of four steps are those of a good driver, so that passengers ride and arrive.
    ours, actions = _driven(env, starts, noise, actions)

    starts, noise = jax.tree.map(np.asarray, (starts, noise))
    theirs.reset(seed=0)
    theirs.unwrapped._np_random = queue
    _restart(theirs, starts, -1)
    changed = 0
    for t in range(steps):
        queue.numbers = [0.5 if noise is None or noise.outcome_noise is None else float(noise.outcome_noise[t])]
        queue.choices = [] if noise is None or noise.new_destination is None else [int(noise.new_destination[t])]
        before = theirs.unwrapped.s
        index, reward, terminated, truncated, info = theirs.step(int(actions[t]))
        changed += decode(before)[3] != decode(index)[3]
        assert tuple(part[t].item() for part in ours) == (index, reward, terminated, truncated), t
        if terminated or truncated:
            _restart(theirs, starts, t)
    assert ours.terminated.sum() > 300 and (ours.reward == -10).sum() > 100
    assert (changed > 50) == fickle_passenger


def test_the_time_limit_equals_gymnasium():
    env = make("Taxi-v4")
    starts, noise, _ = draws(env, 401)
    ours = our_run(env, starts, np.zeros(401, int), noise)
    assert np.flatnonzero(ours.truncated).tolist() == [199, 399] and not ours.terminated.any()
    assert reference("Taxi-v4").spec.max_episode_steps == 200


def _driven(env, starts, noise, random_actions):
    """A run with optimal actions, every fourth replaced by a random one; and the actions."""
    value = our_best_values(env, 0.99, 400)
    model = jax.tree.map(np.asarray, env.model())
    target = model.reward + 0.99 * np.where(model.terminated, 0, value[model.next_state])
    best = jnp.asarray((model.probability * target).sum(-1).argmax(-1), jnp.int32)
    is_random = np.random.default_rng(1).random(len(random_actions)) < 0.25

    def step(state, given):
        t, noise, start = given
        action = jnp.where(jnp.asarray(is_random)[t], jnp.asarray(random_actions, jnp.int32)[t], best[state.index])
        after, _, terminated, truncated, _ = env.advance(state, action, noise)
        done = terminated | truncated
        return jax.tree.map(lambda fresh, old: jnp.where(done, fresh, old), start, after), action

    first = jax.tree.map(lambda x: x[-1], starts)
    given = (jnp.arange(len(random_actions)), noise, starts)
    actions = np.asarray(jax.jit(lambda *given: jax.lax.scan(step, first, given)[1])(*given))
    return our_run(env, starts, actions, noise), actions


def _restart(theirs, starts, t):
    theirs.reset()
    theirs.unwrapped.s = int(starts.index[t])
    theirs.unwrapped.fickle_step = bool(starts.is_fickle[t])
