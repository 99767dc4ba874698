"""Compare shoal's convolution (a matrix product over patches) with XLA's own, inside a loop on this CPU.

    python benchmarks/convolutions.py

Prints the milliseconds of one forward pass and of one gradient step for several sizes of images: XLA's, shoal's, and
their ratio.
"""

import time

import shoal

shoal.prepare(cache=False)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from shoal.nn.convolution import convolve  # noqa: E402

SIZES = {  # batch, side, channels before and after, padding
    "MinAtar, 4 channels": (128, 10, 4, 16, "VALID"),
    "MinAtar, 10 channels": (128, 10, 10, 16, "VALID"),
    "MiniGrid's view in pixels, IMPALA's first": (64, 56, 3, 16, "SAME"),
    "MiniGrid's view in pixels, IMPALA's second": (64, 28, 16, 32, "SAME"),
}
ITERATIONS = 5  # of the loop that is measured
ROUNDS = 3


def xla(images, kernel, padding):
    """XLA's own convolution."""
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def looped(convolution, images, padding, learns):
    """A program with a loop of forward passes, or, if `learns`, of gradient steps for kernel and images."""

    def loss(kernel, images):
        return jnp.mean(convolution(images, kernel, padding) ** 2)

    def iteration(i, kernel):
        if not learns:
            return kernel + 1e-9 * loss(kernel, images)
        slope, before = jax.grad(loss, (0, 1))(kernel, images)
        return kernel - 1e-3 * slope + 1e-9 * jnp.sum(before)

    return jax.jit(lambda kernel: jax.lax.fori_loop(0, ITERATIONS, iteration, kernel))


def milliseconds(program, kernel):
    """The milliseconds of one iteration, the best of several rounds."""
    jax.block_until_ready(program(kernel))
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        jax.block_until_ready(program(kernel))
        times.append(1000 * (time.perf_counter() - begun) / ITERATIONS)
    return min(times)


for name, (batch, side, before, after, padding) in SIZES.items():
    images = jax.random.uniform(jax.random.key(0), (batch, side, side, before))
    kernel = 0.1 * jax.random.normal(jax.random.key(1), (3, 3, before, after))
    for learns in (False, True):
        theirs, ours = (milliseconds(looped(f, images, padding, learns), kernel) for f in (xla, convolve))
        what = "gradient step" if learns else "pass"
        print(f"{name}, {what}: {theirs:.2f} ms, {ours:.2f} ms, {theirs / ours:.1f}", flush=True)
