"""Write raw random words of `mix32` to standard output, for external test batteries.

    python benchmarks/rng_battery.py counter | dieharder -a -g 200
    python benchmarks/rng_battery.py tree    | dieharder -a -g 200
    python benchmarks/rng_battery.py rollout | RNG_test stdin32

counter  the 2**32 words of one key in order, then those of the next key
tree     words of keys from two-level split trees, samples from those keys and from fold_in(key, 0, 1, 2, ...)
rollout  1,024 environments that split their keys at every step and sample four words each, in order of time
"""

import argparse
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from shoal.core.keys import Key, make_key
from shoal.core.mix32 import BITS, words

BLOCK = 1 << 22


@jax.jit
def counter_block(key: Key, start: Array) -> Array:
    """`bits(key, 2**32)[start : start + BLOCK]`."""
    return words(jax.random.key_data(key), start + jnp.arange(BLOCK, dtype=jnp.uint32), BITS[32])


@jax.jit
def tree_block(key: Key) -> Array:
    """Eight words per leaf of the tree: one of its key, three sampled with it, four with a `fold_in` of the root."""
    branches = jax.random.split(key, 256)
    leaves = jax.vmap(lambda k: jax.random.split(k, 256))(branches).reshape(-1)
    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(leaves.size, dtype=jnp.uint32))
    of_leaf = jax.vmap(lambda k: jax.random.bits(k, (3,)))(leaves)
    of_folded = jax.vmap(lambda k: jax.random.bits(k, (4,)))(folded)
    return jnp.concatenate([jax.random.key_data(leaves)[:, :1], of_leaf, of_folded], axis=1)


@jax.jit
def rollout_block(keys: Key) -> tuple[Key, Array]:
    """The keys after 256 steps of 1,024 environments, and the words sampled in them, [256, 1024, 4]."""

    def step(keys: Key, _: None) -> tuple[Key, Array]:
        keys, now = jax.vmap(jax.random.split, out_axes=1)(keys)
        return keys, jax.vmap(lambda k: jax.random.bits(k, (4,)))(now)

    return jax.lax.scan(step, keys, length=256)


def counter(key: Key) -> Iterator[Array]:
    while True:
        key, this = jax.random.split(key)
        for start in range(0, 2**32, BLOCK):
            yield counter_block(this, jnp.uint32(start))


def tree(key: Key) -> Iterator[Array]:
    while True:
        key, this = jax.random.split(key)
        yield tree_block(this)


def rollout(key: Key) -> Iterator[Array]:
    keys = jax.random.split(key, 1024)
    while True:
        keys, block = rollout_block(keys)
        yield block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    streams = {"counter": counter, "tree": tree, "rollout": rollout}
    parser.add_argument("stream", choices=streams)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        for block in streams[args.stream](make_key(args.seed)):
            sys.stdout.buffer.write(np.asarray(block).tobytes())
    except BrokenPipeError:
        sys.stderr.close()  # the battery has closed the pipe


if __name__ == "__main__":
    main()
