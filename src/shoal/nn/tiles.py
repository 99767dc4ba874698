"""A torso for grid worlds such as MiniGrid, whose images hold categories instead of colors.

A convolution of one-hot categories, and a dense layer of one-hot components, are sums of rows of their weights. The
rows are looked up instead of multiplied, which on a CPU takes a fraction of the time, forward and backward.
"""

import math
from functools import reduce
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space, leaf_pairs, leaf_spaces
from shoal.nn.dense import look_up
from shoal.nn.features import flat_features
from shoal.nn.initializers import orthogonal
from shoal.nn.instructions import check_encoder, encoder_of, is_text
from shoal.nn.torsos import ACTIVATIONS, MLP

HIGHEST = 31  # an image with larger values does not count as an image of categories
MOST_COMBINATIONS = 4096  # of the categories of all channels of a cell; a table has one row for each


def is_tiles(space: Space) -> bool:
    """Whether observations are images of categories: integers [W, H, C] from 0 to at most `HIGHEST`.

    One frame may have at most `MOST_COMBINATIONS` combinations of categories; several frames (`FrameStack`) have more.
    """
    if not isinstance(space, Box) or len(space.shape) != 3 or not np.issubdtype(space.dtype, np.integer):
        return False
    low, high = space.bounds()
    combinations = (math.prod(sizes) for sizes in _by_frame(sizes_of(space), space.frames))
    return not low.any() and bool(high.max() <= HIGHEST) and max(combinations) <= MOST_COMBINATIONS


def has_tiles(space: Space) -> bool:
    """Whether a space is, or contains in a Dict or Tuple, a space of images of categories."""
    return any(map(is_tiles, leaf_spaces(space)))


def sizes_of(tiles: Box) -> tuple[int, ...]:
    """The number of categories of each channel."""
    return tuple(int(n) + 1 for n in tiles.bounds()[1].max(axis=(0, 1)))


class TileNet(nn.Module):
    """One convolution for each image of categories, then dense layers. The input is an observation of `space`.

    The discrete components of the observation (a direction, the words of a mission) scale and shift the channels of the
    convolution, so that it can search for what the mission names (FiLM, Perez et al. 2018). The first dense layer reads
    the result together with all other parts of the observation; discrete components are one-hot.

    With `cell_channels`, a dense layer with so many outputs reads the channels of each place of the maps first. It has
    the same weights for all places, so that what it learns about "red" and "ball" in one holds in all others.

    `encoder` reads instructions (`nn/instructions.py`). With "positions" each word is one-hot at its position instead,
    which only fits texts whose words stand where they always do.
    """

    reads: ClassVar[str] = "observation"

    space: Space
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    channels: int = 16
    kernel: int = 3
    stride: int = 2
    cell_channels: int = 0  # 0: no such layer
    layer_norm: bool = False  # of dense layers
    encoder: str = "gru"  # or "bow" or "positions"

    def __post_init__(self) -> None:
        check_encoder(self.encoder, "positions")
        if not self.hidden:
            raise ValueError(
                "hidden=() leaves no layer to read images of categories with: give at least one size, as hidden=(64,)."
            )
        super().__post_init__()

    @nn.compact
    def __call__(self, obs: Any) -> Float[Array, "*axes hidden"]:
        """Map observations to the last hidden layer."""
        activation, width = ACTIVATIONS[self.activation], self.hidden[0]
        all_parts = leaf_pairs(self.space, obs)
        from_discrete, scale, shift = self._from_discrete(all_parts)
        features = []
        for space, part in all_parts:
            if isinstance(space, Box) and is_tiles(space):
                maps = TileConv(sizes_of(space), self.channels, self.kernel, self.stride, space.frames)(part)
                maps = activation(maps * (1 + scale[..., None, None, :]) + shift[..., None, None, :])
                if self.cell_channels:
                    maps = activation(nn.Dense(self.cell_channels, kernel_init=orthogonal(2**0.5))(maps))
                features.append(maps.reshape(*maps.shape[:-3], math.prod(maps.shape[-3:])))
            elif isinstance(space, Box):
                features.append(flat_features(space, part))
        total = nn.Dense(width, kernel_init=orthogonal(2**0.5))(jnp.concatenate(features, axis=-1))
        total = nn.LayerNorm()(total + from_discrete) if self.layer_norm else total + from_discrete
        return MLP(self.hidden[1:], self.activation, self.layer_norm)(activation(total))

    def _from_discrete(self, parts: list[tuple[Any, Array]]) -> list[Array]:
        """[contribution of all discrete components to the first dense layer, scale, shift of the channels]."""
        space, part = parts[0]
        width, size = self.hidden[0], self.hidden[0] + 2 * self.channels
        total = jnp.zeros((*part.shape[: part.ndim - len(space.shape)], size), jnp.float32)
        for space, part in parts:
            if isinstance(space, Discrete):
                total = total + ChoiceDense((space.n,), size)(part[..., None])
            elif is_text(space) and self.encoder != "positions":
                text = encoder_of(self.encoder, space)(part)
                total = total + nn.Dense(size, use_bias=False, kernel_init=orthogonal(2**0.5))(text)
            elif isinstance(space, MultiDiscrete):
                total = total + ChoiceDense(space.nvec, size)(part)
        return jnp.split(total, (width, width + self.channels), axis=-1)


class TileConv(nn.Module):
    """A convolution of one-hot categories, padded with zeros after the last row and column.

    Each frame has its own tables: one table for all frames would need a row for every combination of categories in all
    frames.
    """

    sizes: tuple[int, ...]  # categories of each channel
    features: int
    kernel: int = 3
    stride: int = 2
    frames: int = 1  # side by side on the channel axis

    @nn.compact
    def __call__(self, tiles: Integer[Array, "*axes W H C"]) -> Float[Array, "*axes w h features"]:
        """Map categories [W, H, C] to feature maps [w, h, features]."""
        weights = self.param("kernel", orthogonal(2**0.5), (self.kernel**2, sum(self.sizes), self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        sizes_of_frames = _by_frame(self.sizes, self.frames)
        kernels = jnp.split(weights, np.cumsum([sum(sizes) for sizes in sizes_of_frames])[:-1].tolist(), axis=1)
        frames = jnp.split(tiles, self.frames, axis=-1)
        maps = bias.reshape((1,) * (tiles.ndim - 1) + (-1,))
        for sizes, kernel, frame in zip(sizes_of_frames, kernels, frames, strict=True):
            maps = self._add(maps, _tables(kernel, sizes), self._padded(_cells(frame, sizes), math.prod(sizes)))
        return maps

    def _add(
        self, maps: Float[Array, "..."], tables: Float[Array, "K combinations F"], cells: Int[Array, "*axes X Y"]
    ) -> Float[Array, "*axes w h F"]:
        """Add the convolution of one frame to the feature maps, one kernel position after the other."""
        w, h = ((n - self.kernel) // self.stride + 1 for n in cells.shape[-2:])
        for position, table in enumerate(tables):
            x, y = divmod(position, self.kernel)
            maps = maps + look_up(table, cells[..., x :: self.stride, y :: self.stride][..., :w, :h])
        return maps

    def _padded(self, cells: Int[Array, "*axes W H"], outside: int) -> Int[Array, "*axes X Y"]:
        padding = [(0, max(self.kernel - n, (self.kernel - n) % self.stride)) for n in cells.shape[-2:]]
        if padding == [(0, 0), (0, 0)]:
            return cells
        return jnp.pad(cells, [(0, 0)] * (cells.ndim - 2) + padding, constant_values=outside)


class ChoiceDense(nn.Module):
    """A dense layer, without bias, of n one-hot discrete components; the i-th has `sizes[i]` options.

    If all components have the same options, like the words of a text, the row of an option is the sum of one row for
    its position and one that all positions share.
    """

    sizes: tuple[int, ...]
    features: int

    @nn.compact
    def __call__(self, choices: Integer[Array, "*axes n"]) -> Float[Array, "*axes features"]:
        """The sum of the rows of all components."""
        rows = self.param("kernel", orthogonal(2**0.5), (sum(self.sizes), self.features))
        tables = jnp.split(rows, np.cumsum(self.sizes)[:-1].tolist())
        if len(self.sizes) > 1 and len(set(self.sizes)) == 1:
            anywhere = self.param("anywhere", orthogonal(2**0.5), (self.sizes[0], self.features))
            tables = [table + anywhere for table in tables]
        return reduce(jnp.add, [look_up(table, choices[..., i]) for i, table in enumerate(tables)])


def _by_frame(sizes: tuple[int, ...], frames: int) -> list[tuple[int, ...]]:
    """The sizes of the channels of each frame."""
    width = len(sizes) // frames
    return [sizes[i * width : (i + 1) * width] for i in range(frames)]


def _cells(tiles: Integer[Array, "*axes W H C"], sizes: tuple[int, ...]) -> Int[Array, "*axes W H"]:
    """The number of the combination of categories in each cell; the last channel changes fastest."""
    cells = tiles[..., 0].astype(jnp.int32)
    for channel in range(1, len(sizes)):
        cells = cells * sizes[channel] + tiles[..., channel].astype(jnp.int32)
    return cells


def _tables(weights: Float[Array, "K total F"], sizes: tuple[int, ...]) -> Float[Array, "K combinations F"]:
    """For each kernel position, the summed weights of every combination of categories; last a row of 0 for padding."""
    positions, _, features = weights.shape
    tables = jnp.zeros((positions, *(1,) * len(sizes), features), jnp.float32)
    for channel, start in enumerate(np.cumsum((0, *sizes[:-1]))):
        shape = [sizes[channel] if c == channel else 1 for c in range(len(sizes))]
        tables = tables + weights[:, start : start + sizes[channel]].reshape(positions, *shape, features)
    tables = tables.reshape(positions, math.prod(sizes), features)
    return jnp.concatenate([tables, jnp.zeros((positions, 1, features), jnp.float32)], axis=1)
