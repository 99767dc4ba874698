"""Shuffles of row indices for minibatches, without a sort over everything.

Sorting random numbers gives exact uniform permutations, and is slow under vmap: a segmented sort of members x rows. The
arithmetic shuffle is a keyed bijection of 0..n-1 instead: a few multiplications per index.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.keys import Key

SHUFFLES = ("arithmetic", "exact", "envs")


def minibatches(
    key: Key, shape: tuple[int, int], epochs: int, parts: int, shuffle: str = "arithmetic"
) -> Int[Array, "steps B"]:
    """Which rows each gradient step learns from: `epochs` times every one of T x E flattened samples, in `parts`.

    `shuffle="envs"` permutes environments and keeps the T samples of each together, in order; then B = E / parts x T
    with the time first. `key` is consumed.
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


def check_minibatches(num_steps: int, num_envs: int, parts: int, shuffle: str = "arithmetic") -> None:
    """Raise ValueError, naming the nearest numbers that would do, where samples do not divide into `parts`."""
    whole, what = (num_envs, "environments") if shuffle == "envs" else (num_envs * num_steps, "samples")
    if whole % parts:
        fitting = sorted((d for d in range(1, whole + 1) if whole % d == 0), key=lambda d: abs(d - parts))[:2]
        raise ValueError(
            f"num_envs={num_envs} x num_steps={num_steps} gives {whole} {what} to shuffle, which "
            f"num_minibatches={parts} does not divide. Try {' or '.join(str(d) for d in sorted(fitting))}."
        )


def exact_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """Uniform over all permutations (a sort). `key` is consumed."""
    return jax.random.permutation(key, n).astype(jnp.int32)


def arithmetic_permutation(key: Key, n: int) -> Int[Array, "n"]:
    """A pseudo-random permutation computed per index. `key` is consumed.

    Powers of two take four rounds of multiply, add and xorshift on log2(n) bits. Other sizes split into n = a * b with
    a the largest factor that is a power of two: that part is mixed in the same way and the rest by affine maps with
    a random multiplier coprime to b. Not uniform over all n! permutations; each index lands anywhere equally often.

    Where a is below 32 there would be little but one affine map, which keeps neighbors at one distance, and a b above
    65,535 would overflow: such sizes take the exact permutation.
    """
    power = n & -n
    rest = n // power
    if rest > 1 and (power < LEAST_POWER or rest > LARGEST_REST):
        return exact_permutation(key, n)
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
LEAST_POWER, LARGEST_REST = 32, 65_535  # the square of the second, and a little more, still fits 32 bits


def _mix_bits(index: Array, size: int, words: Array) -> Array:
    # Odd multipliers, additions and right xorshifts are each a bijection modulo a power of two.
    mask = jnp.uint32(size - 1)
    shift = jnp.uint32(max(1, (size.bit_length() - 1 + 1) // 2))
    for i in range(ROUNDS):
        index = (index * (words[2 * i] | jnp.uint32(1)) + words[2 * i + 1]) & mask
        index = index ^ (index >> shift)
    return index
