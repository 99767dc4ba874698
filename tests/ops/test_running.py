"""Running statistics against NumPy over all data at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


@pytest.mark.parametrize("constant", [3.14159, 1e-3, 1000.1, -1e6 - 0.3])
@pytest.mark.parametrize("shape", [(64, 16), (10, 3)])
def test_a_constant_input_becomes_zero_and_not_noise(shape, constant):
    batch = jnp.full((*shape, 1), constant)

    @jax.jit
    def merge_often(running, batch):
        return jax.lax.fori_loop(0, 5_000, lambda _, running: running.update(batch, axes=2), running)

    running = merge_often(RunningStats.zero(jnp.zeros(1)), batch)
    np.testing.assert_array_equal(running.normalize(batch), 0)


def test_rounding_noise_of_an_input_stays_small():
    # 3.14159 and its neighbours in single precision, 2.4e-7 apart: far below the floor of sqrt(1e-8).
    batch = jnp.float32(3.14159) + 2.4e-7 * jax.random.randint(jax.random.key(0), (50, 4, 1), -1, 2).astype(jnp.float32)
    assert len(np.unique(batch)) == 3
    normalized = RunningStats.zero(jnp.zeros(1)).update(batch, axes=2).normalize(batch)
    assert 0 < jnp.sqrt(jnp.mean(normalized**2)) < 0.01


def test_inputs_are_divided_as_gymnasium_and_stable_baselines_do():
    data = np.array([[1.0], [1.0002]], np.float32)  # variance 1e-8, as much as is added to it
    running = RunningStats.zero(jnp.zeros(1)).update(jnp.asarray(data))
    expected = (data - data.mean()) / np.sqrt(data.astype(np.float64).var() + 1e-8)
    np.testing.assert_allclose(running.normalize(jnp.asarray(data)), expected, rtol=2e-3)


def test_statistics_of_parts_merge_into_those_of_the_whole():
    data = np.random.default_rng(2).normal(-2.0, 3.0, (300, 2)).astype(np.float32)
    nothing = RunningStats.zero(jnp.zeros(2))
    left, right = nothing.update(jnp.asarray(data[:40])), nothing.update(jnp.asarray(data[40:]))
    whole = left.merge(right).merge(nothing)
    np.testing.assert_allclose(whole.mean, data.mean(0), rtol=1e-5)
    np.testing.assert_allclose(whole.std(), data.std(0), rtol=1e-5)
    assert whole.count == 300
    np.testing.assert_array_equal(nothing.merge(nothing).mean, [0, 0])


def test_statistics_of_many_batches_stay_exact():
    # A million batches of -0.1 and 0.1: the variance is 0.01. Without their rounding, the sums give 0.0098.
    pair = RunningStats.zero(jnp.float32(0)).update(jnp.asarray([-0.1, 0.1]))

    @jax.jit
    def run(pair):
        def more(i, stats):
            return stats.merge(RunningStats(pair.count, pair.mean + 1e-3 * (i % 2), pair.deviation))

        return jax.lax.fori_loop(0, 1_000_000, more, RunningStats.zero(jnp.float32(0)))

    stats = run(pair)
    np.testing.assert_allclose(stats.deviation / stats.count, 0.01 + 0.25e-6, rtol=1e-5)
    np.testing.assert_allclose(stats.mean, 5e-4, rtol=1e-4)


def test_samples_are_counted_beyond_the_integers_of_float32():
    stats = RunningStats.zero(jnp.float32(0)).replace(count=jnp.float32(2**25))
    one = RunningStats(jnp.float32(1), jnp.float32(0), jnp.float32(0))
    stats = jax.jit(lambda stats: jax.lax.fori_loop(0, 1_000, lambda i, s: s.merge(one), stats))(stats)
    np.testing.assert_allclose(stats.count, 2**25 + 1_000, atol=4)


def test_parts_without_statistics_stay_as_they_are():
    data = np.random.default_rng(3).normal(4, 3, (50, 2)).astype(np.float32)
    running = RunningStats.zero({"choice": None, "speed": jnp.zeros(2)})
    choices = jnp.arange(50, dtype=jnp.int32)
    for part in (slice(0, 20), slice(20, 50)):
        running = running.update({"choice": choices[part], "speed": jnp.asarray(data[part])})
    assert running.count == 50 and running.mean["choice"] is None and running.std()["choice"] is None
    found = running.normalize({"choice": choices, "speed": jnp.asarray(data)})
    np.testing.assert_array_equal(found["choice"], choices)
    assert found["choice"].dtype == jnp.int32
    np.testing.assert_allclose(found["speed"], (data - data.mean(0)) / data.std(0), rtol=1e-3, atol=1e-5)
