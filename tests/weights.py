"""Weights for tests, drawn by NumPy: none of the programs that initialize networks is compiled for them."""

import jax
import jax.numpy as jnp
import numpy as np


def random_weights(shapes, deviation=0.3, seed=0):
    """Normal deviates in the shapes of a tree, which `jax.eval_shape` may have given; integers are 0."""
    random = np.random.default_rng(seed)

    def draw(x):
        drawn = deviation * random.normal(size=x.shape) if jnp.issubdtype(x.dtype, jnp.floating) else np.zeros(x.shape)
        return jnp.asarray(drawn.astype(x.dtype))

    return jax.tree.map(draw, shapes)
