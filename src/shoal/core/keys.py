"""Random keys: typed, named by purpose, and independent of neighbours.

Every random number of a run descends from one run key. A member's key is `fold_in(run key, seed index)`, so a member
does not depend on how many others there are; a purpose ("evaluate", "select") folds the CRC-32 of its name in, so asking for
more evaluation cannot change training.
"""

import zlib

import jax

from shoal.core.mix32 import MIX32

# Selectable generators. `mix32` is ours: several times faster on CPU, not cryptographic. `threefry2x32` is JAX's.
IMPLEMENTATIONS = {"mix32": MIX32, "threefry2x32": "threefry2x32"}
DEFAULT = "mix32"

Key = jax.Array


def make_key(seed: int, implementation: str = DEFAULT) -> Key:
    """A key from an integer seed, under `mix32` (default) or `threefry2x32`. Raises ValueError for another name."""
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"random number generator {implementation!r} is unknown. Choose one of: {', '.join(IMPLEMENTATIONS)}."
        )
    return jax.random.key(seed, impl=IMPLEMENTATIONS[implementation])


def stream(key: Key, name: str) -> Key:
    """The key of a named purpose. `key` may be used for other names too, and for nothing else."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def member_key(run_key: Key, seed_index: jax.Array | int) -> Key:
    """The key of the member with this seed index: the same in a population of any size."""
    return jax.random.fold_in(stream(run_key, "member"), seed_index)
