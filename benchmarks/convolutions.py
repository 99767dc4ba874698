"""How much faster a convolution learns as a product over patches than as XLA's own, inside a loop on this CPU.

    python benchmarks/convolutions.py

Prints, for several sizes of images, milliseconds of one pass and of one gradient step: XLA's, shoal's, their ratio.
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
TURNS = 5  # of the loop that is timed
ROUNDS = 3


def xla(images, kernel, padding):
    """XLA's own."""
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def looped(convolution, images, padding, learns):
    """A program of some passes, or of some gradient steps over kernel and images."""

    def loss(kernel, images):
        return jnp.mean(convolution(images, kernel, padding) ** 2)

    def turn(i, kernel):
        if not learns:
            return kernel + 1e-9 * loss(kernel, images)
        slope, before = jax.grad(loss, (0, 1))(kernel, images)
        return kernel - 1e-3 * slope + 1e-9 * jnp.sum(before)

    return jax.jit(lambda kernel: jax.lax.fori_loop(0, TURNS, turn, kernel))


def milliseconds(program, kernel):
    """Of one turn, at best."""
    jax.block_until_ready(program(kernel))
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        jax.block_until_ready(program(kernel))
        times.append(1000 * (time.perf_counter() - begun) / TURNS)
    return min(times)


for name, (batch, side, before, after, padding) in SIZES.items():
    images = jax.random.uniform(jax.random.key(0), (batch, side, side, before))
    kernel = 0.1 * jax.random.normal(jax.random.key(1), (3, 3, before, after))
    for learns in (False, True):
        theirs, ours = (milliseconds(looped(f, images, padding, learns), kernel) for f in (xla, convolve))
        what = "gradient step" if learns else "pass"
        print(f"{name}, {what}: {theirs:.2f} ms, {ours:.2f} ms, {theirs / ours:.1f}", flush=True)
