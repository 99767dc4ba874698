"""Spaces: what observations and actions look like. Plain hashable values, so they may be static fields.

`sample(key)` draws one element (unbatched; the caller vmaps) and `contains(x)` answers inside or outside `jit` with a
bool scalar. Dtypes are honest: a space names the dtype its elements really have, and `contains` checks it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

Key = jax.Array


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers 0 to n - 1."""

    n: int
    dtype: Any = np.int32

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"Discrete needs at least one element, not n={self.n}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Scalar."""
        return ()

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return jax.random.randint(key, (), 0, self.n, dtype=_canonical(self.dtype))

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a scalar of this dtype in range."""
        if not _fits(x, (), self.dtype):
            return jnp.asarray(False)
        return (x >= 0) & (x < self.n)


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """A vector of integers, the i-th from 0 to nvec[i] - 1."""

    nvec: tuple[int, ...]
    dtype: Any = np.int32

    def __post_init__(self) -> None:
        object.__setattr__(self, "nvec", tuple(int(n) for n in self.nvec))
        if not self.nvec or min(self.nvec) < 1:
            raise ValueError(f"MultiDiscrete needs sizes of at least one, not nvec={self.nvec}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a choice."""
        return (len(self.nvec),)

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return jax.random.randint(key, self.shape, 0, np.asarray(self.nvec), dtype=_canonical(self.dtype))

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a vector of this shape and dtype in range."""
        if not _fits(x, self.shape, self.dtype):
            return jnp.asarray(False)
        return jnp.all((x >= 0) & (x < np.asarray(self.nvec, self.dtype)))


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays between `low` and `high` (inclusive), each a number or a nested tuple of the array's shape.

    An unbounded side is `-inf` or `inf`. Elements are drawn uniformly where both sides are bounded, from a shifted
    exponential where one is, and from a normal distribution where none is. Boolean boxes have `low=0, high=1`.
    """

    low: Any
    high: Any
    shape: tuple[int, ...] = ()
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        low, high = (np.broadcast_to(np.asarray(side), self.shape) for side in (self.low, self.high))
        if not np.all(low <= high):
            raise ValueError(f"Box needs low <= high, not low={self.low}, high={self.high}.")
        object.__setattr__(self, "low", _hashable(self.low))
        object.__setattr__(self, "high", _hashable(self.high))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """`low` and `high` as arrays of the full shape and dtype."""
        return tuple(np.broadcast_to(np.asarray(side, self.dtype), self.shape) for side in (self.low, self.high))  # type: ignore[return-value]  # two sides

    def sample(self, key: Key) -> Array:
        """A random element. `key` is consumed."""
        dtype = _canonical(self.dtype)
        low, high = self.bounds()
        if dtype == np.bool_:
            return jax.random.bernoulli(key, 0.5, self.shape)
        if np.issubdtype(dtype, np.integer):
            wide = jax.random.randint(key, self.shape, low.astype(np.int32), high.astype(np.int32) + 1)
            return wide.astype(dtype)
        k_uniform, k_tail, k_normal = jax.random.split(key, 3)
        below, above = np.isfinite(low), np.isfinite(high)
        both = below & above
        span = np.where(both, high - np.where(both, low, 0), 1).astype(dtype)
        inside = np.where(both, low, 0).astype(dtype) + span * jax.random.uniform(k_uniform, self.shape, dtype)
        tail = jax.random.exponential(k_tail, self.shape, dtype)
        free = jax.random.normal(k_normal, self.shape, dtype)
        from_low, from_high = np.where(below, low, 0) + tail, np.where(above, high, 0) - tail
        return jnp.where(both, inside, jnp.where(below, from_low, jnp.where(above, from_high, free))).astype(dtype)

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` has this shape and dtype and lies within the bounds; NaN lies nowhere."""
        if not _fits(x, self.shape, self.dtype):
            return jnp.asarray(False)
        if np.dtype(self.dtype) == np.bool_:
            return jnp.asarray(True)
        low, high = self.bounds()
        return jnp.all((x >= low) & (x <= high))


@dataclasses.dataclass(frozen=True)
class Tuple:
    """A tuple of elements, one from each space."""

    spaces: "tuple[Space, ...]"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spaces", tuple(self.spaces))

    def sample(self, key: Key) -> tuple:
        """A random element of each. `key` is consumed."""
        keys = jax.random.split(key, len(self.spaces))
        return tuple(space.sample(k) for space, k in zip(self.spaces, keys, strict=True))

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a tuple of the right length whose parts lie in their spaces."""
        if not isinstance(x, tuple) or len(x) != len(self.spaces):
            return jnp.asarray(False)
        return _all(space.contains(part) for space, part in zip(self.spaces, x, strict=True))


@dataclasses.dataclass(frozen=True)
class Dict:
    """A dict of elements, one from each named space. Built from a mapping; kept as sorted pairs so that it hashes."""

    spaces: Any

    def __post_init__(self) -> None:
        pairs = self.spaces.items() if isinstance(self.spaces, Mapping) else self.spaces
        object.__setattr__(self, "spaces", tuple(sorted(pairs)))

    def __getitem__(self, name: str) -> "Space":
        return dict(self.spaces)[name]

    def sample(self, key: Key) -> dict:
        """A random element of each. `key` is consumed."""
        keys = jax.random.split(key, len(self.spaces))
        return {name: space.sample(k) for (name, space), k in zip(self.spaces, keys, strict=True)}

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a dict with exactly these names whose parts lie in their spaces."""
        if not isinstance(x, dict) or set(x) != {name for name, _ in self.spaces}:
            return jnp.asarray(False)
        return _all(space.contains(x[name]) for name, space in self.spaces)


Space = Discrete | MultiDiscrete | Box | Tuple | Dict


def flat_size(space: Space) -> int:
    """How many numbers an element holds: 1 for Discrete, the product of the shape for arrays, the sum over parts."""
    if isinstance(space, Tuple):
        return sum(flat_size(part) for part in space.spaces)
    if isinstance(space, Dict):
        return sum(flat_size(part) for _, part in space.spaces)
    return int(np.prod(space.shape, dtype=np.int64))


def zeros(space: Space) -> Any:
    """An element-shaped tree of zeros, for shapes and dtypes only (it need not lie in the space)."""
    if isinstance(space, Tuple):
        return tuple(zeros(part) for part in space.spaces)
    if isinstance(space, Dict):
        return {name: zeros(part) for name, part in space.spaces}
    return jnp.zeros(space.shape, _canonical(space.dtype))


def _canonical(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype)


def _fits(x: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return hasattr(x, "dtype") and x.shape == shape and x.dtype == _canonical(dtype)


def _hashable(side: Any) -> Any:
    array = np.asarray(side)
    return array.item() if array.ndim == 0 else _nested(array.tolist())


def _nested(value: Any) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


def _all(answers: Any) -> Bool[Array, ""]:
    result = jnp.asarray(True)
    for answer in answers:
        result = result & answer
    return result
