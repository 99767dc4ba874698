"""Running statistics against NumPy over everything at once."""

import jax.numpy as jnp
import numpy as np

from shoal.ops.running import RunningStats


def test_batches_of_any_size_add_up_to_the_whole():
    data = np.random.default_rng(0).normal(3.0, 5.0, (700, 2)).astype(np.float32)
    running = RunningStats.zero(jnp.zeros(2))
    for part in np.split(data, [100, 101, 400]):
        running = running.update(jnp.asarray(part))
    np.testing.assert_allclose(running.mean, data.mean(0), rtol=1e-5)
    np.testing.assert_allclose(running.std(), data.std(0), rtol=1e-5)
    assert running.count == 700


def test_time_and_environments_are_both_samples():
    data = np.random.default_rng(1).normal(size=(8, 5, 3)).astype(np.float32)
    running = RunningStats.zero(jnp.zeros(3)).update(jnp.asarray(data), axes=2)
    np.testing.assert_allclose(running.mean, data.reshape(40, 3).mean(0), atol=1e-6)
    assert running.count == 40


def test_before_any_data_nothing_changes():
    running = RunningStats.zero(jnp.zeros(2))
    np.testing.assert_allclose(running.normalize(jnp.asarray([[1.0, -2.0]])), [[1.0, -2.0]], rtol=1e-6)


def test_normalized_values_are_held_within_the_clip():
    running = RunningStats.zero(jnp.zeros(1)).update(jnp.asarray([[0.0], [1.0]]))
    np.testing.assert_allclose(running.normalize(jnp.asarray([1000.0]), clip=5.0), [5.0])


def test_large_offsets_do_not_destroy_the_variance():
    data = (1e4 + np.random.default_rng(2).normal(size=(1000, 1))).astype(np.float32)
    running = RunningStats.zero(jnp.zeros(1))
    for part in np.split(data, 10):
        running = running.update(jnp.asarray(part))
    np.testing.assert_allclose(running.std(), data.astype(np.float64).std(0), rtol=1e-2)


def test_statistics_of_parts_merge_into_those_of_the_whole():
    data = np.random.default_rng(2).normal(-2.0, 3.0, (300, 2)).astype(np.float32)
    nothing = RunningStats.zero(jnp.zeros(2))
    left, right = nothing.update(jnp.asarray(data[:40])), nothing.update(jnp.asarray(data[40:]))
    whole = left.merge(right).merge(nothing)
    np.testing.assert_allclose(whole.mean, data.mean(0), rtol=1e-5)
    np.testing.assert_allclose(whole.std(), data.std(0), rtol=1e-5)
    assert whole.count == 300
    np.testing.assert_array_equal(nothing.merge(nothing).mean, [0, 0])
