"""Environments of gymnax 1.x: `gymnax/CartPole-v1`, `gymnax/Breakout-MinAtar`. Their steps are compiled with the agent.

gymnax's parameters that are numbers become fields (`max_steps` is its `max_steps_in_episode`), and so do the plain
arguments of its constructors: `shoal.make("gymnax/DeepSea-bsuite", size=10)`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax

from shoal.core.errors import need
from shoal.core.struct import struct
from shoal.interop.foreign import ForeignEnv, LibraryEnv, arguments_of, checked_name
from shoal.interop.gymnax_calls import ParamsEnv, declare_with_params


@struct
class GymnaxEnv(ParamsEnv):
    """An environment of gymnax."""

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the environment and describe it."""
        arguments = {name: value for name, value in options.items() if name not in cls.params}
        return cls.describe(_gymnax(cls.name).make(cls.id, **arguments)[0])


def names() -> list[str]:
    """The ids that gymnax knows."""
    return list(_gymnax("the list of gymnax's environments").registered_envs)


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id, with gymnax's parameters and arguments as fields."""
    gymnax = _gymnax(f"gymnax/{name}")
    full = checked_name("gymnax", name, gymnax.registered_envs)
    with jax.ensure_compile_time_eval():
        env, params = gymnax.make(name)
    return declare_with_params(GymnaxEnv, full, f"gymnax's {name}.", params, arguments_of(type(env)))


def _gymnax(purpose: str) -> Any:
    return need("gymnax", "gymnax", purpose)
