"""Spaces: the possible observations or actions, with shape and dtype. They are hashable, so they can be static fields.

`sample(key)` returns one random element (the caller batches with `vmap`). `contains(x)` returns a bool scalar, inside
or outside `jit`. A space has the dtype that its elements really have, and `contains` checks it. A 64-bit dtype means
the 32-bit one unless JAX runs in x64 mode.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.core.errors import in_digits
from shoal.core.keys import Key
from shoal.core.kinds import with_tuples

MOST_NUMBERS = 2**28  # in one element of a Box


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers 0 to n - 1."""

    n: int
    dtype: Any = np.int32

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _whole(self.n, "Discrete", "n"))
        object.__setattr__(self, "dtype", _integer_dtype(self.dtype, "Discrete"))
        if not 1 <= self.n <= np.iinfo(self.dtype).max + 1:
            raise ValueError(
                f"Discrete needs n from 1 to {np.iinfo(self.dtype).max + 1}, which {self.dtype} can count, "
                f"not n={in_digits(self.n)}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """`()`: elements are scalars."""
        return ()

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return _random_integers(key, np.zeros((), self.dtype), np.asarray(self.n - 1, self.dtype))

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a scalar of this dtype in range."""
        if not _has_shape_and_dtype(x, (), self.dtype):
            return jnp.asarray(False)
        return jnp.asarray((x >= 0) & (x <= self.n - 1))

    def __repr__(self) -> str:
        return f"Discrete({self.n}{_suffix_unless(np.int32, self.dtype)})"


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """A vector of integers, the i-th from 0 to nvec[i] - 1.

    With `text` they are the words of an instruction that differs between episodes: numbers of one vocabulary, in order,
    and 0 where there is no word. Networks read them with an encoder of instructions (`nn/instructions.py`).
    Raises ValueError for a text whose components have different sizes.
    """

    nvec: tuple[int, ...]
    dtype: Any = np.int32
    text: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "nvec", _whole_numbers(self.nvec, "MultiDiscrete", "nvec"))
        object.__setattr__(self, "dtype", _integer_dtype(self.dtype, "MultiDiscrete"))
        if not self.nvec or min(self.nvec) < 1 or max(self.nvec) > np.iinfo(self.dtype).max + 1:
            raise ValueError(
                f"MultiDiscrete needs sizes from 1 to {np.iinfo(self.dtype).max + 1}, which {self.dtype} can count, "
                f"not nvec=({', '.join(map(in_digits, self.nvec[:8]))}{', ...' * (len(self.nvec) > 8)})."
            )
        if self.text and not self.is_uniform:
            raise ValueError(f"a text has one vocabulary for all its words, but the sizes are {self.nvec}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """`(len(nvec),)`: elements are vectors with an entry for each choice."""
        return (len(self.nvec),)

    def sample(self, key: Key) -> Array:
        """A uniform element. `key` is consumed."""
        return _random_integers(key, np.zeros(self.shape, self.dtype), self._last())

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` is a vector of this shape and dtype in range."""
        if not _has_shape_and_dtype(x, self.shape, self.dtype):
            return jnp.asarray(False)
        return jnp.all((x >= 0) & (x <= self._last()))

    def __repr__(self) -> str:
        sizes = f"({self.nvec[0]},) * {len(self.nvec)}" if self.is_uniform and len(self.nvec) > 4 else self.nvec
        text = ", text=True" if self.text else ""
        return f"MultiDiscrete({sizes}{_suffix_unless(np.int32, self.dtype)}{text})"

    @property
    def is_uniform(self) -> bool:
        """Whether all integers have the same range."""
        return len(set(self.nvec)) == 1

    def _last(self) -> np.ndarray:
        return (np.asarray(self.nvec) - 1).astype(_canonical(self.dtype))


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays between `low` and `high` (inclusive). Each bound is a number or a nested tuple of the array's shape.

    A missing bound is `-inf` or `inf`. `sample` is uniform where both bounds are finite, a shifted exponential where
    one is, and a normal distribution where none is. Boolean boxes have `low=0, high=1`.
    `frames` is the number of frames that `FrameStack` joined along the last axis; a network that reads categories
    splits them again.
    Raises ValueError for `low > high`, NaN, bounds that do not fit the dtype, and a last axis that `frames` does not
    divide.
    """

    low: Any
    high: Any
    shape: tuple[int, ...] = ()
    dtype: Any = np.float32
    frames: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _whole_numbers(self.shape, "Box", "shape"))
        object.__setattr__(self, "dtype", _dtype(self.dtype, "Box"))
        if min(self.shape, default=0) < 0 or math.prod(self.shape) > MOST_NUMBERS:
            raise ValueError(f"Box needs sizes of at least 0 and at most {MOST_NUMBERS:,} numbers, not {self.shape}.")
        low, high = np.asarray(self.low), np.asarray(self.high)  # of the shape of the box, or one number for all
        for side, bound in (("low", low), ("high", high)):
            if bound.dtype.kind not in "biuf":
                raise TypeError(f"Box needs numbers as {side}, each of at most 64 bits, not {bound.tolist()!r:.60}.")
            if not _broadcasts(bound.shape, self.shape):
                raise ValueError(f"{side} of a Box has the shape {bound.shape}, which does not fit {self.shape}.")
        if not np.all(low <= high):
            raise ValueError(f"Box needs low <= high, not low={self.low}, high={self.high}.")
        if np.issubdtype(self.dtype, np.integer):
            limits = np.iinfo(self.dtype)
            if not np.all((low >= limits.min) & (high <= limits.max)):
                raise ValueError(
                    f"low={self.low}, high={self.high} do not fit: {self.dtype} holds {limits.min} to {limits.max}."
                )
        if self.frames < 1 or (self.frames > 1 and (not self.shape or self.shape[-1] % self.frames)):
            raise ValueError(f"frames={self.frames} does not divide the last axis of shape={self.shape}.")
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
        sample = _random_integers if np.issubdtype(self.dtype, np.integer) else _random_floats
        return sample(key, low, high)

    def contains(self, x: Any) -> Bool[Array, ""]:
        """Whether `x` has this shape and dtype and lies within the bounds; NaN is outside."""
        if not _has_shape_and_dtype(x, self.shape, self.dtype):
            return jnp.asarray(False)
        if self.dtype == np.bool_:
            return jnp.asarray(True)
        low, high = self.bounds()
        return jnp.all((x >= low) & (x <= high))

    def __repr__(self) -> str:
        low, high = (_shortest(side, self.dtype) for side in (self.low, self.high))
        frames = "" if self.frames == 1 else f", frames={self.frames}"
        return f"Box({low}, {high}, {self.shape}{_suffix_unless(np.float32, self.dtype)}{frames})"


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether arrays of a shape can be broadcast to another one; no array is made."""
    tail = wanted[len(wanted) - len(shape) :]
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(shape, tail, strict=True))


@dataclasses.dataclass(frozen=True)
class Tuple:
    """A tuple of elements, one from each space."""

    spaces: "tuple[Space, ...]"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spaces", _listed(self.spaces, "Tuple", "spaces"))
        _check_spaces("Tuple", self.spaces)

    def sample(self, key: Key) -> tuple:
        """A tuple with a random element of each space. `key` is consumed."""
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
    """A dict of elements, one from each named space. A mapping builds it; sorted pairs hold it, which are hashable."""

    spaces: Any

    def __post_init__(self) -> None:
        pairs = _listed(self.spaces.items() if isinstance(self.spaces, Mapping) else self.spaces, "Dict", "spaces")
        if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise TypeError(
                f"Dict needs names with spaces, as in Dict({{'image': Box(0, 1, (8, 8))}}), not {pairs!r:.80}."
            )
        _check_spaces("Dict", [space for _, space in pairs])
        object.__setattr__(self, "spaces", tuple(sorted(pairs, key=lambda pair: pair[0])))

    def __getitem__(self, name: str) -> "Space":
        return dict(self.spaces)[name]

    def sample(self, key: Key) -> dict:
        """A dict with a random element of each space. `key` is consumed."""
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


def _refuse_call(space: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise TypeError: spaces have `__call__` only to explain `env.action_space(params)`, as gymnax has it."""
    raise TypeError("a space is not called: write env.action_space and env.observation_space, without (params).")


for _kind in (Discrete, MultiDiscrete, Box, Tuple, Dict):  # here, so that type checkers do not see it
    setattr(_kind, "__call__", _refuse_call)  # noqa: B010


def leaf_spaces(space: Space) -> list[Box | Discrete | MultiDiscrete]:
    """Return the spaces of the arrays that an element consists of, in the order of `jax.tree.leaves`."""
    if isinstance(space, (Tuple, Dict)):
        return [leaf for part in _parts(space).values() for leaf in leaf_spaces(part)]
    return [space]


def leaf_pairs(space: Space, element: Any) -> list[tuple[Box | Discrete | MultiDiscrete, Any]]:
    """Return (the space, the value) of every array of an element, in order. Keys that a Dict lacks are left out."""
    pairs: list[tuple[Box | Discrete | MultiDiscrete, Any]] = []
    over_leaves(lambda leaf, x: pairs.append((leaf, x)), space, element)
    return pairs


def over_leaves(function: Callable[..., Any], space: Space, *elements: Any) -> Any:
    """Return the tree of an element with `function(leaf's space, leaf of each element)` in the place of every leaf."""
    if isinstance(space, (Tuple, Dict)):
        parts = {i: over_leaves(function, part, *(x[i] for x in elements)) for i, part in _parts(space).items()}
        return parts if isinstance(space, Dict) else tuple(parts.values())
    return function(space, *elements)


def with_leaves(function: Callable[[Any], Space], space: Space) -> Space:
    """Return the space with `function(leaf's space)` in the place of the space of every leaf."""
    if isinstance(space, (Tuple, Dict)):
        parts = {i: with_leaves(function, part) for i, part in _parts(space).items()}
        return Dict(parts) if isinstance(space, Dict) else Tuple(tuple(parts.values()))
    return function(space)


def flat_size(space: Space) -> int:
    """Return how many numbers an element has: 1 for Discrete, the size of an array, the sum over parts for others."""
    return sum(math.prod(leaf.shape) for leaf in leaf_spaces(space))


def zeros(space: Space) -> Any:
    """Return a tree of zeros with the shapes and dtypes of an element. It need not lie in the space."""
    return over_leaves(lambda leaf: jnp.zeros(leaf.shape, _canonical(leaf.dtype)), space)


def explain(space: Space, x: Any, name: str = "it") -> str | None:
    """Return why `x` is not in a space, as a text that begins with `name`; None if it is. `x` must not be traced."""
    reason = misfit(space, x, name)
    if reason:
        return reason
    if isinstance(space, (Tuple, Dict)):
        return _first(explain(part, x[i], f"{name}[{i!r}]") for i, part in _parts(space).items())
    with jax.ensure_compile_time_eval():
        inside = bool(space.contains(x))
    return None if inside else f"{name}={np.array2string(np.asarray(x), threshold=20)} is out of bounds"


def misfit(space: Space, x: Any, name: str = "it") -> str | None:
    """Return why structure, shapes or dtypes of `x` do not fit a space; None where they do. `x` may be traced."""
    if isinstance(space, (Tuple, Dict)):
        parts, kind = _parts(space), dict if isinstance(space, Dict) else tuple
        elements = dict(enumerate(x)) if isinstance(x, tuple) else x
        if not isinstance(x, kind) or set(elements) != set(parts):
            return f"{name} is {jax.tree.structure(x)}, not a {kind.__name__} of {list(parts)}"
        return _first(misfit(part, elements[i], f"{name}[{i!r}]") for i, part in parts.items())
    dtype = _canonical(space.dtype)
    if not hasattr(x, "dtype"):
        return f"{name} is of type {type(x).__name__}, not an array of {dtype} with shape {space.shape}"
    if x.shape != space.shape or x.dtype != dtype:
        return f"{name} is {x.dtype} with shape {x.shape}, not {dtype} with shape {space.shape}"
    return None


def alike(one: Space, other: Space) -> bool:
    """Return whether elements of two spaces have the same structure, shapes, dtypes and choices; bounds may differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (Tuple, Dict)) and isinstance(other, (Tuple, Dict)):
        parts, others = _parts(one), _parts(other)
        return parts.keys() == others.keys() and all(alike(part, others[name]) for name, part in parts.items())
    if isinstance(one, Box) and isinstance(other, Box):
        return (one.shape, one.dtype) == (other.shape, other.dtype)
    return one == other


def without_real_bounds(space: Space) -> Space:
    """Return the space with boxes of floats unbounded. Networks depend on no other bounds of what they read."""

    def unbounded(leaf: Any) -> Space:
        is_real = np.issubdtype(leaf.dtype, np.floating)  # of a Box
        return Box(-np.inf, np.inf, leaf.shape, leaf.dtype) if is_real else leaf

    return with_leaves(unbounded, space)


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


def from_unit(space: Box, unit: Float[Array, "*shape"]) -> Array:
    """Return the elements of a box for numbers in its units, clipped to its bounds.

        element = center + half-width * unit

    -1 and 1 are the bounds. A number without two finite bounds keeps its own units: center 0, half-width 1.
    `unit` may have leading axes. Components with `low == high` have half-width 0.
    """
    low, high, center, half = (jnp.broadcast_to(x, unit.shape) for x in units_of(space))
    return jnp.clip(center + half * unit.astype(center.dtype), low, high).astype(_canonical(space.dtype))


def to_unit(space: Box, element: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return elements of a box in its units, float32: the inverse of `from_unit`; 0 where the half-width is 0."""
    _, _, center, half = (jnp.broadcast_to(x, element.shape) for x in units_of(space))
    return ((element.astype(center.dtype) - center) / jnp.where(half == 0, 1, half)).astype(jnp.float32)


def units_of(space: Box) -> list[np.ndarray]:
    """Return (low, high, center, half-width) of every number of a box, in 64 bits for a box of float64, else 32."""
    wide = np.dtype(np.float64 if _canonical(space.dtype) == np.float64 else np.float32)
    low, high = (side.astype(np.float64) for side in space.bounds())
    bounded = is_bounded(space)
    floor, ceiling = np.where(bounded, low, -1), np.where(bounded, high, 1)
    # Halved first, because the sum or the difference of two bounds can overflow.
    return [x.astype(wide) for x in (low, high, floor / 2 + ceiling / 2, ceiling / 2 - floor / 2)]


def is_bounded(space: Box) -> Bool[np.ndarray, "*shape"]:
    """Return which numbers of a box have two finite bounds."""
    low, high = space.bounds()
    return np.isfinite(low) & np.isfinite(high)


def mask_size(space: Space) -> int:
    """Return the number of entries of an action mask: one for each choice; 0 for a space whose actions have no mask.

    Those of MultiDiscrete stand one component after the other.
    """
    if isinstance(space, (Discrete, MultiDiscrete)):
        return sum(choice_sizes(space))
    return 0


def permits(space: Space, mask: Any) -> Any:
    """Return whether an action mask [..., A] allows an action: at least one choice of every component. [...]"""
    return functools.reduce(operator.and_, (part.any(-1) for part in mask_parts(space, mask)))


def random_action(space: Space, mask: Bool[Array, "A"] | None, key: Key) -> Any:
    """Sample an action uniformly; with a mask, among the allowed ones. `key` is consumed."""
    if mask is None or not mask_size(space):
        return space.sample(key)
    logits = [jnp.where(part, 0.0, -jnp.inf) for part in mask_parts(space, mask)]
    keys = [key] if isinstance(space, Discrete) else jax.random.split(key, len(logits))
    choices = [jax.random.categorical(k, of_part) for k, of_part in zip(keys, logits, strict=True)]
    return (choices[0] if isinstance(space, Discrete) else jnp.stack(choices)).astype(space.dtype)  # type: ignore[union-attr]  # it has one


def mask_parts(space: Space, mask: Any) -> list[Any]:
    """Return the part [..., n] of an action mask [..., A], of NumPy or JAX, for each component of an action."""
    stops = np.cumsum(choice_sizes(space)).tolist()
    return [mask[..., stop - n : stop] for n, stop in zip(choice_sizes(space), stops, strict=True)]


def choice_sizes(space: Any) -> tuple[int, ...]:
    """Return the number of values of each choice of a Discrete or MultiDiscrete space."""
    return (space.n,) if isinstance(space, Discrete) else space.nvec


def _parts(space: Tuple | Dict) -> dict:
    return dict(space.spaces if isinstance(space, Dict) else enumerate(space.spaces))


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _canonical(dtype: Any) -> np.dtype:
    return jax.dtypes.canonicalize_dtype(dtype)


def _integer_dtype(dtype: Any, kind: str) -> np.dtype:
    dtype = _dtype(dtype, kind)
    if not np.issubdtype(dtype, np.integer):
        raise TypeError(f"the dtype of {kind} must be an integer one, such as int32 or uint8, not {dtype}.")
    return dtype


def _dtype(dtype: Any, kind: str) -> np.dtype:
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the dtype of {kind} must be one of NumPy, such as np.float32, not {dtype!r:.60}.") from error


def _whole(number: Any, kind: str, name: str) -> int:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, SupportsIndex) or np.shape(number):  # type: ignore[arg-type]  # any number
        raise TypeError(f"{kind} needs whole numbers as {name}, not {number!r:.60}.")
    return operator.index(number)


def _whole_numbers(numbers: Any, kind: str, name: str) -> tuple[int, ...]:
    return tuple(_whole(number, kind, name) for number in _listed(numbers, kind, name))


def _listed(values: Any, kind: str, name: str) -> tuple:
    """Return values as a tuple. Raises TypeError for what is no list of them."""
    is_one = isinstance(values, (str, bytes)) or getattr(values, "ndim", 1) == 0
    if is_one or not isinstance(values, Iterable):
        raise TypeError(f"{kind} needs a tuple as {name}, not {values!r:.60}.")
    return tuple(values)


def _check_spaces(kind: str, spaces: Iterable[Any]) -> None:
    for space in spaces:
        if not isinstance(space, (Discrete, MultiDiscrete, Box, Tuple, Dict)):
            raise TypeError(f"{kind} needs spaces of shoal, such as Box or Discrete, not {space!r:.60}.")


def _random_integers(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Return uniform integers from `low` to `high`, inclusive.

    Where `high` is the largest integer of a 32- or 64-bit dtype it is excluded, unless `low` is it too.
    """
    dtype = _canonical(low.dtype)
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    low, high = low.astype(wide), high.astype(wide)
    stop = high + (high < np.iinfo(wide).max).astype(wide)
    return jax.random.randint(key, low.shape, low, stop, dtype=wide).astype(dtype)


def _random_floats(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Return random floats: uniform where both bounds are finite, a shifted exponential where one is, else normal."""
    k_uniform, k_tail, k_normal = jax.random.split(key, 3)
    below, above = np.isfinite(low), np.isfinite(high)
    floor, ceiling = np.where(below, low, 0).astype(low.dtype), np.where(above, high, 0).astype(low.dtype)
    fraction = jax.random.uniform(k_uniform, low.shape, low.dtype)
    tail = jax.random.exponential(k_tail, low.shape, low.dtype)
    unbounded = jax.random.normal(k_normal, low.shape, low.dtype)
    one_sided = jnp.where(below, floor + tail, jnp.where(above, ceiling - tail, unbounded))
    # This is not written low + fraction * (high - low), because the difference can overflow.
    inside = jnp.where(below & above, floor * (1 - fraction) + ceiling * fraction, one_sided)
    return jnp.clip(inside, low, high)


def _has_shape_and_dtype(x: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return hasattr(x, "dtype") and x.shape == shape and x.dtype == _canonical(dtype)


def _hashable(side: Any) -> Any:
    array = np.asarray(side)
    if array.size and (array == array.flat[0]).all():
        return array.flat[0].item()  # one number for all elements, so that equal boxes compare equal
    return with_tuples(array.tolist())


def _suffix_unless(usual: Any, dtype: np.dtype) -> str:
    return "" if dtype == usual else f", {dtype}"


def _shortest(side: Any, dtype: np.dtype) -> Any:
    """Return a bound with as few digits as identify it in its dtype: 4.8 in float32, not 4.800000190734863."""
    if isinstance(side, tuple):
        return tuple(_shortest(part, dtype) for part in side)
    return float(str(np.asarray(side, dtype))) if np.issubdtype(dtype, np.floating) else side


def _all(answers: Any) -> Bool[Array, ""]:
    result = jnp.asarray(True)
    for answer in answers:
        result = result & answer
    return result
