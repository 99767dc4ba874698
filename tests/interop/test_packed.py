"""Pytrees of arrays as one array of 32-bit words."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.interop.packed import Packing

TREE = {
    "a": np.array([1.5, -2.0, np.inf], np.float32),
    "b": np.array([[True, False, True]]),
    "c": np.array([200, 3], np.uint8),
    "d": np.int32(-7),
    "e": np.zeros((0, 2), np.float32),
    "f": np.array([-5], np.int16),
    "g": None,
}
WORDS = [0x3FC00000, 0xC0000000, 0x7F800000, 0x00010001, 0x000003C8, 0xFFFFFFF9, 0x0000FFFB]  # by hand


def assert_equal(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def test_words_are_the_same_in_numpy_and_in_a_compiled_program():
    packing = Packing.of(TREE)
    words = packing.store(TREE)
    assert words.tolist() == WORDS
    assert jax.jit(packing.pack)(TREE).tolist() == WORDS
    assert_equal(packing.read(words), TREE)
    assert_equal(jax.jit(packing.unpack)(words), TREE)


def test_parts_read_at_the_same_places():
    packing = Packing.of(TREE)
    words = packing.store(TREE)
    for part, name in zip(packing.parts(), TREE, strict=True):
        assert_equal(part.read(words), TREE[name])


def test_typed_keys_return_as_typed_keys():
    keys = jax.random.split(make_key(3), 2)
    packing = Packing.of((keys, jnp.float32(1.0)))
    back, number = jax.jit(lambda tree: packing.unpack(packing.pack(tree)))((keys, jnp.float32(1.0)))
    assert back.dtype == keys.dtype and number == 1
    np.testing.assert_array_equal(jax.random.key_data(back), jax.random.key_data(keys))


def test_numbers_of_64_bits_keep_all_bits():
    with jax.enable_x64(True):
        tree = (np.array([1e300, -0.1]), np.int64(2**40 + 5))
        packing = Packing.of(tree)
        assert_equal(jax.jit(packing.unpack)(packing.store(tree)), tree)
        assert_equal(packing.read(np.asarray(jax.jit(packing.pack)(tree))), tree)


def test_an_empty_pytree_has_no_words():
    packing = Packing.of({})
    assert packing.store({}).shape == packing.pack({}).shape == (0,)
    assert packing.read(packing.store({})) == {}
