"""Sine, cosine and wrapped angles against NumPy in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.trig import sincos, wrap_angle


@pytest.mark.parametrize("reach", [1.6, 10.0, 1000.0])
def test_sincos_equals_numpy_within_two_roundings(reach):
    angle = np.linspace(-reach, reach, 400_001).astype(np.float32)
    sin, cos = jax.jit(sincos)(angle)
    np.testing.assert_allclose(sin, np.sin(angle.astype(np.float64)), atol=2e-7, rtol=0)
    np.testing.assert_allclose(cos, np.cos(angle.astype(np.float64)), atol=2e-7, rtol=0)
    assert np.abs(sin).max() <= 1 and np.abs(cos).max() <= 1


def test_sincos_is_exact_at_zero_and_relatively_accurate_near_it():
    angle = np.array([0.0, 1e-30, -1e-10, 1e-4], np.float32)
    sin, cos = sincos(jnp.asarray(angle))
    np.testing.assert_allclose(sin, np.sin(angle.astype(np.float64)), rtol=2e-7)
    np.testing.assert_array_equal(cos[:3], 1)


def test_sincos_keeps_double_precision():
    with jax.enable_x64(True):
        angle = np.linspace(-50, 50, 10_001)
        sin, cos = sincos(jnp.asarray(angle))
        np.testing.assert_allclose(sin, np.sin(angle), atol=1e-15)
        np.testing.assert_allclose(cos, np.cos(angle), atol=1e-15)


def test_the_derivative_of_sine_is_cosine():
    angle = jnp.linspace(-7.0, 7.0, 101)
    slope = jax.vmap(jax.grad(lambda a: sincos(a)[0]))(angle)
    np.testing.assert_allclose(slope, np.cos(np.asarray(angle, np.float64)), atol=1e-6)


def test_the_sine_of_nan_is_nan():
    assert np.isnan(np.asarray(sincos(jnp.array([np.nan, np.inf], jnp.float32)))).all()


@pytest.mark.parametrize("x64", [False, True])
def test_wrapped_angles_equal_the_remainder_of_whole_turns(x64):
    dtype = np.float64 if x64 else np.float32
    angle = np.linspace(-80, 80, 100_001).astype(dtype)
    with jax.enable_x64(x64):
        wrapped = np.asarray(jax.jit(wrap_angle)(angle), np.float64)
    exact = np.remainder(angle.astype(np.float64) + np.pi, 2 * np.pi) - np.pi
    assert np.abs(wrapped).max() <= np.float32(np.pi)
    difference = np.remainder(wrapped - exact + np.pi, 2 * np.pi) - np.pi
    assert np.abs(difference).max() < (1e-13 if x64 else 1e-6)


def test_both_signs_of_pi_stay_where_they_are():
    with jax.enable_x64(True):
        np.testing.assert_array_equal(wrap_angle(jnp.array([np.pi, -np.pi, 0.0])), [np.pi, -np.pi, 0.0])
