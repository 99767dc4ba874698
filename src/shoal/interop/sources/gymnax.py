"""Environments of gymnax 1.x: `gymnax/CartPole-v1`, `gymnax/Breakout-MinAtar`. Their steps are compiled with the agent.

gymnax's parameters that are numbers become fields (`max_steps` is its `max_steps_in_episode`), and so do the plain
arguments of its constructors: `shoal.make("gymnax/DeepSea-bsuite", size=10)`.
"""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax

from shoal.core.errors import need, unknown_name
from shoal.core.registry import Entry
from shoal.core.struct import struct
from shoal.interop.foreign import Facts, ForeignEnv
from shoal.interop.gymnax_calls import ParamsEnv, declare_with_params


@struct
class GymnaxEnv(ParamsEnv):
    """An environment of gymnax."""

    id: ClassVar[str] = ""

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> Facts:
        """Make the environment and describe it."""
        arguments = {name: value for name, value in options.items() if name not in cls.params}
        return cls.describe(_gymnax(cls.name).make(cls.id, **arguments)[0])


def names() -> list[str]:
    """The ids that gymnax knows."""
    return list(_gymnax("the list of gymnax's environments").registered_envs)


def entry(name: str) -> Entry:
    """Return the entry of `gymnax/NAME`. Raises UnknownNameError, with the nearest ids, for an unknown id."""
    return Entry(f"gymnax/{name}", class_of(name), {})


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id, with gymnax's parameters and arguments as fields."""
    full = f"gymnax/{name}"
    gymnax = _gymnax(full)
    if name not in gymnax.registered_envs:
        known = [f"gymnax/{each}" for each in gymnax.registered_envs]
        raise unknown_name("env", full, known, "`shoal envs gymnax/` lists every name.")
    with jax.ensure_compile_time_eval():
        env, params = gymnax.make(name)
    arguments = {each.name: each.default for each in inspect.signature(type(env)).parameters.values()}
    return declare_with_params(GymnaxEnv, full, f"gymnax's {name}.", params, arguments, id=name)


def _gymnax(purpose: str) -> Any:
    return need("gymnax", "gymnax", purpose)
