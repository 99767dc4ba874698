"""Torsos: flax modules from observation features to a hidden vector. Agents put their heads on top.

Any object with `init(key, features) -> weights` and `apply(weights, features) -> hidden` serves as a torso; both take
any leading axes.
"""

import math
from collections.abc import Callable

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from shoal.nn.convolution import Conv
from shoal.nn.initializers import INITIALIZERS

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jax.numpy.tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


class MLP(nn.Module):
    """Dense layers with zero biases. `initializer` is one of `shoal.nn.initializers.INITIALIZERS`."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False  # before every activation (Ba et al. 2016), as parallel Q-learning needs it
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes hidden"]:
        """Features to the last hidden layer."""
        for size in self.hidden:
            features = nn.Dense(size, kernel_init=INITIALIZERS[self.initializer])(features)
            features = nn.LayerNorm()(features) if self.layer_norm else features
            features = ACTIVATIONS[self.activation](features)
        return features


class CNN(nn.Module):
    """3x3 convolutions, then dense layers; for small images such as MinAtar's and MiniGrid's."""

    channels: tuple[int, ...] = (16,)
    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    layer_norm: bool = False
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes H W C"]) -> Float[Array, "*axes hidden"]:
        """Image to the last hidden layer."""
        activation = ACTIVATIONS[self.activation]
        axes = features.shape[:-3]
        images = features.reshape(math.prod(axes), *features.shape[-3:])
        for size in self.channels:
            images = Conv(size, initializer=self.initializer)(images)
            images = activation(nn.LayerNorm()(images) if self.layer_norm else images)
        dense = MLP(self.hidden, self.activation, self.layer_norm, self.initializer)
        return dense(images.reshape(*axes, math.prod(images.shape[1:])))
