"""Dropout: units that are left out at random while a network learns.

Source: Srivastava et al. 2014, "Dropout: A simple way to prevent neural networks from overfitting".
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.struct import Number


class Dropout(NamedTuple):
    """Which units of a network are left out, anew for every sample and layer. The rest are scaled up for it."""

    key: Key
    rate: Number  # the probability that a unit is left out, below 1

    def __call__(self, layer: int, x: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
        """The outputs of a layer, a share `rate` of them zero and the others divided by 1 - `rate`."""
        is_kept = jax.random.uniform(jax.random.fold_in(self.key, layer), x.shape) >= self.rate
        return jnp.where(is_kept, x / (1 - self.rate), 0)
