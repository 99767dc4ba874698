"""Environments of Brax: `brax/ant`, `brax/inverted_pendulum`. Their physics is compiled with the agent.

The arguments of an environment's constructor become fields: numbers, such as `ctrl_cost_weight`, are traced and can be
swept; `backend` chooses the physics ("generalized", "spring", "positional" or "mjx").
"""

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax

from shoal.core.errors import need
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.interop.foreign import (
    ForeignEnv,
    LibraryEnv,
    Outcome,
    arguments_of,
    checked_name,
    declare,
    plain_numbers,
    plain_options,
    unbounded,
)

LIMIT = 1000  # steps of an episode, where `brax.envs.create` is given no other number
NEVER_TERMINATE = ("fast", "halfcheetah", "humanoidstandup", "pusher", "reacher", "swimmer")
RESET_EVERY = {"inverted_pendulum": 5} | dict.fromkeys(NEVER_TERMINATE, LIMIT)  # steps, with random actions


@struct
class BraxEnv(ForeignEnv):
    """An environment of Brax, without its wrappers. Episodes are truncated after `max_steps`, here 1,000."""

    constants: ClassVar[tuple[str, ...]] = ()  # the fields that are attributes of Brax's environment

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the environment, and trace its reset for the shapes of observations."""
        env = _brax(cls.name).get_environment(cls.id, **options)
        obs = jax.eval_shape(env.reset, make_key(0)).obs
        return LibraryEnv(env, unbounded(obs), Box(-1.0, 1.0, (env.action_size,)), LIMIT)

    def noise(self, key: Key) -> None:
        """No noise: Brax's steps are deterministic."""

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Call `reset`."""
        inner = self._env().reset(key)
        return inner, inner.obs

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Call `step`."""
        inner = self._env().step(inner, action)
        return Outcome(inner, inner.obs, inner.reward, inner.done)

    def _env(self) -> Any:
        """Brax's environment with the values of the fields."""
        env = copy.copy(self.library.env)
        for name in self.constants:
            setattr(env, f"_{name}", getattr(self, name))
        return env


def names() -> list[str]:
    """The names that Brax knows."""
    return sorted(_brax("the list of Brax's environments")._envs)


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of a name, with the arguments of Brax's constructor as fields."""
    known = _brax(f"brax/{name}")._envs
    full, arguments = checked_name("brax", name, known), arguments_of(known[name])
    with jax.ensure_compile_time_eval():
        kept = vars(known[name]())
    numbers = {field: value for field, value in plain_numbers(arguments).items() if f"_{field}" in kept}
    return declare(
        BraxEnv,
        full,
        f"{name} of Brax.",
        numbers,
        plain_options(arguments, (bool, str)),
        constants=(*numbers,),
        reset_every=RESET_EVERY.get(name, ForeignEnv.reset_every),
    )


def _brax(purpose: str) -> Any:
    return need("brax.envs", "brax", purpose)
