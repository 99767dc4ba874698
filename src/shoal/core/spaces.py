"""Spaces: what observations and actions look like. Plain hashable values, so they may be static fields.

`sample(key)` draws one element (unbatched; the caller vmaps) and `contains(x)` answers inside or outside `jit` with a
bool scalar. Dtypes are honest: a space names the dtype its elements really have, and `contains` checks it. A 64-bit
dtype means the 32-bit one while JAX runs without x64.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from shoal.core.keys import Key


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers 0 to n - 1."""

    n: int
    dtype: Any = np.int32

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "dtype", _whole_numbers(self.dtype, "Discrete"))
        if not 1 <= self.n <= np.iinfo(self.dtype).max + 1:
            raise ValueError(f"Discrete needs at least one element and as many as {self.dtype} counts, not n={self.n}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Scalar."""
        return ()

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return _whole(key, np.zeros((), self.dtype), np.asarray(self.n - 1, self.dtype))

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a scalar of this dtype in range."""
        if not _fits(x, (), self.dtype):
            return jnp.asarray(False)
        return jnp.asarray((x >= 0) & (x <= self.n - 1))

    def __repr__(self) -> str:
        return f"Discrete({self.n}{_unless(np.int32, self.dtype)})"


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """A vector of integers, the i-th from 0 to nvec[i] - 1."""

    nvec: tuple[int, ...]
    dtype: Any = np.int32

    def __post_init__(self) -> None:
        object.__setattr__(self, "nvec", tuple(int(n) for n in self.nvec))
        object.__setattr__(self, "dtype", _whole_numbers(self.dtype, "MultiDiscrete"))
        if not self.nvec or min(self.nvec) < 1 or max(self.nvec) > np.iinfo(self.dtype).max + 1:
            raise ValueError(f"MultiDiscrete needs sizes from one to what {self.dtype} counts, not nvec={self.nvec}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a choice."""
        return (len(self.nvec),)

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return _whole(key, np.zeros(self.shape, self.dtype), self._last())

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a vector of this shape and dtype in range."""
        if not _fits(x, self.shape, self.dtype):
            return jnp.asarray(False)
        return jnp.all((x >= 0) & (x <= self._last()))

    def __repr__(self) -> str:
        sizes = f"({self.nvec[0]},) * {len(self.nvec)}" if self.is_uniform and len(self.nvec) > 4 else self.nvec
        return f"MultiDiscrete({sizes}{_unless(np.int32, self.dtype)})"

    @property
    def is_uniform(self) -> bool:
        """Whether all integers have the same range."""
        return len(set(self.nvec)) == 1

    def _last(self) -> np.ndarray:
        return (np.asarray(self.nvec) - 1).astype(_canonical(self.dtype))


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays between `low` and `high` (inclusive), each a number or a nested tuple of the array's shape.

    An unbounded side is `-inf` or `inf`. Elements are drawn uniformly where both sides are bounded, from a shifted
    exponential where one is, and from a normal distribution where none is. Boolean boxes have `low=0, high=1`.
    `frames` says how many arrays of one kind lie side by side on the last axis (`FrameStack`), so that a network of
    categories can read each alone.
    Raises ValueError for bounds that are out of order, NaN, or do not fit the dtype, and for frames of unequal width.
    """

    low: Any
    high: Any
    shape: tuple[int, ...] = ()
    dtype: Any = np.float32
    frames: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        low, high = (np.broadcast_to(np.asarray(side), self.shape) for side in (self.low, self.high))
        if not np.all(low <= high):
            raise ValueError(f"Box needs low <= high, not low={self.low}, high={self.high}.")
        if np.issubdtype(self.dtype, np.integer):
            whole = np.iinfo(self.dtype)
            if not np.all((low >= whole.min) & (high <= whole.max)):
                raise ValueError(
                    f"low={self.low}, high={self.high} do not fit: {self.dtype} holds {whole.min} to {whole.max}."
                )
        if self.frames < 1 or (self.frames > 1 and (not self.shape or self.shape[-1] % self.frames)):
            raise ValueError(f"frames={self.frames} do not lie side by side on the last axis of shape={self.shape}.")
        object.__setattr__(self, "low", _hashable(self.low))
        object.__setattr__(self, "high", _hashable(self.high))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """`low` and `high` as arrays of the full shape and dtype."""
        low, high = (np.broadcast_to(np.asarray(side), self.shape) for side in (self.low, self.high))
        return low.astype(_canonical(self.dtype)), high.astype(_canonical(self.dtype))

    def sample(self, key: Key) -> Array:
        """A random element. `key` is consumed."""
        if self.dtype == np.bool_:
            return jax.random.bernoulli(key, 0.5, self.shape)
        low, high = self.bounds()
        return _whole(key, low, high) if np.issubdtype(self.dtype, np.integer) else _real(key, low, high)

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` has this shape and dtype and lies within the bounds; NaN lies nowhere."""
        if not _fits(x, self.shape, self.dtype):
            return jnp.asarray(False)
        if self.dtype == np.bool_:
            return jnp.asarray(True)
        low, high = self.bounds()
        return jnp.all((x >= low) & (x <= high))

    def __repr__(self) -> str:
        low, high = (_shortest(side, self.dtype) for side in (self.low, self.high))
        frames = "" if self.frames == 1 else f", frames={self.frames}"
        return f"Box({low}, {high}, {self.shape}{_unless(np.float32, self.dtype)}{frames})"


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

    def __repr__(self) -> str:
        return f"Tuple({self.spaces})"


@dataclasses.dataclass(frozen=True)
class Dict:
    """A dict of elements, one from each named space. Built from a mapping; kept as sorted pairs so that it hashes."""

    spaces: Any

    def __post_init__(self) -> None:
        pairs = self.spaces.items() if isinstance(self.spaces, Mapping) else self.spaces
        object.__setattr__(self, "spaces", tuple(sorted(pairs, key=lambda pair: pair[0])))

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

    def __repr__(self) -> str:
        return f"Dict({dict(self.spaces)})"


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


def explain(space: Space, x: Any, name: str = "it") -> str | None:
    """Why a concrete `x` does not lie in a space, in words that begin with `name`; None when it does."""
    reason = misfit(space, x, name)
    if reason:
        return reason
    if isinstance(space, (Tuple, Dict)):
        return _first(explain(part, x[i], f"{name}[{i!r}]") for i, part in _parts(space).items())
    with jax.ensure_compile_time_eval():
        inside = bool(space.contains(x))
    return None if inside else f"{name}={np.array2string(np.asarray(x), threshold=20)} is out of bounds"


def misfit(space: Space, x: Any, name: str = "it") -> str | None:
    """Why the structure, shapes or dtypes of `x` are not those of a space; None when they are. `x` may be traced."""
    if isinstance(space, (Tuple, Dict)):
        parts, kind = _parts(space), dict if isinstance(space, Dict) else tuple
        given = dict(enumerate(x)) if isinstance(x, tuple) else x
        if not isinstance(x, kind) or set(given) != set(parts):
            return f"{name} is {jax.tree.structure(x)}, not a {kind.__name__} of {list(parts)}"
        return _first(misfit(part, given[i], f"{name}[{i!r}]") for i, part in parts.items())
    dtype = _canonical(space.dtype)
    if not hasattr(x, "dtype"):
        return f"{name} is of type {type(x).__name__}, not an array of {dtype} with shape {space.shape}"
    if x.shape != space.shape or x.dtype != dtype:
        return f"{name} is {x.dtype} with shape {x.shape}, not {dtype} with shape {space.shape}"
    return None


def alike(one: Space, other: Space) -> bool:
    """Whether elements of two spaces have the same structure, shapes, dtypes and choices; bounds may differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (Tuple, Dict)) and isinstance(other, (Tuple, Dict)):
        mine, theirs = _parts(one), _parts(other)
        return mine.keys() == theirs.keys() and all(alike(part, theirs[name]) for name, part in mine.items())
    if isinstance(one, Box) and isinstance(other, Box):
        return (one.shape, one.dtype) == (other.shape, other.dtype)
    return one == other


def without_real_bounds(space: Space) -> Space:
    """The same space, but boxes of real numbers without bounds: what networks are built from, who read no others."""
    if isinstance(space, Tuple):
        return Tuple(tuple(without_real_bounds(part) for part in space.spaces))
    if isinstance(space, Dict):
        return Dict({name: without_real_bounds(part) for name, part in space.spaces})
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        return Box(-np.inf, np.inf, space.shape, space.dtype)
    return space


def as_element(space: "Space", x: Any) -> Any:
    """`x` as an array of the dtype of a space, where that is a plain array and `x` a Python or NumPy number or array.

    Whole numbers may become real ones; a number that the dtype cannot hold, and everything else, is returned as it is.
    """
    if not hasattr(space, "dtype") or isinstance(x, (bool, jax.Array)):
        return x
    given, dtype = np.asarray(x), _canonical(space.dtype)  # type: ignore[union-attr]  # it has one
    if given.dtype == object or not np.can_cast(given.dtype, dtype, "same_kind"):
        return x
    array = given.astype(dtype)
    return jnp.asarray(array) if given.dtype.kind == "f" or np.array_equal(array, given) else x


def random_action(space: Space, mask: Bool[Array, "A"] | None, key: Key) -> Any:
    """A uniform action, of those that a mask allows where there is one. `key` is consumed."""
    if mask is None or not isinstance(space, Discrete):
        return space.sample(key)
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)).astype(space.dtype)


def only_boxes(space: Any) -> bool:
    """Whether every part of a space holds numbers, none a choice."""
    if isinstance(space, (Tuple, Dict)):
        return all(only_boxes(part) for part in _parts(space).values())
    return isinstance(space, Box)


def _parts(space: Tuple | Dict) -> dict:
    return dict(space.spaces if isinstance(space, Dict) else enumerate(space.spaces))


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _canonical(dtype: Any) -> np.dtype:
    return jax.dtypes.canonicalize_dtype(dtype)


def _whole_numbers(dtype: Any, kind: str) -> np.dtype:
    if not np.issubdtype(dtype, np.integer):
        raise TypeError(f"{kind} counts: its dtype must be an integer one, as int32 or uint8, not {np.dtype(dtype)}.")
    return np.dtype(dtype)


def _whole(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Uniform integers from `low` to `high` inclusive (the greatest one of the dtype itself only when it is `low`)."""
    dtype = _canonical(low.dtype)
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    low, high = low.astype(wide), high.astype(wide)
    stop = high + (high < np.iinfo(wide).max).astype(wide)
    return jax.random.randint(key, low.shape, low, stop, dtype=wide).astype(dtype)


def _real(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Uniform where both bounds are finite, a shifted exponential where one is, normal where none is."""
    k_uniform, k_tail, k_normal = jax.random.split(key, 3)
    below, above = np.isfinite(low), np.isfinite(high)
    floor, ceiling = np.where(below, low, 0).astype(low.dtype), np.where(above, high, 0).astype(low.dtype)
    share = jax.random.uniform(k_uniform, low.shape, low.dtype)
    tail = jax.random.exponential(k_tail, low.shape, low.dtype)
    free = jax.random.normal(k_normal, low.shape, low.dtype)
    one_sided = jnp.where(below, floor + tail, jnp.where(above, ceiling - tail, free))
    # Not low + share * (high - low): that difference can overflow.
    inside = jnp.where(below & above, floor * (1 - share) + ceiling * share, one_sided)
    return jnp.clip(inside, low, high)


def _fits(x: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return hasattr(x, "dtype") and x.shape == shape and x.dtype == _canonical(dtype)


def _hashable(side: Any) -> Any:
    array = np.asarray(side)
    if array.size and (array == array.flat[0]).all():
        return array.flat[0].item()  # one number for all, so that equal boxes compare equal
    return _nested(array.tolist())


def _unless(usual: Any, dtype: np.dtype) -> str:
    return "" if dtype == usual else f", {dtype}"


def _shortest(side: Any, dtype: np.dtype) -> Any:
    """A bound in the fewest digits that tell it from its neighbors: float32 holds 4.8 as 4.800000190734863."""
    if isinstance(side, tuple):
        return tuple(_shortest(part, dtype) for part in side)
    return float(str(np.asarray(side, dtype))) if np.issubdtype(dtype, np.floating) else side


def _nested(value: Any) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


def _all(answers: Any) -> Bool[Array, ""]:
    result = jnp.asarray(True)
    for answer in answers:
        result = result & answer
    return result
