"""The orthogonal initialiser is orthogonal, in every shape, and in a large population."""

import jax
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.nn.initializers import orthogonal


@pytest.mark.parametrize("shape", [(4, 64), (64, 64), (64, 2), (64, 1), (3, 3, 4, 16)])
def test_matrices_are_orthogonal_in_their_smaller_dimension(shape):
    matrix = np.asarray(orthogonal(1.5)(make_key(0), shape)).reshape(-1, shape[-1])
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 2.25 * np.eye(len(gram)), atol=5e-6)


def test_a_population_initialises_without_lapack():
    init = jax.jit(jax.vmap(lambda k: orthogonal()(k, (64, 64))))
    assert "custom_call" not in init.lower(jax.random.split(make_key(0), 2)).as_text()
    matrices = np.asarray(init(jax.random.split(make_key(0), 200)))
    np.testing.assert_allclose(matrices.transpose(0, 2, 1) @ matrices, np.tile(np.eye(64), (200, 1, 1)), atol=5e-6)


def test_directions_are_uniform():
    # The first column is a normalised Gaussian vector: its mean is 0 and its second moment I / n.
    first = np.asarray(jax.vmap(lambda k: orthogonal()(k, (8, 8)))(jax.random.split(make_key(1), 20_000)))[:, :, 0]
    np.testing.assert_allclose(first.mean(0), np.zeros(8), atol=0.01)
    np.testing.assert_allclose(first.T @ first / 20_000, np.eye(8) / 8, atol=0.01)
