"""Convolutions of 3 x 3 pixels that also learn fast on a CPU.

There XLA computes the gradient of a convolution inside a loop, where all training happens, pixel by pixel: a matrix
product over copied patches takes a ninth of the time or less (`python benchmarks/convolutions.py`), and nine times an
image's memory for the patches of whatever passes at once. Accelerators have kernels of their own for it.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.nn.initializers import orthogonal

SIDE = 3
OFFSETS = [(row, column) for row in range(SIDE) for column in range(SIDE)]


class Conv(nn.Module):
    """A convolution with orthogonal weights (gain sqrt 2) and zero biases, and the parameters of flax's `Conv`.

    `padding` is "VALID", which loses the border, or "SAME", which takes zeros to lie beyond it.
    """

    features: int
    padding: str = "VALID"

    @nn.compact
    def __call__(self, images: Float[Array, "N H W C"]) -> Float[Array, "N height width features"]:
        """Images to images with other channels."""
        kernel = self.param("kernel", orthogonal(2**0.5), (SIDE, SIDE, images.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        images = convolve(images, jnp.asarray(kernel), self.padding)
        return images + bias.reshape(1, 1, 1, -1)


def convolve(
    images: Float[Array, "N H W C"], kernel: Float[Array, "3 3 C F"], padding: str
) -> Float[Array, "N height width F"]:
    """What `jax.lax.conv_general_dilated` computes for images with channels last."""
    if jax.default_backend() != "cpu":
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    if padding == "SAME":
        images = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = (size - SIDE + 1 for size in images.shape[1:3])
    patches = jnp.concatenate([images[:, r : r + height, c : c + width] for r, c in OFFSETS], axis=-1)
    return patches @ kernel.reshape(-1, kernel.shape[-1])
