"""A pytree of arrays as one array of 32-bit words, inside compiled programs and in NumPy.

Calling a compiled program and reading its results takes about a microsecond for each array, which for a small
environment is more than the step itself. So the program takes and returns one array, which holds all of them.
"""

import math
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import is_key

WORD = 4  # bytes
LEAF = jax.tree.structure(0)  # of one array


class Segment(NamedTuple):
    """Where one leaf of the pytree lies among the words, and what it is there."""

    words: slice
    size: int  # of its numbers; the last word may have room for more
    shape: tuple[int, ...]
    dtype: np.dtype
    generators: tuple[Any, ...]  # the one of typed random keys, whose numbers are kept; none for other arrays

    def view(self, words: np.ndarray) -> np.ndarray:
        """The leaf as a NumPy array that shares the memory of the words."""
        flat = words[self.words].view(self.dtype)
        return flat if flat.shape == self.shape else flat[: self.size].reshape(self.shape)


class Packing(NamedTuple):
    """How pytrees of one structure, shapes and dtypes are packed."""

    tree: Any
    segments: tuple[Segment, ...]
    is_leaf: bool = False  # the pytree is one array

    @classmethod
    def of(cls, shapes: Any) -> "Packing":
        """The packing of pytrees with these shapes and dtypes, such as `jax.eval_shape` returns."""
        leaves, tree = jax.tree.flatten(shapes)
        segments, start = [], 0
        for leaf in leaves:
            generators: list[Any] = []
            numbers = jax.eval_shape(partial(_numbers, generators), leaf)
            dtype = np.dtype(numbers.dtype)
            size = math.prod(numbers.shape)
            stop = start + -(-size * dtype.itemsize // WORD)
            segments.append(Segment(slice(start, stop), size, numbers.shape, dtype, tuple(generators)))
            start = stop
        return cls(tree, tuple(segments), tree == LEAF)

    def parts(self) -> list["Packing"]:
        """The packings of the children of the root, with the same segments."""
        leaves = iter(self.segments)
        return [Packing(tree, tuple(islice(leaves, tree.num_leaves)), tree == LEAF) for tree in self.tree.children()]

    def pack(self, tree: Any) -> jax.Array:
        """The words of a pytree, uint32 [W]. In compiled programs."""
        words = [_words(leaf) for leaf in jax.tree.leaves(tree)]
        return jnp.concatenate(words) if words else jnp.zeros(0, jnp.uint32)

    def unpack(self, words: jax.Array) -> Any:
        """The pytree in these words. In compiled programs."""
        return jax.tree.unflatten(self.tree, [_leaf(words[segment.words], segment) for segment in self.segments])

    def store(self, tree: Any) -> np.ndarray:
        """The words of a pytree of NumPy arrays or numbers."""
        words = np.zeros(self.segments[-1].words.stop if self.segments else 0, np.uint32)
        for leaf, segment in zip(jax.tree.leaves(tree), self.segments, strict=True):
            segment.view(words)[...] = leaf
        return words

    def read(self, words: np.ndarray) -> Any:
        """The pytree in these words as NumPy arrays, which share their memory. Keys are the numbers of keys."""
        if self.is_leaf:
            return self.segments[0].view(words)
        return self.tree.unflatten([segment.view(words) for segment in self.segments])


def _numbers(generators: list[Any], leaf: Any) -> jax.Array:
    """An array, or the numbers of typed random keys, whose generator is appended to the list."""
    if not is_key(leaf):
        return jnp.asarray(leaf)
    generators.append(jax.random.key_impl(leaf))
    return jax.random.key_data(leaf)


def _words(leaf: Any) -> jax.Array:
    """The words of one array; the last one may end with zeros."""
    array = _numbers([], leaf)
    array = (array.astype(jnp.uint8) if array.dtype == jnp.bool_ else array).reshape(-1)
    if (in_word := WORD // array.dtype.itemsize) > 1:
        array = jnp.pad(array, (0, -array.size % in_word)).reshape(-1, in_word)
    return jax.lax.bitcast_convert_type(array, jnp.uint32).reshape(-1)


def _leaf(words: jax.Array, segment: Segment) -> Any:
    dtype = jnp.dtype(jnp.uint8) if segment.dtype == np.bool_ else segment.dtype
    if dtype.itemsize > WORD:
        words = words.reshape(-1, dtype.itemsize // WORD)
    array = jax.lax.bitcast_convert_type(words, dtype).reshape(-1)[: segment.size].reshape(segment.shape)
    if segment.generators:
        return jax.random.wrap_key_data(array, impl=segment.generators[0])
    return array.astype(jnp.bool_) if segment.dtype == np.bool_ else array
