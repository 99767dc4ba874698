"""Shuffles of sample indices for minibatches.

The exact shuffle sorts random numbers, which gives a uniform permutation but is slow under vmap (a segmented sort of
members x samples). The arithmetic shuffle computes a keyed bijection of 0..n-1 with a few multiplications per index.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.keys import Key
from shoal.core.struct import static

SHUFFLES = ("auto", "arithmetic", "exact", "envs")
LARGEST_DISTANCE = 10_000  # a valid number of minibatches is suggested if it differs by less than this


def shuffle_field() -> Any:
    """Declare `shuffle`: how the samples of a rollout are divided into minibatches."""
    return static("auto", choices=SHUFFLES, help="auto: arithmetic; with a memory, envs")


def chosen_shuffle(shuffle: str, memory: str) -> str:
    """The shuffle for a memory. Raises ValueError for one that mixes the steps that the memory needs in order."""
    if memory == "none":
        return "arithmetic" if shuffle == "auto" else shuffle
    if shuffle not in ("auto", "envs"):
        raise ValueError(
            f"shuffle={shuffle!r} mixes the steps of episodes, but memory={memory!r} needs them in "
            "order: leave shuffle out, or use shuffle='envs'."
        )
    return "envs"


def whole_environments(rows: Any, carry: Any, index: Int[Array, "B"], num_steps: int) -> tuple[Any, Any]:
    """(rows [T, B / T], carries [B / T]) of a minibatch of whole environments, which `shuffle="envs"` makes.

    `rows` are the samples with the numbers `index`, and `carry` is that of all environments when the rollout began.
    """
    envs = index[: index.shape[0] // num_steps]
    rows = jax.tree.map(lambda x: x.reshape(num_steps, envs.shape[0], *x.shape[1:]), rows)
    return rows, jax.tree.map(lambda x: x[envs], carry)


def minibatches(
    key: Key, shape: tuple[int, int], epochs: int, parts: int, shuffle: str = "arithmetic"
) -> Int[Array, "steps B"]:
    """The sample indices of each gradient step: [epochs * parts, B], into T x E flattened samples. `shape` is (T, E).

    Each epoch uses every sample once, in `parts` minibatches. `shuffle="envs"` permutes environments and keeps the T
    samples of each in order: a minibatch is then [T, E / parts], flattened to B. `key` is consumed.
    """
    num_steps, num_envs = shape
    n, keys = num_steps * num_envs, jax.random.split(key, epochs)
    if shuffle == "envs":
        order = jax.vmap(lambda k: exact_permutation(k, num_envs))(keys).reshape(epochs * parts, 1, num_envs // parts)
        index = order + jnp.arange(num_steps, dtype=jnp.int32)[None, :, None] * num_envs
    else:
        permute = exact_permutation if shuffle == "exact" else arithmetic_permutation
        index = jax.vmap(lambda k: permute(k, n))(keys)
    return index.reshape(epochs * parts, n // parts)


def check_minibatches(num_steps: int, num_envs: int, parts: int, shuffle: str = "arithmetic", devices: int = 1) -> None:
    """Raise ValueError if `parts` does not divide the samples; the message names the nearest numbers that do.

    Over several `devices`, `num_envs` is the number of environments of each.
    """
    total, what = (num_envs, "environments") if shuffle == "envs" else (num_envs * num_steps, "samples")
    if total % parts:
        near = min(parts, total)
        distances = range(LARGEST_DISTANCE)
        by_distance = (d for k in distances for d in dict.fromkeys((near - k, near + k)) if 0 < d <= total)
        divisors = list(itertools.islice((d for d in by_distance if total % d == 0), 2)) or [1]
        envs = f"num_envs={num_envs}" if devices == 1 else f"On each of {devices} devices, {num_envs} environments"
        raise ValueError(
            f"{envs} x num_steps={num_steps} gives {total} {what} to shuffle, which "
            f"num_minibatches={parts} does not divide. Try {' or '.join(str(d) for d in sorted(divisors))}."
        )


def exact_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """A permutation of 0..n-1, uniform over all permutations; computed by a sort. `key` is consumed."""
    return jax.random.permutation(key, n).astype(jnp.int32)


def arithmetic_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """A pseudo-random permutation of 0..n-1, computed separately for each index. `key` is consumed.

    It is not uniform over all n! permutations. But over all keys each index goes to every position equally often, and
    for a single key the indices are mixed about as evenly as by `exact_permutation`. By size:

    - A power of two: four rounds of multiply, add and xorshift on log2(n) bits. About one key in a thousand mixes less
      well: successive steps of an environment then share a minibatch 1.5 to 3 times as often as they should.
    - Any other multiple of 32 whose odd factor is at most 65,535: three rounds of a Feistel network on the two digits
      of an index in mixed radix, n = low_size * high_size.
    - Any other size: `exact_permutation`.
    """
    power = n & -n  # the largest power of two that divides n
    rest = n // power  # the odd factor
    if rest > 1 and (power < LEAST_POWER or rest > LARGEST_REST):
        return exact_permutation(key, n)
    index = jnp.arange(n, dtype=jnp.uint32)
    if rest == 1:
        return _mix_bits(index, n, jax.random.bits(key, (2 * ROUNDS + 3,), jnp.uint32)).astype(jnp.int32)
    low_size = min(power, 1 << (math.isqrt(n).bit_length() - 1))
    words = jax.random.bits(key, (FEISTEL_ROUNDS, 2, 2), jnp.uint32)
    return _feistel(index, low_size, n // low_size, words).astype(jnp.int32)


ROUNDS, FEISTEL_ROUNDS = 4, 3
LEAST_POWER, LARGEST_REST = 32, 65_535


def _mix_bits(index: Array, size: int, words: Array) -> Array:
    # Odd multipliers, additions and right xorshifts are each a bijection modulo a power of two. `shift` is half of the
    # bits, rounded up.
    mask = jnp.uint32(size - 1)
    shift = jnp.uint32(max(1, (size.bit_length() - 1 + 1) // 2))
    for i in range(ROUNDS):
        index = (index * (words[2 * i] | jnp.uint32(1)) + words[2 * i + 1]) & mask
        index = index ^ (index >> shift)
    return index


def _feistel(index: Array, low_size: int, high_size: int, words: Array) -> Array:
    # Each line adds a hash of one digit to the other digit. Subtracting it again would undo this: a bijection.
    low, high = index % jnp.uint32(low_size), index // jnp.uint32(low_size)
    for for_low, for_high in words:
        low = (low + _hash(high, for_low) % jnp.uint32(low_size)) % jnp.uint32(low_size)
        high = (high + _hash(low, for_high) % jnp.uint32(high_size)) % jnp.uint32(high_size)
    return high * jnp.uint32(low_size) + low


def _hash(x: Array, words: Array) -> Array:
    x = (x ^ words[0]) * (words[1] | jnp.uint32(1))
    x = (x ^ (x >> jnp.uint32(15))) * (words[0] | jnp.uint32(1))
    return x ^ (x >> jnp.uint32(16))
