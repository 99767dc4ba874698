"""The network of the article's search on Doors: the cells as 225 numbers from 0 to 3, then 64 and 32 units."""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from shoal.nn.initializers import INITIALIZERS


class Cells(nn.Module):
    """Dense layers on the numbers of the cells; shoal's own network would read them one-hot, as 900 inputs."""

    reads: ClassVar[str] = "observation"
    is_dense: ClassVar[bool] = True

    hidden: tuple[int, ...] = (64, 32)

    @nn.compact
    def __call__(self, obs):
        """Map cells [225] to the last hidden layer."""
        features = jnp.asarray(obs, jnp.float32)
        for size in self.hidden:
            features = jax.nn.relu(nn.Dense(size, kernel_init=INITIALIZERS["orthogonal"])(features))
        return features
