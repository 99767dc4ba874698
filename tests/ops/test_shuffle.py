"""Shuffles are permutations, differ by key, and put every row everywhere equally often."""

import jax
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.ops.shuffle import arithmetic_permutation, exact_permutation

SIZES = [1, 2, 3, 7, 12, 96, 100, 128, 512, 640, 1000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("permute", [arithmetic_permutation, exact_permutation])
def test_every_row_appears_once(permute, n):
    draw = jax.jit(lambda k: permute(k, n))
    for seed in range(20):
        assert sorted(np.asarray(draw(make_key(seed))).tolist()) == list(range(n))


@pytest.mark.parametrize("n", [500, 625, 78_125, 6 * 78_125, 32 * 65_535])
def test_every_row_of_a_size_that_is_hardly_a_power_of_two_appears_once(n):
    for seed in range(3, 6):
        np.testing.assert_array_equal(np.sort(arithmetic_permutation(make_key(seed), n)), np.arange(n))


@pytest.mark.parametrize("n", [12, 96, 128])
def test_arithmetic_shuffle_puts_each_row_everywhere_equally_often(n):
    draws = 200 * n
    places = np.asarray(jax.vmap(lambda k: arithmetic_permutation(k, n))(jax.random.split(make_key(1), draws)))
    for row in (0, 1, n // 2, n - 1):
        seen = np.bincount(np.argmax(places == row, axis=1), minlength=n)
        assert stats.chisquare(seen).pvalue > 1e-4, row


@pytest.mark.parametrize("n", [512, 640])
def test_arithmetic_shuffle_mixes_minibatches(n):
    # Neighboring rows (one environment at successive times) must not stay together: the chance of two of them to share
    # a quarter is close to 1/4, as under a uniform shuffle.
    places = np.asarray(jax.vmap(lambda k: arithmetic_permutation(k, n))(jax.random.split(make_key(2), 4000)))
    quarter = np.argsort(places, axis=1) // (n // 4)
    for gap in (1, 2, 4, 8, 64):
        together = (quarter[:, :-gap] == quarter[:, gap:]).mean()
        assert abs(together - 0.25) < 0.03, (gap, together)


@pytest.mark.parametrize("n", [500, 512, 625, 640, 720, 1440])
def test_every_single_shuffle_parts_neighbors(n):
    # Not only on average over shuffles: one affine map would leave nearly all of them together, or nearly none.
    places = np.asarray(jax.vmap(lambda k: arithmetic_permutation(k, n))(jax.random.split(make_key(3), 200)))
    quarter = np.argsort(places, axis=1) // (n // 4)
    assert (quarter[:, :-1] == quarter[:, 1:]).mean(axis=1).std() < 0.06
