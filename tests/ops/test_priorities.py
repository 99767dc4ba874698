"""Prioritized sampling against its nominal probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.ops.priorities import Priorities, Window, error_of_sequences


def given(values):
    """Priorities of these values."""
    values = jnp.asarray(values, jnp.float32)
    return Priorities.zero(len(values)).set(jnp.arange(len(values)), values)


@pytest.mark.parametrize("size", [5, 37, 1000])
def test_samples_are_proportional_to_priorities_and_zeros_are_never_sampled(size):
    random = np.random.default_rng(size)
    values = random.exponential(size=size) * (random.random(size) > 0.3)
    values[size // 4 : size // 2] = 0  # whole blocks of nothing
    values[0] = 1.0
    priorities = given(values)
    index, probability = jax.jit(Priorities.sample, static_argnums=2)(priorities, make_key(0), 100_000)
    counts = np.bincount(np.asarray(index), minlength=size)[:size]
    assert (counts[values == 0] == 0).all() and counts.sum() == 100_000
    share = values / values.sum()
    np.testing.assert_allclose(probability, share[np.asarray(index)], rtol=1e-4)
    is_drawn = values > 0
    # Stratified draws are nearer to their shares than independent ones: the test only bounds the distance.
    assert stats.chisquare(counts[is_drawn], share[is_drawn] * 100_000).pvalue > 1e-3


@pytest.mark.parametrize(("first", "length"), [(0, 100), (3, 2), (97, 5), (30, 70), (50, 99), (99, 1)])
def test_samples_outside_of_a_window_of_the_ring_are_never_taken(first, length):
    values = np.random.default_rng(0).exponential(size=100)
    window = Window(jnp.int32(first), jnp.int32(length), 100)
    index, probability = jax.jit(lambda p: p.sample(make_key(0), 20_000, None, window))(given(values))
    inside = (np.arange(100) - first) % 100 < length
    share = np.where(inside, values, 0) / values[inside].sum()
    counts = np.bincount(np.asarray(index), minlength=100)
    np.testing.assert_allclose(counts / 20_000, share, atol=1e-3)  # stratified
    assert not counts[~inside].any()
    np.testing.assert_allclose(probability, share[np.asarray(index)], rtol=1e-4)


@pytest.mark.parametrize("used", [1, 4, 8])
def test_the_used_samples_of_a_large_batch_are_stratified(used):
    draw = jax.jit(jax.vmap(lambda key: given(np.ones(64)).sample(key, 8, jnp.float32(used))[0]))
    index = np.asarray(draw(jax.random.split(make_key(0), 4_000)))[:, :used]
    counts = np.bincount(index.ravel(), minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert (index // (64 / used) == np.arange(used)).all()  # one from each of as many shares as are used


def test_unused_samples_change_no_priority():
    before = given([1.0, 1.0, 1.0, 1.0])
    index, used = jnp.asarray([2, 0, 2, 3]), jnp.asarray([True, True, False, False])
    after = before.learn(index, jnp.asarray([4.0, 0.5, 99.0, 99.0]), 1.0, used)
    np.testing.assert_allclose(after.leaf.ravel()[:4], [0.5, 1, 4, 1], rtol=1e-5)
    np.testing.assert_allclose(after.largest, 4.0, rtol=1e-5)


def test_an_unused_first_sample_keeps_its_priority():
    priorities = Priorities.zero(4).set(jnp.arange(4, dtype=jnp.int32), jnp.asarray([0.0, 1.0, 1.0, 1.0]))
    index, used = jnp.asarray([0, 1], jnp.int32), jnp.asarray([False, True])
    learned = priorities.learn(index, jnp.asarray([5.0, 2.0]), 1.0, used)
    np.testing.assert_allclose(learned.leaf.ravel(), [0, 2, 1, 1], rtol=1e-5)


def test_block_sums_follow_every_change():
    priorities = given(np.arange(1.0, 51.0))
    changed = priorities.set(jnp.asarray([3, 49, 3]), jnp.asarray([7.0, 0.0, 7.0]))
    np.testing.assert_allclose(changed.block, changed.leaf.sum(axis=1))
    assert changed.leaf.sum() == priorities.leaf.sum() - 4 + 7 - 50


def test_new_priorities_are_errors_to_the_exponent_and_the_maximum_is_kept():
    every = jnp.ones(2, bool)
    priorities = Priorities.zero(10).learn(jnp.asarray([1, 4]), jnp.asarray([-9.0, 0.25]), 0.5, every)
    np.testing.assert_allclose(priorities.leaf.ravel()[jnp.asarray([1, 4])], [3.0, 0.5], rtol=1e-3)
    np.testing.assert_allclose(priorities.largest, 3.0, rtol=1e-3)


def test_a_single_positive_priority_is_always_sampled():
    values = np.zeros(300)
    values[299] = 1e-7
    index, probability = given(values).sample(make_key(3), 64)
    assert (np.asarray(index) == 299).all()
    np.testing.assert_allclose(probability, 1.0, rtol=1e-5)


def test_the_error_of_a_sequence_is_nearly_that_of_its_worst_step():
    # 0.9 x 4 + 0.1 x (1 + 4 + 1) / 3 = 3.8, and 0.9 x 2 + 0.1 x 2 = 2
    error = error_of_sequences(jnp.asarray([[1.0, 2.0], [-4.0, 2.0], [1.0, -2.0]]))
    np.testing.assert_allclose(error, [3.8, 2.0], rtol=1e-6)
