"""The base class of environments with gymnax's calls: those of gymnax itself, and of Craftax, which copied them."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import MAX_TIME
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Dict, Discrete, Space, Tuple
from shoal.core.struct import struct
from shoal.interop.foreign import ForeignEnv, LibraryEnv, Outcome, box, declare, plain_numbers, plain_options, unbounded


@struct
class ParamsEnv(ForeignEnv):
    """An environment with `reset_env(key, params)` and `step_env(key, state, action, params)`.

    The parameters that are numbers are traced fields, those that are flags are static ones; `max_steps` is the time
    limit among them.
    """

    limit_name: ClassVar[str] = "max_steps_in_episode"
    limit_terminates: ClassVar[bool] = False  # whether the library says "done" at the time limit too
    params: ClassVar[tuple[str, ...]] = ()  # the fields that are parameters

    @classmethod
    def describe(cls, env: Any) -> LibraryEnv:
        """Describe an environment. Its reset is traced for the real shapes and dtypes of observations."""
        params = env.default_params
        obs, _ = jax.eval_shape(env.reset_env, make_key(0), params)
        return LibraryEnv(
            env,
            space_of(env.observation_space(params), f"the observation space of {cls.name}", obs),
            space_of(env.action_space(params), f"the action space of {cls.name}"),
            int(getattr(params, cls.limit_name)),
            params,
        )

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Call `reset_env`."""
        obs, inner = self.library.env.reset_env(key, self._params())
        return inner, obs

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Call `step_env`."""
        obs, inner, reward, terminated, _ = self.library.env.step_env(key, inner, action, self._params())
        return Outcome(inner, obs, reward, terminated)

    def _params(self) -> Any:
        """The library's parameters with the values of the fields."""
        values: dict[str, Any] = {name: jnp.asarray(getattr(self, name)) for name in self.params}
        if self.limit_terminates or self.max_steps is None:
            values[self.limit_name] = MAX_TIME  # never reached: only `max_steps` ends an episode by time
        else:
            values[self.limit_name] = self.max_steps  # some observations depend on it
        return self.library.params.replace(**values)


def declare_with_params(
    base: type[ParamsEnv], name: str, about: str, params: Any, arguments: Mapping[str, Any], **attributes: Any
) -> type[ForeignEnv]:
    """Make the class of an environment from its default parameters and the arguments of its constructor."""
    values = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    values.pop(base.limit_name)
    numbers, flags = plain_numbers(values), plain_options(values, (bool,))
    fields = (*numbers, *flags)
    return declare(base, name, about, numbers, {**plain_options(arguments), **flags}, params=fields, **attributes)


def space_of(space: Any, name: str, like: Any = None) -> Space:
    """Shoal's space for one of gymnax's classes, or of their copies in other libraries.

    `like` is an array, or a tree of arrays, that lies in the space: its shapes and dtypes are the real ones, which the
    space may have wrong. Raises TypeError, which begins with `name`, for another kind of space.
    """
    kind = type(space).__name__
    if kind == "Discrete" and (like is None or (like.shape == () and like.dtype == np.int32)):
        return Discrete(int(space.n))
    if kind == "Discrete":
        return box(0, int(space.n) - 1, like)
    if kind == "Box":
        shape = tuple(space.shape)
        like = jax.ShapeDtypeStruct(shape, space.dtype) if like is None else like
        return box(space.low, space.high, like) if like.shape == shape else unbounded(like)
    if kind == "Dict":
        parts = dict(space.spaces)
        likes = dict.fromkeys(parts) if like is None else like
        return Dict({key: space_of(part, f"{key!r} of {name}", likes[key]) for key, part in parts.items()})
    if kind == "Tuple":
        likes = [None] * len(space.spaces) if like is None else like
        pairs = enumerate(zip(space.spaces, likes, strict=True))
        return Tuple(tuple(space_of(part, f"part {i} of {name}", part_like) for i, (part, part_like) in pairs))
    raise TypeError(f"{name} is {space}, which shoal cannot hold: it has Discrete, Box, and Tuple and Dict of these.")
