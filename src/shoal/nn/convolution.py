"""Convolutions that also train fast on a CPU.

On a CPU, XLA computes the gradient of a convolution inside a loop pixel by pixel, and all training happens inside a
loop. A matrix product over copied patches takes a ninth of the time or less (`python benchmarks/convolutions.py`).
Patches of 3 x 3 need nine times the memory of the images, so large batches are processed in pieces. Accelerators have
fast kernels for convolutions, which are used there.
"""

import math
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.nn.initializers import INITIALIZERS

PATCHES = 1_000_000  # largest number of floats in the patches of one piece


class Conv(nn.Module):
    """A convolution with zero biases and the parameters of flax's `Conv`. `initializer` is one of `INITIALIZERS`.

    `padding` is "VALID" (the output is smaller by the border) or "SAME" (the input is padded with zeros). `side` is the
    height and width of the kernel, `stride` the distance of its positions in pixels.
    """

    features: int
    padding: str = "VALID"
    initializer: str = "orthogonal"
    side: int = 3
    stride: int = 1

    @nn.compact
    def __call__(self, images: Float[Array, "N H W C"]) -> Float[Array, "N height width features"]:
        """Map images [N, H, W, C] to images with `features` channels."""
        shape = (self.side, self.side, images.shape[-1], self.features)
        kernel = self.param("kernel", INITIALIZERS[self.initializer], shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        images = convolve(images, jnp.asarray(kernel), self.padding, self.stride)
        return images + bias.reshape(1, 1, 1, -1)


def convolve(
    images: Float[Array, "N H W C"], kernel: Float[Array, "S S C F"], padding: str, stride: int = 1
) -> Float[Array, "N height width F"]:
    """Convolve images whose last axis is the channel, with the same result as `jax.lax.conv_general_dilated`.

    The platform for which the program is compiled, not the one on which it is traced, selects the implementation. It is
    no field of `core.form.Form`, because it depends on nothing else: a program that is traced on a CPU and compiled for
    a GPU gets the right one too.
    Raises ValueError for a stride above 1 that does not divide the side S of the kernel, or with padding.
    """
    side = kernel.shape[0]
    if stride > 1 and (side % stride or padding != "VALID"):
        raise ValueError(f"stride={stride} needs padding='VALID', not {padding!r}, and must divide the side {side}.")
    return jax.lax.platform_dependent(
        images,
        kernel,
        cpu=partial(_in_pieces, padding=padding, stride=stride),
        default=partial(_by_library, padding=padding, stride=stride),
    )


def _by_library(
    images: Float[Array, "N H W C"], kernel: Float[Array, "S S C F"], padding: str, stride: int
) -> Float[Array, "N height width F"]:
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(images, kernel, (stride, stride), padding, dimension_numbers=axes)


def _in_pieces(
    images: Float[Array, "N H W C"], kernel: Float[Array, "S S C F"], padding: str, stride: int
) -> Float[Array, "N height width F"]:
    if padding == "SAME":
        before, after = (len(kernel) - 1) // 2, len(kernel) // 2
        images = jnp.pad(images, ((0, 0), (before, after), (before, after), (0, 0)))
    if stride > 1:
        images, kernel = _blocks(images, stride), _blocks_of_kernel(kernel, stride)
    at_once = max(1, PATCHES // (len(kernel) ** 2 * math.prod(images.shape[1:])))
    if len(images) <= at_once:
        return _by_patches(images, kernel)
    piece = jax.checkpoint(_by_patches)  # the backward pass computes the patches again instead of storing them
    return jax.lax.map(lambda image: piece(image[None], kernel)[0], images, batch_size=at_once)


def _by_patches(images: Float[Array, "N H W C"], kernel: Float[Array, "S S C F"]) -> Float[Array, "N height width F"]:
    side = len(kernel)
    height, width = (size - side + 1 for size in images.shape[1:3])
    offsets = [(row, column) for row in range(side) for column in range(side)]
    patches = jnp.concatenate([images[:, r : r + height, c : c + width] for r, c in offsets], axis=-1)
    return patches @ kernel.reshape(-1, kernel.shape[-1])


def _blocks(images: Float[Array, "N H W C"], size: int) -> Float[Array, "N rows columns D"]:
    """The images with each block of size x size pixels as one pixel of size * size * C channels.

    A convolution with this stride is one with stride 1 on them. Pixels beyond the last whole block are left out.
    """
    rows, columns = (extent // size for extent in images.shape[1:3])
    images = images[:, : rows * size, : columns * size]
    images = images.reshape(len(images), rows, size, columns, size, -1).transpose(0, 1, 3, 2, 4, 5)
    return images.reshape(len(images), rows, columns, -1)


def _blocks_of_kernel(kernel: Float[Array, "S S C F"], size: int) -> Float[Array, "B B D F"]:
    """The kernel for the images of `_blocks`."""
    count = len(kernel) // size
    kernel = kernel.reshape(count, size, count, size, *kernel.shape[2:]).transpose(0, 2, 1, 3, 4, 5)
    return kernel.reshape(count, count, -1, kernel.shape[-1])
