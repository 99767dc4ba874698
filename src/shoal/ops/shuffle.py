"""Shuffles of row indices for minibatches, without a sort over everything.

Sorting random numbers gives exact uniform permutations, and is slow under vmap: a segmented sort of members x rows. The
arithmetic shuffle is a keyed bijection of 0..n-1 instead: a few multiplications per index.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

Key = jax.Array


def exact_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """Uniform over all permutations (a sort). `key` is consumed."""
    return jax.random.permutation(key, n).astype(jnp.int32)


def arithmetic_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """A pseudo-random permutation computed per index. `key` is consumed.

    Powers of two take four rounds of multiply, add and xorshift on log2(n) bits. Other sizes split into n = a * b with
    a the largest factor that is a power of two: that part is mixed in the same way and the rest by affine maps with
    a random multiplier coprime to b. Not uniform over all n! permutations; each index lands anywhere equally often.
    """
    power = n & -n
    rest = n // power
    words = jax.random.bits(key, (2 * ROUNDS + 3,), jnp.uint32)
    index = jnp.arange(n, dtype=jnp.uint32)
    if rest == 1:
        return _mix_bits(index, n, words).astype(jnp.int32)
    coprime = jnp.asarray([m for m in range(1, rest + 1) if math.gcd(m, rest) == 1], jnp.uint32)
    multiplier = coprime[words[-1] % jnp.uint32(coprime.size)]
    low, high = index % jnp.uint32(power), index // jnp.uint32(power)
    # Mixing the low part with a shift that depends on the high part, and the other way round, ties the two together.
    high = (high * multiplier + words[-2] % jnp.uint32(rest) + low) % jnp.uint32(rest)
    low = _mix_bits((low + high * (words[-3] | jnp.uint32(1))) % jnp.uint32(power), power, words)
    high = (high * multiplier + low) % jnp.uint32(rest)
    return (high * jnp.uint32(power) + low).astype(jnp.int32)


ROUNDS = 4


def _mix_bits(index: Array, size: int, words: Array) -> Array:
    # Odd multipliers, additions and right xorshifts are each a bijection modulo a power of two.
    mask = jnp.uint32(size - 1)
    shift = jnp.uint32(max(1, (size.bit_length() - 1 + 1) // 2))
    for i in range(ROUNDS):
        index = (index * (words[2 * i] | jnp.uint32(1)) + words[2 * i + 1]) & mask
        index = index ^ (index >> shift)
    return index
