"""Sums of many small numbers in float32 against exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops import sums

TENTH = float(np.float32(0.1))


@pytest.mark.parametrize("run", [lambda f: f, jax.vmap], ids=["one", "many"])
def test_a_million_tenths_are_a_hundred_thousand(run):
    @jax.jit
    @run
    def summed(x):
        start = jnp.float32(0), jnp.float32(0), jnp.float32(0)

        def step(i, loop):
            total, rounding, plain = loop
            return *sums.add(total, rounding, x), plain + x

        return jax.lax.fori_loop(0, 1_000_000, step, start)

    total, rounding, plain = map(np.asarray, summed(jnp.full(() if run is not jax.vmap else 3, 0.1, jnp.float32)))
    np.testing.assert_allclose(total, 1e6 * TENTH, atol=0.004)  # half of the last digit
    np.testing.assert_allclose(total.astype(np.float64) - rounding, 1e6 * TENTH, atol=1e-4)
    assert (np.abs(plain - 1e5) > 900).all()  # without it


def test_few_numbers_are_summed_plainly():
    assert sums.add(jnp.float32(1), None, jnp.float32(2)) == (3, None)
    assert sums.are_few(1_000) and not sums.are_few(1_001) and not sums.are_few(None)


def test_trees_are_summed_leaf_by_leaf():
    total = {"a": jnp.zeros(2), "b": (jnp.ones(()),)}
    (summed, rounding) = sums.add_trees(total, jax.tree.map(jnp.zeros_like, total), total)
    jax.tree.map(np.testing.assert_array_equal, summed, {"a": np.zeros(2), "b": (2.0,)})
    assert jax.tree.structure(rounding) == jax.tree.structure(total)
