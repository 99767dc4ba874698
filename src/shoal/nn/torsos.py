"""Torsos: networks that map an observation to a hidden vector. Agents add their heads to it.

A torso is any object with `init(key, features) -> weights` and `apply(weights, features) -> hidden`, for any leading
axes; a flax module, for example. Its class may have two more attributes.

`reads` is the form of the observation that the torso takes as `features`:

- "vector": floats [D]: discrete components one-hot, arrays flattened, parts of tuples and dicts concatenated;
- "image": one image [H, W, C] of floats; the observation must be one image;
- "observation": the observation as the environment gives it;
- not declared: "image" if the observation is one array with three axes, else "vector".

`is_dense = True` declares that all layers are matrix products. PPO then computes actor and critic in one batched
product, and on a CPU a library computes the products of large networks (`Agent.weights_per_step`). The default, False,
is correct for every torso, but slower for a dense one.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from shoal.nn.convolution import Conv
from shoal.nn.dropout import Dropout
from shoal.nn.initializers import INITIALIZERS

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jax.numpy.tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


class MLP(nn.Module):
    """Dense layers with zero biases. `initializer` is one of `shoal.nn.initializers.INITIALIZERS`."""

    reads: ClassVar[str] = "vector"
    is_dense: ClassVar[bool] = True

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False  # before every activation (Ba et al. 2016); parallel Q-learning needs it
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(
        self, features: Float[Array, "*axes D"], dropout: Dropout | None = None
    ) -> Float[Array, "*axes hidden"]:
        """Map features [D] to the last hidden layer, with `dropout` after each product."""
        for layer, size in enumerate(self.hidden):
            features = nn.Dense(size, kernel_init=INITIALIZERS[self.initializer])(features)
            features = features if dropout is None else dropout(layer, features)
            features = nn.LayerNorm()(features) if self.layer_norm else features
            features = ACTIVATIONS[self.activation](features)
        return features


class CNN(nn.Module):
    """3 x 3 convolutions, then dense layers; for small images such as those of MinAtar."""

    reads: ClassVar[str] = "image"

    channels: tuple[int, ...] = (16,)
    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    layer_norm: bool = False
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes H W C"]) -> Float[Array, "*axes hidden"]:
        """Map images [H, W, C] to the last hidden layer."""
        activation = ACTIVATIONS[self.activation]
        axes = features.shape[:-3]
        images = features.reshape(math.prod(axes), *features.shape[-3:])
        for size in self.channels:
            images = Conv(size, initializer=self.initializer)(images)
            images = activation(nn.LayerNorm()(images) if self.layer_norm else images)
        dense = MLP(self.hidden, self.activation, self.layer_norm, self.initializer)
        return dense(images.reshape(*axes, math.prod(images.shape[1:])))


class NatureCNN(nn.Module):
    """Three convolutions with strides 4, 2 and 1, then dense layers; for images of at least 36 x 36, such as Atari's.

    Source: Mnih et al. 2015, methods, "Model architecture", where `hidden` is (512,) and `activation` "relu".
    """

    reads: ClassVar[str] = "image"
    smallest: ClassVar[int] = 36  # height and width with which one position remains after the last convolution

    channels: tuple[int, int, int] = (32, 64, 64)
    hidden: tuple[int, ...] = (512,)
    activation: str = "relu"
    layer_norm: bool = False
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes H W C"]) -> Float[Array, "*axes hidden"]:
        """Map images [H, W, C] to the last hidden layer."""
        activation = ACTIVATIONS[self.activation]
        axes = features.shape[:-3]
        images = features.reshape(math.prod(axes), *features.shape[-3:])
        for size, (side, stride) in zip(self.channels, ((8, 4), (4, 2), (3, 1)), strict=True):
            images = Conv(size, "VALID", self.initializer, side, stride)(images)
            images = activation(nn.LayerNorm()(images) if self.layer_norm else images)
        dense = MLP(self.hidden, self.activation, self.layer_norm, self.initializer)
        return dense(images.reshape(*axes, math.prod(images.shape[1:])))
