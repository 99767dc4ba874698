"""Initializers: the orthogonal one for every shape and for a large population; the variance of the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.nn.initializers import INITIALIZERS, orthogonal
from shoal.nn.torsos import CNN, MLP


@pytest.mark.parametrize("shape", [(4, 64), (64, 64), (64, 2), (64, 1), (3, 3, 4, 16)])
def test_matrices_are_orthogonal_in_their_smaller_dimension(shape):
    matrix = np.asarray(jax.jit(lambda k: orthogonal(1.5)(k, shape))(make_key(0))).reshape(-1, shape[-1])
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 2.25 * np.eye(len(gram)), atol=5e-6)


def test_a_population_initialises_without_lapack():
    init = jax.jit(jax.vmap(lambda k: orthogonal()(k, (64, 64))))
    assert "custom_call" not in init.lower(jax.random.split(make_key(0), 2)).as_text()
    matrices = np.asarray(init(jax.random.split(make_key(0), 200)))
    np.testing.assert_allclose(matrices.transpose(0, 2, 1) @ matrices, np.tile(np.eye(64), (200, 1, 1)), atol=5e-6)


def test_directions_are_uniform():
    # The first column is a normalised Gaussian vector: its mean is 0 and its second moment I / n.
    first = np.asarray(jax.jit(jax.vmap(lambda k: orthogonal()(k, (8, 8))))(jax.random.split(make_key(1), 20_000)))[
        :, :, 0
    ]
    np.testing.assert_allclose(first.mean(0), np.zeros(8), atol=0.01)
    np.testing.assert_allclose(first.T @ first / 20_000, np.eye(8) / 8, atol=0.01)


VARIANCES = {  # of weights from n inputs to m outputs
    "orthogonal": lambda n, m: 2 / max(n, m),
    "glorot_uniform": lambda n, m: 2 / (n + m),
    "he_normal": lambda n, m: 2 / n,
    "lecun_normal": lambda n, m: 1 / n,
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_layers_start_with_the_variance_of_the_paper(name):
    @jax.jit
    def both(key):
        """The kernels of a dense layer and of a convolution."""
        dense = MLP((400,), initializer=name).init(key, jnp.zeros(300))
        images = CNN((128,), (), initializer=name).init(key, jnp.zeros((8, 8, 32)))
        return dense["params"]["Dense_0"]["kernel"], images["params"]["Conv_0"]["kernel"]

    dense, images = map(np.asarray, both(make_key(0)))
    np.testing.assert_allclose(np.var(dense), VARIANCES[name](300, 400), rtol=0.02)
    if name == "glorot_uniform":
        np.testing.assert_allclose(np.abs(dense).max(), np.sqrt(6 / 700), rtol=1e-3)
    ways_out = 128 if name == "orthogonal" else 9 * 128  # Glorot's outputs of a kernel count its pixels
    np.testing.assert_allclose(np.var(images), VARIANCES[name](9 * 32, ways_out), rtol=0.02)
