"""Spaces, observations and actions of Gymnasium as those of shoal."""

from typing import Any

import numpy as np

from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple


def space_of(space: Any, name: str = "the space") -> Space:
    """Return shoal's space for one of Gymnasium: integers begin at 0, and 64-bit numbers have 32 bits.

    MultiBinary(n) becomes MultiDiscrete, two values for each bit. Raises TypeError, which begins with `name`, for
    spaces whose elements have no fixed shape (Text, Sequence, Graph, OneOf) and for others that shoal does not have.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return MultiDiscrete(tuple(space.nvec.tolist()))
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return MultiDiscrete((2,) * space.shape[0])
    if isinstance(space, spaces.Box):
        dtype = _narrow(space.dtype)
        return Box(_as_narrow(space.low, dtype), _as_narrow(space.high, dtype), space.shape, dtype)
    if isinstance(space, spaces.Tuple):
        return Tuple(tuple(space_of(part, f"part {i} of {name}") for i, part in enumerate(space.spaces)))
    if isinstance(space, spaces.Dict):
        return Dict({key: space_of(part, f"{key!r} of {name}") for key, part in space.spaces.items()})
    raise TypeError(
        f"{name} is {space}, which shoal cannot hold: it needs Discrete, MultiDiscrete, MultiBinary, Box, or Tuple and "
        f"Dict of these, with a fixed shape. Gymnasium's wrappers, such as TransformObservation, can convert it."
    )


def element_of(space: Any, x: Any) -> Any:
    """Return an element of a Gymnasium space as NumPy arrays with the dtypes of `space_of(space)`.

    Raises TypeError, ValueError or KeyError for another structure, and for numbers of a kind that the space lacks.
    """
    from gymnasium import spaces

    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return np.asarray(_of_kind(x, np.dtype(np.int32)) - space.start, np.int32)
    if isinstance(space, spaces.MultiBinary):
        return _of_kind(x, np.dtype(np.int32)).astype(np.int32)
    if isinstance(space, spaces.Tuple):
        return tuple(element_of(part, value) for part, value in zip(space.spaces, x, strict=True))
    if isinstance(space, spaces.Dict):
        return {key: element_of(part, x[key]) for key, part in space.spaces.items()}
    return _as_narrow(_of_kind(x, space.dtype), _narrow(space.dtype))


def action_for(space: Any, action: Any) -> Any:
    """Return an action of shoal, as NumPy arrays, as an action of a Gymnasium space: the inverse of `element_of`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return space.start + int(action)
    if isinstance(space, spaces.MultiDiscrete):
        return (np.asarray(action) + space.start).astype(space.dtype)
    if isinstance(space, spaces.Tuple):
        return tuple(action_for(part, value) for part, value in zip(space.spaces, action, strict=True))
    if isinstance(space, spaces.Dict):
        return {key: action_for(part, action[key]) for key, part in space.spaces.items()}
    return np.asarray(action, space.dtype)


def _of_kind(x: Any, dtype: np.dtype) -> np.ndarray:
    """An array of numbers. Raises TypeError for what is none, and for fractions where `dtype` holds whole numbers."""
    array = np.asarray(x)
    if array.dtype.kind not in ("biuf" if dtype.kind == "f" else "biu"):
        raise TypeError(f"{array.dtype} is not of the kind of {dtype}")
    return array


def _narrow(dtype: Any) -> np.dtype:
    """The 32-bit dtype for one of 64 bits; other dtypes stay."""
    wide = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
    return np.dtype(wide.get(np.dtype(dtype).name, dtype))


def _as_narrow(x: Any, dtype: np.dtype) -> np.ndarray:
    """An array in a dtype that may hold fewer numbers: integers beyond its limits become the nearest limit."""
    array = np.asarray(x)
    if np.issubdtype(dtype, np.integer) and array.dtype != dtype:
        limits = np.iinfo(dtype)
        array = np.clip(array, limits.min, limits.max)
    return array.astype(dtype, copy=False)
