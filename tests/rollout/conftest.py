"""Optimizers are optax's, which relies on JAX's standard promotion; the rest of shoal is tested under the strict one."""

import jax
import pytest


@pytest.fixture(autouse=True)
def standard_promotion():
    """Standard dtype promotion for one test."""
    with jax.numpy_dtype_promotion("standard"):
        yield
