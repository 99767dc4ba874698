"""Random keys: how the keys of a run, of its members and of its purposes are made.

All random numbers of a run derive from one key, the run key. A member's key is the fold of the seed index into it, so
it does not depend on the number of members. The key of a purpose ("evaluate", "select") is the fold of the CRC-32 of
its name, so more evaluations cannot change training.
"""

import operator
import zlib
from collections.abc import Iterable
from typing import Any, SupportsIndex

import jax
import numpy as np

from shoal.core.errors import in_digits
from shoal.core.mix32 import MIX32, key_of_seed
from shoal.core.process import check_process

# The random number generators to choose from. `mix32` is ours: faster on CPU, not cryptographic. The other is JAX's.
IMPLEMENTATIONS = {"mix32": MIX32, "threefry2x32": "threefry2x32"}
DEFAULT = "mix32"

Key = jax.Array


def make_key(seed: object, implementation: str = DEFAULT) -> Key:
    """Make a typed key from a seed (an integer of Python or NumPy) for the generator `mix32` or `threefry2x32`.

    All 64 bits of the seed are used, with or without JAX's x64 mode (`jax.random.key` drops the upper 32 without it),
    and no two seeds share a key. With `threefry2x32` a seed in [0, 2**31) gives the same key as `jax.random.key`.

    Raises ValueError for an unknown generator or a seed of more than 64 bits, TypeError for a seed that is no integer,
    and RuntimeError in a forked process.

    >>> jax.random.uniform(make_key(0)).shape
    ()
    """
    return _keys_of(np.uint64(check_seed(seed) % 2**64), implementation)


def make_keys(seeds: Iterable[object], implementation: str = DEFAULT) -> Key:
    """Return the keys [N] of N seeds, each as `make_key` makes it, without compiling a stack of N keys.

    Raises what `make_key` raises.
    """
    return _keys_of(np.array([check_seed(seed) % 2**64 for seed in seeds], np.uint64), implementation)


def stream(key: Key, name: str) -> Key:
    """Return the key of a named purpose. Use `key` only for such calls, with a different name each time."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def member_key(run_key: Key, seed_index: jax.Array | int) -> Key:
    """Return the key of the member with this seed index. It is the same in a population of any size.

    Raises ValueError for an integer outside [0, 2**32).
    """
    if isinstance(seed_index, int) and not 0 <= seed_index < 2**32:
        raise ValueError(f"seed index {seed_index} is out of range: members are numbered from 0 to 2**32 - 1.")
    return jax.random.fold_in(stream(run_key, "member"), seed_index)


def is_key(x: Any) -> bool:
    """Return whether `x` is an array of typed random keys. It may be traced."""
    return hasattr(x, "dtype") and jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)


def key_words(x: Any) -> Any:
    """Return typed keys, which NumPy cannot hold, as their 32-bit words; any other array as it is."""
    return jax.random.key_data(x) if is_key(x) else x


def key_or_seed(key: Any) -> Key:
    """Return a key as it is, and for a seed, an integer of Python or NumPy, the key of `make_key`.

    Raises TypeError for anything else, also for an array of keys.
    """
    if is_key(key) and key.shape == ():
        return key
    if is_key(key):
        raise TypeError(f"key is an array of {key.shape} keys: give one of them, or a seed such as 0.")
    if isinstance(key, (bool, np.bool_)) or not isinstance(key, SupportsIndex) or getattr(key, "shape", ()):
        raise TypeError(f"key={key!r:.60} is neither a key, such as make_key(0), nor an integer as its seed.")
    return make_key(key)


def typed_key(key: Any) -> Key:
    """Return a typed key for one, or for the numbers of one that `jax.random.PRNGKey` makes."""
    check_process()
    return key if is_key(key) else jax.random.wrap_key_data(jax.numpy.asarray(key))


def check_seed(seed: object) -> int:
    """Return a seed as a Python integer. Raises ValueError for more than 64 bits, TypeError for what is no integer."""
    try:
        number = operator.index(None if isinstance(seed, (bool, np.bool_)) else seed)  # type: ignore[arg-type]  # any kind
    except TypeError:
        words = f"seed={seed!r:.60} is of type {type(seed).__name__}: a seed is an integer, such as 0 or 42."
        raise TypeError(words) from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"seed={in_digits(number)} does not fit in 64 bits: choose one from -2**63 to 2**63 - 1.")
    return number


def _keys_of(bits: Any, implementation: str) -> Key:
    """The keys [...] of seeds [...], unsigned 64-bit integers of NumPy."""
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"random number generator {implementation!r} is unknown. Choose one of: {', '.join(IMPLEMENTATIONS)}."
        )
    check_process()
    high, low = (bits >> np.uint64(32)).astype(np.uint32), (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    if implementation == "mix32":
        data = key_of_seed(jax.numpy.asarray(high), jax.numpy.asarray(low))
    else:
        data = jax.numpy.asarray(np.stack([high, low], axis=-1))
    return jax.random.wrap_key_data(data, impl=IMPLEMENTATIONS[implementation])
