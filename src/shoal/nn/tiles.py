"""A torso for tile worlds, whose images hold categories instead of colors.

A convolution of one-hot categories, and a dense layer of one-hot choices, are sums of rows of their weights. The rows
are looked up, not multiplied: on CPU that costs a fraction, forward and backward.
"""

import math
from functools import reduce
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple
from shoal.nn.features import flat_features, parts
from shoal.nn.initializers import orthogonal
from shoal.nn.torsos import ACTIVATIONS, MLP

HIGHEST, MOST_LOOKS = 31, 4096  # larger numbers are quantities; a table has a row for each look of a cell


def is_tiles(space: Space) -> bool:
    """Whether observations are images of categories: integers [W, H, C], each channel from 0 to something small.

    The channels of several frames (`FrameStack`) may be many, those of one frame must be few.
    """
    if not isinstance(space, Box) or len(space.shape) != 3 or not np.issubdtype(space.dtype, np.integer):
        return False
    low, high = space.bounds()
    looks = (math.prod(sizes) for sizes in _by_frame(sizes_of(space), space.frames))
    return not low.any() and bool(high.max() <= HIGHEST) and max(looks) <= MOST_LOOKS


def has_tiles(space: Space) -> bool:
    """Whether images of categories are among the parts of an observation."""
    if isinstance(space, Dict):
        return any(has_tiles(part) for _, part in space.spaces)
    if isinstance(space, Tuple):
        return any(has_tiles(part) for part in space.spaces)
    return is_tiles(space)


def sizes_of(tiles: Box) -> tuple[int, ...]:
    """How many categories each channel has."""
    return tuple(int(n) + 1 for n in tiles.bounds()[1].max(axis=(0, 1)))


class TileNet(nn.Module):
    """A small CNN that reads observations of `space` as they are, and dense layers.

    Every image of categories goes through one convolution, whose channels the choices (a direction, the words of a
    mission) scale and shift: so it can look for what is asked for. The first dense layer reads the result beside all
    other parts, arrays as numbers and choices one-hot. Source: Perez et al. 2018, "FiLM".
    """

    reads: ClassVar[str] = "observation"

    space: Space
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    channels: int = 16
    kernel: int = 3
    stride: int = 2
    layer_norm: bool = False  # of dense layers

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError(
                "hidden=() leaves no layer to read images of categories with: give one size at least, as hidden=(64,)."
            )
        super().__post_init__()

    @nn.compact
    def __call__(self, obs: Any) -> Float[Array, "*axes hidden"]:
        """Observation to the last hidden layer."""
        activation, width = ACTIVATIONS[self.activation], self.hidden[0]
        each = list(parts(self.space, obs))
        chosen, scale, shift = self._from_choices(each)
        numbers = []
        for space, part in each:
            if isinstance(space, Box) and is_tiles(space):
                maps = TileConv(sizes_of(space), self.channels, self.kernel, self.stride, space.frames)(part)
                maps = activation(maps * (1 + scale[..., None, None, :]) + shift[..., None, None, :])
                numbers.append(maps.reshape(*maps.shape[:-3], math.prod(maps.shape[-3:])))
            elif isinstance(space, Box):
                numbers.append(flat_features(space, part))
        total = nn.Dense(width, kernel_init=orthogonal(2**0.5))(jnp.concatenate(numbers, axis=-1))
        total = nn.LayerNorm()(total + chosen) if self.layer_norm else total + chosen
        return MLP(self.hidden[1:], self.activation, self.layer_norm)(activation(total))

    def _from_choices(self, parts: list[tuple[Any, Array]]) -> list[Array]:
        """What all choices together add to the first dense layer, and by how much they scale and shift channels."""
        space, part = parts[0]
        width, size = self.hidden[0], self.hidden[0] + 2 * self.channels
        total = jnp.zeros((*part.shape[: part.ndim - len(space.shape)], size), jnp.float32)
        for space, part in parts:
            if isinstance(space, Discrete):
                total = total + ChoiceDense((space.n,), size)(part[..., None])
            elif isinstance(space, MultiDiscrete):
                total = total + ChoiceDense(space.nvec, size)(part)
        return jnp.split(total, (width, width + self.channels), axis=-1)


class TileConv(nn.Module):
    """A convolution of one-hot categories, with zeros where it reaches over the last row or column.

    Of several frames, each is looked up in tables of its own: a table for all would have a row for every look of a cell
    in all frames.
    """

    sizes: tuple[int, ...]  # categories of each channel
    features: int
    kernel: int = 3
    stride: int = 2
    frames: int = 1  # side by side on the channel axis

    @nn.compact
    def __call__(self, tiles: Integer[Array, "*axes W H C"]) -> Float[Array, "*axes w h features"]:
        """Categories to feature maps."""
        weights = self.param("kernel", orthogonal(2**0.5), (self.kernel**2, sum(self.sizes), self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        sizes_of_frames = _by_frame(self.sizes, self.frames)
        kernels = jnp.split(weights, np.cumsum([sum(sizes) for sizes in sizes_of_frames])[:-1].tolist(), axis=1)
        frames = jnp.split(tiles, self.frames, axis=-1)
        maps = bias.reshape((1,) * (tiles.ndim - 1) + (-1,))
        for sizes, kernel, frame in zip(sizes_of_frames, kernels, frames, strict=True):
            maps = self._add(maps, _tables(kernel, sizes), self._padded(_looks(frame, sizes), math.prod(sizes)))
        return maps

    def _add(
        self, maps: Float[Array, "..."], tables: Float[Array, "K looks F"], looks: Int[Array, "*axes X Y"]
    ) -> Float[Array, "*axes w h F"]:
        w, h = ((n - self.kernel) // self.stride + 1 for n in looks.shape[-2:])
        for position, table in enumerate(tables):
            x, y = divmod(position, self.kernel)
            maps = maps + _rows(table, looks[..., x :: self.stride, y :: self.stride][..., :w, :h])
        return maps

    def _padded(self, looks: Int[Array, "*axes W H"], beyond_the_edge: int) -> Int[Array, "*axes X Y"]:
        beyond = [(0, max(self.kernel - n, (self.kernel - n) % self.stride)) for n in looks.shape[-2:]]
        if beyond == [(0, 0), (0, 0)]:
            return looks
        return jnp.pad(looks, [(0, 0)] * (looks.ndim - 2) + beyond, constant_values=beyond_the_edge)


class ChoiceDense(nn.Module):
    """A dense layer, without bias, of one-hot choices: the i-th has `sizes[i]` options.

    Where all have the same options, as the words of a text, an option has a row for every place, and one for all.
    """

    sizes: tuple[int, ...]
    features: int

    @nn.compact
    def __call__(self, choices: Integer[Array, "*axes n"]) -> Float[Array, "*axes features"]:
        """Choices to the sum of their rows."""
        rows = self.param("kernel", orthogonal(2**0.5), (sum(self.sizes), self.features))
        tables = jnp.split(rows, np.cumsum(self.sizes)[:-1].tolist())
        if len(self.sizes) > 1 and len(set(self.sizes)) == 1:
            anywhere = self.param("anywhere", orthogonal(2**0.5), (self.sizes[0], self.features))
            tables = [table + anywhere for table in tables]
        return reduce(jnp.add, [_rows(table, choices[..., i]) for i, table in enumerate(tables)])


def _by_frame(sizes: tuple[int, ...], frames: int) -> list[tuple[int, ...]]:
    """The sizes of all channels, apart for every frame."""
    width = len(sizes) // frames
    return [sizes[i * width : (i + 1) * width] for i in range(frames)]


def _looks(tiles: Integer[Array, "*axes W H C"], sizes: tuple[int, ...]) -> Int[Array, "*axes W H"]:
    """One number for all channels of a cell: row-major, the last channel fastest."""
    looks = tiles[..., 0].astype(jnp.int32)
    for channel in range(1, len(sizes)):
        looks = looks * sizes[channel] + tiles[..., channel].astype(jnp.int32)
    return looks


def _tables(weights: Float[Array, "K total F"], sizes: tuple[int, ...]) -> Float[Array, "K looks F"]:
    """For each kernel position, the summed rows of every look of a cell; a last row of zeros is for no cell at all."""
    positions, _, features = weights.shape
    tables = jnp.zeros((positions, *(1,) * len(sizes), features), jnp.float32)
    for channel, start in enumerate(np.cumsum((0, *sizes[:-1]))):
        shape = [sizes[channel] if c == channel else 1 for c in range(len(sizes))]
        tables = tables + weights[:, start : start + sizes[channel]].reshape(positions, *shape, features)
    tables = tables.reshape(positions, math.prod(sizes), features)
    return jnp.concatenate([tables, jnp.zeros((positions, 1, features), jnp.float32)], axis=1)


def _rows(table: Float[Array, "n F"], index: Integer[Array, "*axes"]) -> Float[Array, "*axes F"]:
    return table.at[index.astype(jnp.int32)].get(mode="promise_in_bounds")
