"""`mix32`: a random number generator for compiled environment loops, made of 32-bit multiplications and shifts.

A key is two 32-bit words. Each word that `bits`, `split` or `fold_in` returns is one hash of (key, counter, purpose).
So all three are elementwise operations, which XLA fuses with the code that uses them and vectorizes; no concatenation
prevents this. `jax.random` uses it through `jax.extend.random.define_prng_impl`. `docs/random-numbers.md` says how it
was tested. It is not cryptographic: the key can be computed from the output.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Integer, UInt, UInt32

U32 = np.uint32

# Constants for the purposes of a hash, so that one key gives independent words to each purpose. Digits of pi.
SEED, SPLIT, FOLD_IN = U32(0x243F6A88), U32(0x85A308D3), U32(0x13198A2E)
BITS = {8: U32(0x03707344), 16: U32(0xA4093822), 32: U32(0x299F31D0), 64: U32(0x082EFA98)}
# Combined (xor) with a purpose for the second of two words, where two are needed (a key, a 64-bit number).
SECOND = U32(0x5A827999)


def words(
    key: UInt32[Array, "2"], counter: UInt32[Array, "..."], purpose: UInt32[Array, "..."] | np.uint32
) -> UInt32[Array, "..."]:
    """Return one word for each counter: a hash with three multiplications. `counter` and `purpose` broadcast.

    `key` is consumed.

        a = key[0] ^ purpose
        t = multiply(shift(counter ^ a))
        y = multiply(shift(t ^ key[1]))
        word = shift(multiply(shift(shift(y) + t + a)))         where shift(x) = x ^ (x >> s)

    Without the added `t` the hash would be a bijection of the counter: its words would never repeat, which a birthday
    test detects. With it they repeat as often as random words do. Adding `a` separates keys and purposes that have
    the same `t` at different counters.
    The multipliers are those of Wellons' `triple32` (github.com/skeeto/hash-prospector); the shifts were chosen by the
    avalanche and birthday tests in `docs/random-numbers.md`, which no variant with two multiplies passed.
    """
    a = key[0] ^ purpose
    t = counter ^ a
    t = (t ^ (t >> U32(16))) * U32(0xED5AD4BB)
    y = t ^ key[1]
    y = (y ^ (y >> U32(15))) * U32(0xAC4C1B51)
    y = (y ^ (y >> U32(14))) + (t + a)
    y = (y ^ (y >> U32(17))) * U32(0x31848BAB)
    return y ^ (y >> U32(15))


@jax.jit
def key_of_seed(high: UInt32[Array, "*N"], low: UInt32[Array, "*N"]) -> UInt32[Array, "*N 2"]:
    """Return the keys of 64-bit seeds in two words. A bijection (a Feistel network): no two seeds share a key."""
    zero = jnp.zeros(2, U32)
    for turn in range(4):
        high, low = low, high ^ words(zero, low, U32(SEED + turn))
    return jnp.stack([high, low], axis=-1)


def _seed(seed: Integer[Array, ""]) -> UInt32[Array, "2"]:
    # The seed is sign-extended to 64 bits, so that an integer gives the same key in every dtype.
    if seed.dtype.itemsize == 8:
        high = seed >> jnp.full((), 32, seed.dtype)
    elif jnp.issubdtype(seed.dtype, jnp.signedinteger):
        high = jnp.where(seed < 0, U32(0xFFFFFFFF), U32(0))
    else:
        high = jnp.zeros((), U32)
    return key_of_seed(high.astype(U32), seed.astype(U32))


@functools.partial(jax.jit, static_argnums=1, inline=True)
def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 2"]:
    return words(key, _counters((*shape, 1)), _two_words(SPLIT, len(shape)))


@functools.partial(jax.jit, inline=True)
def _fold_in(key: UInt32[Array, "2"], data: UInt32[Array, ""]) -> UInt32[Array, "2"]:
    return words(key, data.astype(U32)[None], _two_words(FOLD_IN, 0))


@functools.partial(jax.jit, static_argnums=(1, 2), inline=True)
def _bits(key: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    counters = _counters(shape)
    if bit_width < 64:
        return words(key, counters, BITS[bit_width]).astype(f"uint{bit_width}")
    high, low = words(key, counters, BITS[64]), words(key, counters, BITS[64] ^ SECOND)
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)


def _counters(shape: tuple[int, ...]) -> UInt32[Array, "*shape"]:
    size = math.prod(shape)
    if size > 2**32:
        raise ValueError(f"mix32 gives at most 2**32 numbers for one key, not shape {shape}: split the key first.")
    return jax.lax.iota(U32, size).reshape(shape)


def _two_words(purpose: np.uint32, leading: int) -> UInt32[Array, "..."]:
    return jnp.array([purpose, purpose ^ SECOND], U32).reshape((1,) * leading + (2,))


MIX32 = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="mix32", tag="mix"
)
