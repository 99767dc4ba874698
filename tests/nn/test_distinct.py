"""A function of distinct rows has the values and the gradients of the function of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.nn import distinct
from shoal.nn.distinct import AT_ONCE, of_distinct


def weighted(weights, rows):
    return jnp.tanh(jnp.sin(rows.astype(jnp.float32)) @ weights["kernel"] + weights["bias"])


def weights_for(length, seed=0):
    rng = np.random.default_rng(seed)
    return {"kernel": jnp.asarray(rng.normal(size=(length, 3)), jnp.float32), "bias": jnp.float32(0.3)}


def check(rows, seed=0):
    rows = jnp.asarray(rows)
    weights = weights_for(rows.shape[1], seed)
    pull = np.random.default_rng(seed).normal(size=(len(rows), 3)).astype(np.float32)

    def both(function):
        value = lambda w: (function(w) * pull).sum()  # noqa: E731
        return function(weights), jax.grad(value)(weights)

    expected = both(lambda w: weighted(w, rows))
    found = jax.jit(lambda rows: both(lambda w: of_distinct(weighted, w, rows)))(rows)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-5), found, expected)


SIZES = [(1, 1, 3), (AT_ONCE - 1, 5, 1), (AT_ONCE, AT_ONCE, 2), (AT_ONCE + 1, 40, 4), (100, 7, 5), (96, 90, 18)]


@pytest.mark.parametrize("rows, kinds, length", SIZES)
def test_rows_have_the_values_and_gradients_of_the_function(rows, kinds, length):
    rng = np.random.default_rng(rows)
    check(rng.integers(0, 256, (kinds, length)).astype(np.uint8)[rng.integers(0, kinds, rows)])


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
def test_rows_of_negative_and_large_integers(dtype):
    high = np.iinfo(dtype).max
    values = np.array([[0, high], [high, 0], [0, 0], [high, high]], dtype)
    check(np.tile(values if dtype is np.uint8 else np.concatenate([values, -values]), (20, 1)))


def test_different_rows_with_the_same_number_are_not_mixed_up(monkeypatch):
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 5, (70, 3)), jnp.uint8)
    monkeypatch.setattr(distinct, "_number", lambda rows: rows[:, 0].astype(jnp.uint32))
    assert int(distinct._groups(rows).count) == len(rows)  # it fell back to every row
    check(rows)


def test_each_distinct_row_is_computed_once():
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 3, (200, 2)), jnp.uint8)
    groups = jax.jit(distinct._groups)(rows)
    count = len(np.unique(np.asarray(rows), axis=0))
    assert int(groups.count) == count == 9
    np.testing.assert_array_equal(np.asarray(groups.rows)[np.asarray(groups.group)], rows)
    assert {*map(tuple, np.asarray(groups.rows)[:count])} == {*map(tuple, np.asarray(rows))}
    calls = []

    def counted(weights, rows):
        jax.debug.callback(lambda: calls.append(1))
        return weighted(weights, rows)

    jax.block_until_ready(of_distinct(counted, weights_for(2), rows))
    jax.effects_barrier()
    assert len(calls) == 1  # 9 rows need one trip, where 200 rows would need 7
    assert AT_ONCE >= 9


def test_members_have_their_own_weights_and_rows():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (3, 90, 2)).astype(np.uint8)
    rows[1] = rng.integers(0, 256, (90, 2))  # many distinct rows: more trips than the others
    rows = jnp.asarray(rows)
    weights = jax.tree.map(lambda *x: jnp.stack(x), *(weights_for(2, seed) for seed in range(3)))
    gradient = jax.vmap(jax.grad(lambda w, r: of_distinct(weighted, w, r).sum()))(weights, rows)
    for member in range(3):
        own = jax.tree.map(lambda x: x[member], weights)  # noqa: B023
        expected = jax.grad(lambda w: weighted(w, rows[member]).sum())(own)  # noqa: B023
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[member], b, atol=1e-4, rtol=1e-5),  # noqa: B023
            gradient,
            expected,
        )
