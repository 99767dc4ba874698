"""Measure a device, for estimates: bytes copied in a second, and microseconds of a trip of a loop of K kernels."""

import argparse
import json
import time
from collections.abc import Callable

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--floats", type=int, default=2**28)
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

TRIPS = 1000


def in_kernels(x: jax.Array, kernels: int) -> jax.Array:
    """A number of elementwise operations that XLA cannot put into one kernel."""
    for _ in range(kernels):
        x = jax.lax.optimization_barrier(x * 1.5 + 0.1)
    return x


def least(call: Callable[[], object]) -> float:
    """The least seconds of a few calls, after one that is not counted."""
    seconds = []
    for _ in range(8):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def loop(kernels: int, is_known: bool) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """A loop of 1,000 trips, whose number XLA knows or does not know."""

    def known(x, _):
        return jax.lax.scan(lambda x, _: (in_kernels(x, kernels), None), x, None, TRIPS)[0]

    def unknown(x, trips):
        return jax.lax.fori_loop(0, trips, lambda _, x: in_kernels(x, kernels), x)

    return known if is_known else unknown


few, count = jax.ShapeDtypeStruct((1024,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
copy = jax.jit(lambda x: x + 1.0).lower(jax.ShapeDtypeStruct((args.floats,), jnp.float32)).compile()
loops = {(k, known): jax.jit(loop(k, known)).lower(few, count).compile() for k in (1, 4, 16) for known in (True, False)}
measure.wait_for_turn()
many = jnp.ones(args.floats, jnp.float32)
print(json.dumps({"what": "copy", "bytes_per_second": 8 * args.floats / least(lambda: copy(many))}), flush=True)
small, trips = jnp.ones(1024, jnp.float32), jnp.int32(TRIPS)
for (kernels, is_known), program in loops.items():
    seconds = least(lambda program=program: program(small, trips))
    row = {
        "what": "trip of a loop",
        "kernels_in_trip": kernels,
        "trips_are_known": is_known,
        "us": seconds / TRIPS * 1e6,
    }
    print(json.dumps(row), flush=True)
