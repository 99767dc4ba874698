"""Schedules against Python integers, also for runs of more steps than 32 bits count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.schedules import linear, passed, progress, whole


def test_schedules_are_linear_and_stay_at_their_end():
    np.testing.assert_allclose(linear(1.0, 0.2, jnp.asarray([-1.0, 0.0, 0.5, 1.0, 9.0])), [1, 1, 0.6, 0.2, 0.2])
    np.testing.assert_allclose(linear(1.0, 0.2, jnp.asarray([0.0, 0.25, 0.5]), 0.5), [1, 0.6, 0.2])


def test_a_schedule_of_length_zero_is_at_its_end():
    np.testing.assert_allclose(linear(1.0, 0.2, jnp.asarray([0.0, 0.5]), 0.0), [0.2, 0.2], rtol=1e-6)


def test_progress_is_the_fraction_of_the_horizon_also_beyond_32_bits():
    within = jnp.arange(2, dtype=jnp.int32) * 100
    np.testing.assert_allclose(progress(jnp.int32(3), 200, 1000.0, within), [0.6, 0.7])
    np.testing.assert_allclose(progress(jnp.int32(2**20), 2**18, 2.0**40), 2**-2)


def test_without_a_horizon_progress_is_zero():
    assert progress(jnp.int32(10**6), 100, 0.0) == 0


@pytest.mark.parametrize("age", [0, 1, 7, 999, 2**24 + 1, 2**31 - 2])
@pytest.mark.parametrize("steps", [1, 10, 2048, 262_144])
@pytest.mark.parametrize("every", [1, 3, 500, 4096, 30_011])
def test_multiples_passed_in_an_update_are_counted_exactly(age, steps, every):
    expected = (age + 1) * steps // every - age * steps // every
    assert int(jax.jit(passed, static_argnums=1)(jnp.int32(age), steps, jnp.float32(every))) == expected


def test_counts_are_the_nearest_whole_numbers():
    assert [int(whole(jnp.float32(x))) for x in (0.4, 0.6, 7.9, 100.5)] == [0, 1, 8, 100]
