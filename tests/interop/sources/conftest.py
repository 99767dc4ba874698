"""JAX's promotion of dtypes as users have it: other libraries rely on it."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
