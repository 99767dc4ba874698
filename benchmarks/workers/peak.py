"""Measure the peak floating-point operations per second of all cores, with large float32 matrix products.

XLA multiplies one pair of matrices on each core at a time, as shoal runs members; NumPy's library splits one product
over all cores. The fastest repeat of either is the peak: no program computes faster on these cores for long.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=1536, help="rows and columns of each matrix")
parser.add_argument("--products", type=int, default=4, help="matrix products of each core in one repeat")
parser.add_argument("--repeats", type=int, default=10)
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import_s = measure.seconds_since_start()
devices = jax.devices()
matrix = np.random.default_rng(0).normal(size=(args.size, args.size)).astype(np.float32)
matrix /= np.sqrt(args.size)  # so that products of products stay finite
on_each = [jax.device_put(matrix, device) for device in devices]


@jax.jit
def multiply(x):
    return jax.lax.fori_loop(0, args.products, lambda _, y: jnp.dot(y, x), x)


def with_xla():
    with ThreadPoolExecutor(len(devices)) as pool:
        list(pool.map(lambda x: jax.block_until_ready(multiply(x)), on_each))


def with_numpy():
    for _ in range(args.products * len(devices)):
        np.dot(matrix, matrix)


operations = 2 * args.size**3 * args.products * len(devices)
fastest = {
    name: min(measure.repeat(f, args.repeats)["wall_s"]) for name, f in (("xla", with_xla), ("numpy", with_numpy))
}
measure.report(
    import_s=import_s, cores=len(devices), gflops=operations / min(fastest.values()) / 1e9, fastest_s=fastest
)
