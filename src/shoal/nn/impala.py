"""The residual network of IMPALA, for images that need more than one convolution."""

import math
from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from shoal.nn.convolution import Conv
from shoal.nn.torsos import ACTIVATIONS, MLP


class ImpalaCNN(nn.Module):
    """For each of `channels`: a convolution, a 3 x 3 max pooling with stride 2, two residual blocks. Then dense layers.

    A residual block adds to its input the result of two convolutions, with an activation before each.
    Source: Espeholt et al. 2018, figure 3 (right), without its LSTM and with weights of `initializer`.
    """

    reads: ClassVar[str] = "image"

    channels: tuple[int, ...] = (16, 32, 32)
    hidden: tuple[int, ...] = (256,)
    activation: str = "relu"
    layer_norm: bool = False  # before every activation
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes H W C"]) -> Float[Array, "*axes hidden"]:
        """Map images [H, W, C] to the last hidden layer."""

        def activation(x: Array) -> Array:
            return ACTIVATIONS[self.activation](nn.LayerNorm()(x) if self.layer_norm else x)

        axes = features.shape[:-3]
        images = features.reshape(math.prod(axes), *features.shape[-3:])
        for size in self.channels:
            images = nn.max_pool(Conv(size, "SAME", self.initializer)(images), (3, 3), strides=(2, 2), padding="SAME")
            for _ in range(2):
                change = Conv(size, "SAME", self.initializer)(activation(images))
                images = images + Conv(size, "SAME", self.initializer)(activation(change))
        images = activation(images)
        dense = MLP(self.hidden, self.activation, self.layer_norm, self.initializer)
        return dense(images.reshape(*axes, math.prod(images.shape[1:])))
