"""A wrapper that flattens observations of any space to one vector."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from shoal.core.env import State
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space, choice_sizes, leaf_spaces
from shoal.core.struct import struct
from shoal.core.wrappers.base import Wrapper


@struct
class FlattenObservation(Wrapper):
    """Flatten observations of any space to one vector: arrays are raveled, choices are one-hot, parts concatenated.

    Parts of a Dict follow in the order of their names. The vector keeps the parts' dtype where they agree (one-hot
    parts are bool) and is float32 where they do not.
    """

    @property
    def observation_space(self) -> Box:
        """A vector space with the bounds of the parts."""
        parts = _boxes(self.env.observation_space)
        low, high = (np.concatenate([part.bounds()[side].ravel() for part in parts]) for side in (0, 1))
        return Box(low, high, low.shape, _common_dtype(parts))

    def observe(self, state: State) -> Shaped[Array, "n"]:
        """Return the observation as a vector."""
        space = self.env.observation_space
        dtype = _common_dtype(_boxes(space))
        leaves = zip(leaf_spaces(space), jax.tree.leaves(self.env.observe(state)), strict=True)
        return jnp.concatenate([vector.astype(dtype) for leaf in leaves for vector in _vectors(*leaf)])


def _boxes(space: Space) -> list[Box]:
    """Return a box of vectors for each part of a space."""
    return [_box(leaf) for leaf in leaf_spaces(space)]


def _box(space: Box | Discrete | MultiDiscrete) -> Box:
    if isinstance(space, Box):
        low, high = space.bounds()
        return Box(low.ravel(), high.ravel(), (low.size,), space.dtype)
    return Box(0, 1, (sum(choice_sizes(space)),), np.bool_)


def _vectors(space: Box | Discrete | MultiDiscrete, x: Array) -> list[Array]:
    """Return an array as a vector, and of choices a one-hot vector for each."""
    if isinstance(space, Box):
        return [x.ravel()]
    choices = x[None] if isinstance(space, Discrete) else x
    return [jax.nn.one_hot(choices[i], size, dtype=jnp.bool_) for i, size in enumerate(choice_sizes(space))]


def _common_dtype(boxes: list[Box]) -> np.dtype:
    dtypes = {box.dtype for box in boxes}
    return dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
