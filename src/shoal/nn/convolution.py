"""Convolutions of 3 x 3 pixels that also learn fast on a CPU.

There XLA computes the gradient of a convolution inside a loop, where all training happens, pixel by pixel: a matrix
product over copied patches takes a ninth of the time or less (`python benchmarks/convolutions.py`). Patches take nine
times an image's memory, so many images go by turns. Accelerators have kernels of their own for it.
"""

import math
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.nn.initializers import INITIALIZERS

SIDE = 3
PATCHES = 1_000_000  # numbers in the patches of one turn
OFFSETS = [(row, column) for row in range(SIDE) for column in range(SIDE)]


class Conv(nn.Module):
    """A convolution with zero biases and the parameters of flax's `Conv`. `initializer` is one of `INITIALIZERS`.

    `padding` is "VALID", which loses the border, or "SAME", which takes zeros to lie beyond it.
    """

    features: int
    padding: str = "VALID"
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, images: Float[Array, "N H W C"]) -> Float[Array, "N height width features"]:
        """Images to images with other channels."""
        shape = (SIDE, SIDE, images.shape[-1], self.features)
        kernel = self.param("kernel", INITIALIZERS[self.initializer], shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        images = convolve(images, jnp.asarray(kernel), self.padding)
        return images + bias.reshape(1, 1, 1, -1)


def convolve(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    """What `jax.lax.conv_general_dilated` computes for images with channels last.

    The platform that a program is compiled for decides the way, not the one where it is traced.
    """
    return jax.lax.platform_dependent(
        images,
        kernel,
        cpu=partial(_in_turns, padding=padding),
        default=partial(_by_library, padding=padding),
    )


def _by_library(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _in_turns(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    if padding == "SAME":
        images = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    at_once = max(1, PATCHES // (len(OFFSETS) * math.prod(images.shape[1:])))
    if len(images) <= at_once:
        return _by_patches(images, kernel)
    turn = jax.checkpoint(_by_patches)  # for a gradient, each turn makes its patches again
    return jax.lax.map(lambda image: turn(image[None], kernel)[0], images, batch_size=at_once)


def _by_patches(images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"]) -> Float[Array, "N height width F"]:
    height, width = (size - SIDE + 1 for size in images.shape[1:3])
    patches = jnp.concatenate([images[:, r : r + height, c : c + width] for r, c in OFFSETS], axis=-1)
    return patches @ kernel.reshape(-1, kernel.shape[-1])
