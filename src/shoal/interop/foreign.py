"""The base class of environments of other JAX libraries: their steps are compiled together with the agent.

Such a library has its own way to batch, to reset and to end episodes. Only its functions that begin an episode and
take one step without a reset are used: resets, time limits and final observations are shoal's (`shoal.core.env`).

`shoal.interop.sources` has a module for each library. It makes a class for each name with `declare`: the numbers of the
library's environment become fields, as if the environment were written for shoal.
"""

import abc
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env, Observation, State, Transition
from shoal.core.errors import unknown_name
from shoal.core.keys import Key, is_key
from shoal.core.spaces import Box, Dict, Space, Tuple
from shoal.core.struct import Number, static, static_fields, struct


class LibraryEnv(NamedTuple):
    """An environment of another library with some static options, and what follows from them."""

    env: Any  # the environment of the library
    observation_space: Space
    action_space: Space
    limit: int | None  # its time limit in steps
    params: Any = None  # its default parameters, if it keeps them apart from `env`


class Outcome(NamedTuple):
    """The result of a step of another library's environment."""

    inner: Any  # its state
    obs: Any
    reward: Any
    terminated: Any  # without the time limit


@struct
class ForeignState(State):
    """The state of another library's environment, and its last observation in the form that shoal uses."""

    inner: Any
    obs: Any


@struct
class ForeignEnv(Env):
    """An environment of another JAX library. Subclasses are made by `declare`, one for each name.

    `max_steps` is the time limit; None, when the value is built, means the limit that the library has.
    """

    name: ClassVar[str] = ""  # with which `shoal.make` finds the environment: "brax/ant"
    id: ClassVar[str] = ""  # in its library: "ant"
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", self.library.limit)

    @classmethod
    @abc.abstractmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the library's environment with these values of the static fields, and describe it."""

    @abc.abstractmethod
    def begin(self, key: Key) -> tuple[Any, Any]:
        """Begin an episode with the library's function: (its state, observation). `key` is consumed."""

    @abc.abstractmethod
    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Take one step with the library's function, without a reset. `key` is the noise; it is consumed."""

    @property
    def library(self) -> LibraryEnv:
        """The library's environment and its spaces. They are computed once for each choice of static fields."""
        return _library(type(self), tuple((name, getattr(self, name)) for name in static_fields(type(self))))

    @property
    def observation_space(self) -> Space:
        """The space of observations, with the shapes and dtypes that they really have."""
        return self.library.observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions. Its bounds are those of the default constants."""
        return self.library.action_space

    def init(self, key: Key) -> ForeignState:
        """Begin an episode."""
        inner, obs = self.begin(key)
        return ForeignState(jnp.int32(0), _strong(inner), _strong(obs))

    def noise(self, key: Key) -> Any:
        """The key of a step: libraries sample inside their step."""
        return key

    def transition(self, state: ForeignState, action: Any, noise: Any) -> Transition[ForeignState]:
        """Take one step of the library's environment. Its time limit and its resets play no part."""
        copied = jax.tree.map(lambda leaf: leaf, state.inner)  # a library may write into the dicts of its state
        outcome = self.proceed(copied, action, noise)
        inner, obs = self._like(state.inner, outcome.inner), self._like(state.obs, outcome.obs)
        reward = jnp.asarray(outcome.reward).astype(jnp.float32).reshape(())
        terminated = jnp.asarray(outcome.terminated).astype(jnp.bool_).reshape(())
        return state.replace(inner=inner, obs=obs), reward, terminated, {}

    def observe(self, state: ForeignState) -> Observation:
        """The observation that the library returned with the state."""
        return state.obs

    def _like(self, before: Any, after: Any) -> Any:
        """`after` with the dtypes of `before`, as a loop over steps needs it. Raises TypeError where this loses."""
        if jax.tree.structure(before) != jax.tree.structure(after):
            raise TypeError(
                f"{self.name} returns another kind of state from a step than from a reset, so shoal cannot hold it: "
                f"{jax.tree.structure(after)}, not {jax.tree.structure(before)}."
            )
        return jax.tree.map(self._same_dtype, before, after)

    def _same_dtype(self, before: Any, after: Any) -> Any:
        after = _strong(after)
        if after.dtype == before.dtype and after.shape == before.shape:
            return after
        if after.shape != before.shape or not np.can_cast(after.dtype, before.dtype, "same_kind"):
            raise TypeError(
                f"{self.name} has {before.dtype}{list(before.shape)} in its state after a reset and "
                f"{after.dtype}{list(after.shape)} after a step, so shoal cannot hold it."
            )
        return after.astype(before.dtype)


def declare(
    base: type[ForeignEnv],
    name: str,
    about: str,
    numbers: Mapping[str, float] | None = None,
    options: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> type[ForeignEnv]:
    """Make the class of one environment of a library.

    `numbers` are traced constants with their defaults, `options` static ones. `attributes` are further attributes of
    the class; `about` is its docstring.
    """
    numbers, options = numbers or {}, options or {}
    types = {**dict.fromkeys(numbers, Number), **{field: type(default) for field, default in options.items()}}
    body = {
        "__annotations__": types,
        "__doc__": about,
        "__module__": base.__module__,
        "name": name,
        "id": name.partition("/")[2],
        **attributes,
        **numbers,
        **{field: static(default) for field, default in options.items()},
    }
    return struct(abc.ABCMeta(f"{base.__name__}[{name}]", (base,), body))


def checked_name(library: str, name: str, known: Iterable[str]) -> str:
    """Return `LIBRARY/NAME`. Raises UnknownNameError, with the nearest names, for one that the library lacks."""
    full = f"{library}/{name}"
    if name not in known:
        hint = f"`shoal envs {library}/` lists every name."
        raise unknown_name("env", full, [f"{library}/{there}" for there in known], hint)
    return full


def arguments_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of the parameters of a function, or of a constructor, with their defaults."""
    return {parameter.name: parameter.default for parameter in inspect.signature(function).parameters.values()}


def plain_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The entries that can be traced constants of an environment: numbers whose names are free."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_free(name)
    }


def plain_options(values: Mapping[str, Any], kinds: tuple[type, ...] = (bool, int, float, str)) -> dict[str, Any]:
    """The entries that can be static fields of an environment: values of these kinds whose names are free."""
    return {name: value for name, value in values.items() if type(value) in kinds and _is_free(name)}


def box(low: Any, high: Any, like: Any) -> Box:
    """A Box of the shape and dtype of a real array, with bounds that may be those of another dtype."""
    dtype = np.dtype(like.dtype)
    low, high = (np.broadcast_to(np.asarray(side, np.float64), like.shape) for side in (low, high))
    if dtype == np.bool_:
        return Box(0, 1, like.shape, dtype)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        low, high = (np.clip(side, limits.min, limits.max).astype(np.int64) for side in (low, high))
        return Box(low, high, like.shape, dtype)
    return Box(low.astype(dtype), high.astype(dtype), like.shape, dtype)


def unbounded(like: Any) -> Space:
    """The space of observations of which only shapes and dtypes are known; dicts and tuples stay what they are."""
    if isinstance(like, Mapping):
        return Dict({name: unbounded(part) for name, part in like.items()})
    if isinstance(like, (tuple, list)):
        return Tuple(tuple(unbounded(part) for part in like))
    return box(-np.inf, np.inf, like)


@lru_cache(maxsize=256)
def _library(cls: type[ForeignEnv], options: tuple) -> LibraryEnv:
    with jax.ensure_compile_time_eval():
        return cls.make_library_env(dict(options))


def _strong(tree: Any) -> Any:
    """Arrays for all leaves, also for Python numbers, without JAX's weak types."""
    return jax.tree.map(lambda leaf: leaf if is_key(leaf) else (x := jnp.asarray(leaf)).astype(x.dtype), tree)


def _is_free(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_") and not hasattr(ForeignEnv, name)
