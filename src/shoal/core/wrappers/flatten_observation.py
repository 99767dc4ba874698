"""A wrapper that flattens observations of any space to one vector."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from shoal.core.env import State
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple
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
        vectors = _vectors(space, self.env.observe(state))
        return jnp.concatenate([vector.astype(dtype) for vector in vectors])


def _boxes(space: Space) -> list[Box]:
    """Return a box of vectors for each part of a space."""
    if isinstance(space, (Tuple, Dict)):
        return [box for part in _parts(space) for box in _boxes(part)]
    if isinstance(space, Box):
        low, high = space.bounds()
        return [Box(low.ravel(), high.ravel(), (low.size,), space.dtype)]
    return [Box(0, 1, (sum(_sizes(space)),), np.bool_)]


def _vectors(space: Space, x: Any) -> list[Array]:
    if isinstance(space, (Tuple, Dict)):
        elements = x if isinstance(space, Tuple) else [x[name] for name, _ in space.spaces]
        return [vector for part, y in zip(_parts(space), elements, strict=True) for vector in _vectors(part, y)]
    if isinstance(space, Box):
        return [x.ravel()]
    choices = x[None] if isinstance(space, Discrete) else x
    return [jax.nn.one_hot(choices[i], size, dtype=jnp.bool_) for i, size in enumerate(_sizes(space))]


def _parts(space: Tuple | Dict) -> list[Space]:
    return [part for _, part in space.spaces] if isinstance(space, Dict) else list(space.spaces)


def _sizes(space: Discrete | MultiDiscrete) -> tuple[int, ...]:
    return (space.n,) if isinstance(space, Discrete) else space.nvec


def _common_dtype(boxes: list[Box]) -> np.dtype:
    dtypes = {box.dtype for box in boxes}
    return dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
