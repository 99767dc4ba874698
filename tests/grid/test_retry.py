"""Loops of different lengths: the same states alone, side by side, and nested."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.grid.retry import retry


def dice(key, wanted):
    """Throw until a die shows `wanted` for the second time: (wanted, times shown, throws, the throws as bits)."""

    def draw(key):
        return jax.random.randint(key, (), 1, 7)

    def throw(lots, state):
        wanted, shown, throws, bits = state
        return wanted, shown + (lots == wanted).astype(jnp.int32), throws + 1, bits ^ lots << throws % 28

    return retry(key, draw, throw, lambda state: state[1] == 2, (wanted, *[jnp.int32(0)] * 3))


def by_hand(key, wanted):
    shown = throws = bits = 0
    while shown < 2:
        lot = int(jax.random.randint(jax.random.fold_in(key, throws), (), 1, 7))
        shown, bits, throws = shown + (lot == wanted), bits ^ lot << throws % 28, throws + 1
    return wanted, shown, throws, bits


@pytest.mark.parametrize("size", [1, 3, 64, 65, 300])
def test_side_by_side_is_one_after_another(size):
    keys, wanted = jax.random.split(make_key(0), size), jnp.arange(size, dtype=jnp.int32) % 6 + 1
    alone = [jax.jit(dice)(k, w) for k, w in zip(keys, wanted, strict=True)]
    together = jax.jit(jax.vmap(dice))(keys, wanted)
    for one, many in zip(np.array(alone).T, together, strict=True):
        np.testing.assert_array_equal(one, many)


def test_a_state_follows_from_its_key_alone():
    for seed in range(4):
        key = make_key(seed)
        assert tuple(map(int, dice(key, jnp.int32(3)))) == by_hand(key, 3)


def test_lanes_may_share_their_start_or_their_key_and_be_nested():
    keys = jax.random.split(make_key(1), 12)
    flat = jax.vmap(lambda key: dice(key, jnp.int32(5)))(keys)
    nested = jax.vmap(jax.vmap(lambda key: dice(key, jnp.int32(5))))(keys.reshape(3, 4))
    for one, many in zip(flat, nested, strict=True):
        np.testing.assert_array_equal(one, many.ravel())
    shared = jax.vmap(lambda wanted: dice(keys[0], wanted))(jnp.arange(1, 7, dtype=jnp.int32))
    assert [int(throws) for throws in shared[2]] == [by_hand(keys[0], wanted)[2] for wanted in range(1, 7)]


def test_what_is_done_from_the_start_is_left_alone():
    def done(key):
        return retry(key, jax.random.key_data, lambda *_: jnp.int32(7), lambda state: state < 9, jnp.int32(8))

    assert done(make_key(0)) == 8
    assert jax.vmap(done)(jax.random.split(make_key(0), 3)).tolist() == [8, 8, 8]
