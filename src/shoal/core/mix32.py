"""`mix32`: a counter-based random key implementation made for compiled environment loops.

Draft: two rounds of a 32-bit multiply-xorshift hash over (counter, key).
"""

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl

U32 = jnp.uint32


def _mix(x):
    x = x ^ (x >> 16)
    x = x * U32(0x21F0AAAD)
    x = x ^ (x >> 15)
    x = x * U32(0x735A2D97)
    return x ^ (x >> 15)


def _seed(seed):
    seed = jnp.asarray(seed)
    low = jax.lax.convert_element_type(seed, U32)
    high = (
        jax.lax.convert_element_type(jax.lax.shift_right_logical(seed, jnp.full((), 32, seed.dtype)), U32)
        if seed.dtype.itemsize == 8
        else jnp.zeros((), U32)
    )
    return jnp.stack([_mix(low ^ U32(0x9E3779B9)), _mix(high + U32(0x7F4A7C15) + low)])


def _hash(key, counter, salt):
    x = _mix(counter ^ key[0] ^ U32(salt))
    return _mix(x + (counter * U32(0x9E3779B9) ^ key[1]))


def _split(key, shape):
    size = 1
    for n in shape:
        size *= n
    i = jax.lax.iota(U32, size).reshape(shape)
    return jnp.stack([_hash(key, i, 0x243F6A88), _hash(key, i, 0x85A308D3)], axis=-1)


def _fold_in(key, data):
    data = jnp.asarray(data).astype(U32)
    return jnp.stack([_hash(key, data, 0x13198A2E), _hash(key, data, 0x03707344)])


def _bits(key, bit_width, shape):
    size = 1
    for n in shape:
        size *= n
    if bit_width == 64:
        i = jax.lax.iota(U32, size)
        hi, lo = _hash(key, i, 0xA4093822), _hash(key, i, 0x299F31D0)
        out = (hi.astype(jnp.uint64) << 32) | lo.astype(jnp.uint64)
    else:
        out = _hash(key, jax.lax.iota(U32, size), 0xA4093822)
        out = out.astype({8: jnp.uint8, 16: jnp.uint16, 32: U32}[bit_width])
    return out.reshape(shape)


MIX32 = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="mix32", tag="mix"
)
