"""Shuffles are permutations, differ by key, and put every row in every position equally often."""

import jax
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.ops.shuffle import arithmetic_permutation, exact_permutation, minibatches

SIZES = [1, 2, 3, 7, 12, 96, 100, 128, 512, 640, 1000]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("permute", [arithmetic_permutation, exact_permutation])
def test_every_row_appears_once(permute, n):
    draw = jax.jit(lambda k: permute(k, n))
    for seed in range(20):
        assert sorted(np.asarray(draw(make_key(seed))).tolist()) == list(range(n))


@pytest.mark.parametrize("n", [500, 625, 78_125, 6 * 78_125, 32 * 65_535])
def test_every_row_appears_once_for_sizes_with_few_factors_of_two(n):
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
def test_every_shuffle_separates_neighbors(n):
    # Not only on average over shuffles: one affine map would leave nearly all of them together, or nearly none.
    places = np.asarray(jax.vmap(lambda k: arithmetic_permutation(k, n))(jax.random.split(make_key(3), 200)))
    quarter = np.argsort(places, axis=1) // (n // 4)
    assert (quarter[:, :-1] == quarter[:, 1:]).mean(axis=1).std() < 0.06


# num_steps, num_envs, minibatches: powers of two times an odd rest, powers of two alone, and a size that is sorted.
ROLLOUTS = [
    (125, 32, 8),
    (250, 16, 10),
    (100, 64, 8),
    (96, 32, 8),
    (127, 32, 8),
    (25, 128, 32),
    (128, 16, 8),
    (128, 4, 4),
    (3, 64, 4),
    (127, 8, 8),
]


@pytest.fixture(scope="module", params=ROLLOUTS, ids=str)
def parts_of_samples(request):
    """The minibatch [K, T, E] of each sample for K = 400 keys: by the arithmetic shuffle, and by NumPy's."""
    num_steps, num_envs, parts = request.param
    n = num_steps * num_envs
    shuffle = jax.jit(jax.vmap(lambda k: minibatches(k, (num_steps, num_envs), 1, parts)))
    arithmetic = np.asarray(shuffle(jax.random.split(make_key(4), 400))).reshape(400, n)
    exact = np.random.default_rng(4).permuted(np.tile(np.arange(n), (400, 1)), axis=1)
    return [np.argsort(rows, axis=1).reshape(400, num_steps, num_envs) // (n // parts) for rows in (arithmetic, exact)]


def least_effective_envs(part):
    """1 / sum(squared share of each environment) for the minibatch of each key where that is least."""
    counts = np.stack([(part == i).sum(axis=1) for i in range(part.max() + 1)], axis=1)  # [K, parts, E]
    return (counts.sum(axis=2) ** 2 / (counts**2).sum(axis=2)).min(axis=1)


@pytest.mark.sampled(4)
def test_every_minibatch_of_every_key_comes_from_as_many_environments_as_an_exact_shuffles(parts_of_samples):
    arithmetic, exact = map(least_effective_envs, parts_of_samples)
    assert arithmetic.min() > 0.92 * exact.min()
    assert np.quantile(arithmetic, 0.02) > 0.97 * np.quantile(exact, 0.02)


@pytest.mark.sampled(4)
def test_no_key_keeps_successive_steps_of_an_environment_in_one_minibatch(parts_of_samples):
    # How often two successive steps share a minibatch varies between keys about as much as under an exact shuffle.
    arithmetic, exact = ((x[:, 1:] == x[:, :-1]).mean(axis=(1, 2)) for x in parts_of_samples)
    np.testing.assert_allclose(arithmetic.mean(), exact.mean(), rtol=0.03)
    assert arithmetic.std() < 1.4 * exact.std()
    assert (arithmetic > 1.2 * exact.max()).mean() < 0.005
