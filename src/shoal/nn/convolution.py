"""3 x 3 convolutions that also train fast on a CPU.

On a CPU, XLA computes the gradient of a convolution inside a loop pixel by pixel, and all training happens inside a
loop. A matrix product over copied patches takes a ninth of the time or less (`python benchmarks/convolutions.py`).
Patches need nine times the memory of the images, so large batches are processed in pieces. Accelerators have fast
kernels for convolutions, which are used there.
"""

import math
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.nn.initializers import INITIALIZERS

SIDE = 3
PATCHES = 1_000_000  # largest number of floats in the patches of one piece
OFFSETS = [(row, column) for row in range(SIDE) for column in range(SIDE)]


class Conv(nn.Module):
    """A convolution with zero biases and the parameters of flax's `Conv`. `initializer` is one of `INITIALIZERS`.

    `padding` is "VALID" (the output is smaller by the border) or "SAME" (the input is padded with zeros).
    """

    features: int
    padding: str = "VALID"
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, images: Float[Array, "N H W C"]) -> Float[Array, "N height width features"]:
        """Map images [N, H, W, C] to images with `features` channels."""
        shape = (SIDE, SIDE, images.shape[-1], self.features)
        kernel = self.param("kernel", INITIALIZERS[self.initializer], shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        images = convolve(images, jnp.asarray(kernel), self.padding)
        return images + bias.reshape(1, 1, 1, -1)


def convolve(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    """Convolve images whose last axis is the channel, with the same result as `jax.lax.conv_general_dilated`.

    The platform for which the program is compiled, not the one on which it is traced, selects the implementation.
    """
    return jax.lax.platform_dependent(
        images,
        kernel,
        cpu=partial(_in_pieces, padding=padding),
        default=partial(_by_library, padding=padding),
    )


def _by_library(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _in_pieces(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    if padding == "SAME":
        images = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    at_once = max(1, PATCHES // (len(OFFSETS) * math.prod(images.shape[1:])))
    if len(images) <= at_once:
        return _by_patches(images, kernel)
    piece = jax.checkpoint(_by_patches)  # the backward pass computes the patches again instead of storing them
    return jax.lax.map(lambda image: piece(image[None], kernel)[0], images, batch_size=at_once)


def _by_patches(images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"]) -> Float[Array, "N height width F"]:
    height, width = (size - SIDE + 1 for size in images.shape[1:3])
    patches = jnp.concatenate([images[:, r : r + height, c : c + width] for r, c in OFFSETS], axis=-1)
    return patches @ kernel.reshape(-1, kernel.shape[-1])
