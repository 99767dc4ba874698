"""The network of the BabyAI 1.1 baseline: convolutions whose channels an instruction scales and shifts (FiLM)."""

import math
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from shoal.core.spaces import Box, MultiDiscrete, Space, leaf_pairs, leaf_spaces
from shoal.nn.convolution import Conv
from shoal.nn.dense import look_up
from shoal.nn.features import flat_features
from shoal.nn.instructions import check_encoder, encoder_of, is_text
from shoal.nn.tiles import is_tiles, sizes_of
from shoal.nn.torsos import MLP


class FiLMNet(nn.Module):
    """For observations with one image of categories and one instruction. The input is an observation of `space`.

        x = relu(norm(conv(embeddings of the cells)));  x = relu(norm(conv(x)))
        twice:  x = x + FiLM(x, instruction)
        the maximum of x over all cells, and the other parts of the observation; then dense layers

    With 128 channels this is `bow_endpool_res` of BabyAI 1.1 (Hui et al. 2020; `babyai/model.py`), whose dense layer
    has 64 tanh units. Differences: layer normalization over the channels of a cell instead of batch normalization,
    whose running averages a torso cannot keep; policy and value read the same dense layers, where there each has its
    own; the dense layers also read the other parts, such as MiniGrid's direction; weights are initially orthogonal.
    PPO's `memory="lstm"` adds the optional recurrent cell after it.
    """

    reads: ClassVar[str] = "observation"

    space: Space
    channels: int = 128  # of all convolutions, of the embeddings of cells and words, and of the encoder
    hidden: tuple[int, ...] = (64,)
    activation: str = "tanh"  # of the dense layers
    encoder: str = "gru"  # or "bow", see `nn/instructions.py`
    layer_norm: bool = False  # of dense layers; convolutions are always normalized

    def __post_init__(self) -> None:
        check_encoder(self.encoder)
        if self.channels < 1:
            raise ValueError(
                "hidden=() leaves no channels for the convolutions of torso='film': give hidden=(128, 64)."
            )
        _image_and_text(self.space)
        super().__post_init__()

    @nn.compact
    def __call__(self, obs: Any) -> Float[Array, "*axes hidden"]:
        """Map observations to the last hidden layer."""
        image, text = _image_and_text(self.space)
        pairs = leaf_pairs(self.space, obs)
        tiles, words = (next(part for space, part in pairs if space is one) for one in (image, text))
        others = [flat_features(space, part) for space, part in pairs if space is not image and space is not text]
        axes = words.shape[:-1]
        x = Embedding(sizes_of(image), self.channels)(tiles)
        x = x.reshape(math.prod(axes), *x.shape[-3:])
        instruction = encoder_of(self.encoder, text, self.channels)(words).reshape(math.prod(axes), self.channels)
        for _ in range(2):
            x = nn.relu(nn.LayerNorm()(Conv(self.channels, "SAME")(x)))
        for _ in range(2):
            x = x + FiLM(self.channels)(x, instruction)
        pooled = jnp.max(x, axis=(1, 2)).reshape(*axes, self.channels)
        return MLP(self.hidden, self.activation, self.layer_norm)(jnp.concatenate([pooled, *others], axis=-1))


class FiLM(nn.Module):
    """Two convolutions; a linear function of the instruction scales and shifts the channels of the second one.

        relu(norm(scale(y) * conv(relu(norm(conv(x)))) + shift(y)))

    Source: Perez et al. 2018, as in BabyAI 1.1, which scales by scale(y) and not by 1 + scale(y).
    """

    channels: int

    @nn.compact
    def __call__(self, x: Float[Array, "N W H C"], instruction: Float[Array, "N D"]) -> Float[Array, "N W H C"]:
        """Map images [W, H, C], given the vector of an instruction for each, to images of the same shape."""
        scale = nn.Dense(self.channels, name="scale")(instruction)[:, None, None, :]
        shift = nn.Dense(self.channels, name="shift")(instruction)[:, None, None, :]
        x = nn.relu(nn.LayerNorm()(Conv(self.channels, "SAME")(x)))
        return nn.relu(nn.LayerNorm()(scale * Conv(self.channels, "SAME")(x) + shift))


class Embedding(nn.Module):
    """The embedding of a cell: the sum of one vector for the category of each channel."""

    sizes: tuple[int, ...]  # categories of each channel
    features: int

    @nn.compact
    def __call__(self, tiles: Integer[Array, "*axes W H C"]) -> Float[Array, "*axes W H features"]:
        """Map categories [W, H, C] to embeddings."""
        table = jnp.asarray(self.param("embedding", nn.initializers.normal(1.0), (sum(self.sizes), self.features)))
        first_rows = np.cumsum((0, *self.sizes[:-1]), dtype=np.int32).reshape((1,) * (tiles.ndim - 1) + (-1,))
        return jnp.sum(look_up(table, tiles.astype(jnp.int32) + first_rows), axis=-2)


def _image_and_text(space: Space) -> tuple[Box, MultiDiscrete]:
    """(the image of categories, the text) among the parts of a space. Raises ValueError unless there is one of each."""
    images = [part for part in leaf_spaces(space) if isinstance(part, Box) and is_tiles(part)]
    texts = [part for part in leaf_spaces(space) if is_text(part)]
    if len(images) == len(texts) == 1:
        return images[0], texts[0]
    raise ValueError(
        f"torso='film' reads one image of categories and one instruction, and there are {len(images)} and "
        f"{len(texts)} in {space}: leave out torso. Levels whose mission is always the same have no instruction."
    )
