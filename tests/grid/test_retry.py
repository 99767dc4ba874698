"""`retry`: loops of different lengths give the same states alone, under `vmap`, and nested."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.form import form_for, using
from shoal.core.keys import make_key
from shoal.grid.retry import LIMIT, retry


def dice(key, wanted, limit=LIMIT, **options):
    """Throw until a die shows `wanted` for the second time: (wanted, times shown, throws, the throws as bits)."""

    def draw(key):
        return jax.random.randint(key, (), 1, 7)

    def throw(lots, state):
        wanted, shown, throws, bits = state
        return wanted, shown + (lots == wanted).astype(jnp.int32), throws + 1, bits ^ lots << throws % 28

    zero = jnp.int32(0)
    otherwise = (wanted, zero, -jnp.ones_like(zero), zero)
    return retry(key, draw, throw, lambda state: state[1] == 2, (wanted, zero, zero, zero), otherwise, limit, **options)


@jax.jit
def lots_of(key):
    return jax.vmap(lambda i: jax.random.randint(jax.random.fold_in(key, i), (), 1, 7))(jnp.arange(200))


def by_hand(key, wanted):
    shown = throws = bits = 0
    lots = lots_of(key).tolist()
    while shown < 2:
        lot = lots[throws]
        shown, bits, throws = shown + (lot == wanted), bits ^ lot << throws % 28, throws + 1
    return wanted, shown, throws, bits


@pytest.mark.sampled
@pytest.mark.parametrize("size", [65, 1, 3, 64, 300])
def test_retry_under_vmap_equals_a_loop(size):
    keys, wanted = jax.random.split(make_key(0), size), jnp.arange(size, dtype=jnp.int32) % 6 + 1
    throw_alone = jax.jit(dice)
    alone = [throw_alone(k, w) for k, w in zip(keys, wanted, strict=True)]
    together = jax.jit(jax.vmap(dice))(keys, wanted)
    for one, many in zip(np.array(alone).T, together, strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("size", [3, 8, 9, 300])
def test_the_form_of_an_accelerator_changes_no_state(monkeypatch, size):
    monkeypatch.setattr("shoal.grid.retry.WORKERS_AT_ONCE", (8, 1 / 4))
    keys, wanted = jax.random.split(make_key(0), size), jnp.arange(size, dtype=jnp.int32) % 6 + 1
    with using(form_for("gpu")):
        on_gpu = jax.jit(jax.vmap(lambda *args: dice(*args, limit=40)))(keys, wanted)
    for one, other in zip(on_gpu, jax.jit(jax.vmap(lambda *args: dice(*args, limit=40)))(keys, wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_follows_from_its_key_alone():
    for seed in range(4):
        key = make_key(seed)
        assert tuple(map(int, jax.jit(dice)(key, jnp.int32(3)))) == by_hand(key, 3)


def test_retry_works_under_nested_vmap_and_with_a_shared_key():
    keys = jax.random.split(make_key(1), 12)
    flat = jax.jit(jax.vmap(lambda key: dice(key, jnp.int32(5))))(keys)
    nested = jax.jit(jax.vmap(jax.vmap(lambda key: dice(key, jnp.int32(5)))))(keys.reshape(3, 4))
    for one, many in zip(flat, nested, strict=True):
        np.testing.assert_array_equal(one, many.ravel())
    shared = jax.jit(jax.vmap(lambda wanted: dice(keys[0], wanted)))(jnp.arange(1, 7, dtype=jnp.int32))
    assert [int(throws) for throws in shared[2]] == [by_hand(keys[0], wanted)[2] for wanted in range(1, 7)]


def test_a_state_that_is_accepted_at_the_start_is_unchanged():
    def done(key):
        start, otherwise = jnp.int32(8), jnp.int32(0)
        return retry(key, jax.random.key_data, lambda *_: jnp.int32(7), lambda state: state < 9, start, otherwise)

    assert jax.jit(done)(make_key(0)) == 8
    assert jax.jit(jax.vmap(done))(jax.random.split(make_key(0), 3)).tolist() == [8, 8, 8]


def test_the_number_of_attempts_between_checks_changes_no_state():
    keys, wanted = jax.random.split(make_key(0), 100), jnp.arange(100, dtype=jnp.int32) % 6 + 1
    often = jax.jit(jax.vmap(lambda k, w: dice(k, w, attempts=1)))(keys, wanted)
    seldom = jax.jit(jax.vmap(dice))(keys, wanted)
    assert all(map(np.array_equal, often, seldom))


def test_without_a_fallback_state_the_state_after_the_last_attempt_is_kept():
    def throw(key):
        start = (jnp.int32(0), jnp.int32(0))
        count = lambda lots, state: (state[0] + 1, lots)  # noqa: E731
        return retry(key, lambda k: jax.random.randint(k, (), 1, 7), count, lambda s: s[1] == 9, start, None, 13, 1)

    keys = jax.random.split(make_key(0), 3)
    count, last = jax.jit(jax.vmap(throw))(keys)
    assert count.tolist() == [13] * 3 and last.tolist() == [int(lots_of(key)[12]) for key in keys]
    assert tuple(map(int, jax.jit(throw)(keys[0]))) == (13, int(last[0]))


def test_beyond_the_limit_retry_returns_the_fallback_state_with_and_without_vmap():
    keys, wanted = jax.random.split(make_key(2), 200), jnp.arange(200, dtype=jnp.int32) % 6 + 1
    needed = [by_hand(k, w)[2] for k, w in zip(keys, wanted.tolist(), strict=True)]
    expected = [throws if throws <= 16 else -1 for throws in needed]
    assert 30 < expected.count(-1) < 170
    together = jax.jit(jax.vmap(lambda k, w: dice(k, w, limit=16)))(keys, wanted)
    assert together[2].tolist() == expected
    throw_alone = jax.jit(lambda k, w: dice(k, w, limit=16)[2])
    alone = [int(throw_alone(k, w)) for k, w in zip(keys[:40], wanted, strict=False)]
    assert alone == expected[:40]


def test_retry_stops_when_no_state_can_be_accepted():
    def never(key, wanted):
        return dice(key, wanted, limit=20)  # rounded up to 24, to the same number alone and side by side

    assert jax.jit(never)(make_key(0), jnp.int32(9))[2] == -1
    assert jax.jit(jax.vmap(never))(jax.random.split(make_key(0), 100), jnp.full(100, 9))[2].tolist() == [-1] * 100
