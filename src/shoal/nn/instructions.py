"""Encoders of instructions: a text as word numbers becomes one vector. They read texts of any length.

A word number is an index of a vocabulary, and 0 is no word: encoders skip it, so that padding changes nothing. A space
says with `MultiDiscrete(..., text=True)` that its integers are such a text.

Axes: L words of a text, padding included; V words of the vocabulary; H units.
"""

from functools import partial
from typing import Any, TypeGuard

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from shoal.core.form import current
from shoal.core.spaces import MultiDiscrete, Space, leaf_spaces
from shoal.nn.dense import apply_dense, look_up
from shoal.nn.distinct import AT_ONCE, of_distinct
from shoal.nn.memory import GRU

Words = Integer[Array, "*axes L"]


class WordGRU(nn.Module):
    """The last carry of a GRU (`nn/memory/gru.py`) that reads the embeddings of the words in order.

    In the form of a CPU a text that many samples share is read once (`nn/distinct.py`).
    Source: the encoder "gru" of BabyAI 1.1, `babyai/model.py`.
    """

    vocabulary: int  # V
    size: int = 64  # of the embeddings and of the GRU

    @nn.compact
    def __call__(self, words: Words) -> Float[Array, "*axes H"]:
        """Map the words of a text to a vector; without words it is 0."""
        gru = GRU(self.size)
        embedding = jnp.asarray(self.param("embedding", nn.initializers.normal(1.0), (self.vocabulary, self.size)))
        weights: Any = self.param("gru", gru.init, embedding)
        # The GRU's product with the embedding of a word is the same wherever the word stands: it is computed once.
        table = apply_dense(weights["input"], embedding)

        weights = (weights["recurrent"], table)
        if not current().texts_once or words.size <= AT_ONCE * words.shape[-1]:
            return _read(gru, weights, words)
        texts = words.reshape(-1, words.shape[-1])
        return of_distinct(partial(_read, gru), weights, texts).reshape(*words.shape[:-1], self.size)


def _read(gru: GRU, weights: tuple[Array, Array], words: Words) -> Float[Array, "*axes H"]:
    """The last carry of a GRU. weights: of its carry, and the sums [V, G] that its gates get from each word."""
    recurrent, table = weights

    def read(carry: Array, word: Array) -> tuple[Array, None]:
        after = gru.advance(carry @ recurrent, look_up(table, word), carry)
        return jnp.where((word != 0)[..., None], after, carry), None

    return jax.lax.scan(read, gru.initial_carry(words.shape[:-1]), jnp.moveaxis(words, -1, 0))[0]


class BagOfWords(nn.Module):
    """The sum of the embeddings of all words, whatever their order.

    The initial embeddings are small, so that a text changes little at first: with larger ones PPO takes far longer to
    find out what the words are for.
    """

    vocabulary: int  # V
    size: int = 64

    @nn.compact
    def __call__(self, words: Words) -> Float[Array, "*axes H"]:
        """Map the words of a text to a vector; without words it is 0."""
        embedding = jnp.asarray(self.param("embedding", nn.initializers.normal(0.05), (self.vocabulary, self.size)))
        return jnp.sum(jnp.where((words != 0)[..., None], look_up(embedding, words), 0), axis=-2)


ENCODERS = {"gru": WordGRU, "bow": BagOfWords}


def is_text(space: Space) -> TypeGuard[MultiDiscrete]:
    """Whether the space is one of texts, which an encoder reads."""
    return isinstance(space, MultiDiscrete) and space.text


def has_text(space: Space) -> bool:
    """Whether a space is, or contains in a Dict or Tuple, a space of texts."""
    return any(map(is_text, leaf_spaces(space)))


def encoder_of(name: str, space: MultiDiscrete, size: int = 64) -> Any:
    """The encoder of `ENCODERS` with this name, for the texts of a space."""
    return ENCODERS[name](space.nvec[0], size)


def check_encoder(name: str, *others: str) -> None:
    """Raise ValueError for a name that is neither in `ENCODERS` nor one of `others`."""
    names = (*ENCODERS, *others)
    if name not in names:
        raise ValueError(f"encoder={name!r} is unknown. Choose one of {', '.join(names)}.")
