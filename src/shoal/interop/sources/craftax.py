"""Environments of Craftax: `craftax/Craftax-Symbolic-v1`, `craftax/Craftax-Classic-Pixels-v1`.

Craftax says "done" at its time limit too; here such an episode is truncated.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax

from shoal.core.errors import need
from shoal.core.struct import struct
from shoal.interop.foreign import ForeignEnv, LibraryEnv, checked_name
from shoal.interop.gymnax_calls import ParamsEnv, declare_with_params

IDS = (
    "Craftax-Symbolic-v1",
    "Craftax-Pixels-v1",
    "Craftax-Classic-Symbolic-v1",
    "Craftax-Classic-Pixels-v1",
)


@struct
class CraftaxEnv(ParamsEnv):
    """An environment of Craftax, without its reset at the end of an episode."""

    reset_every: ClassVar[int] = 128  # a world takes much longer to make than a step
    limit_name: ClassVar[str] = "max_timesteps"
    limit_terminates: ClassVar[bool] = True

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the environment and describe it."""
        return cls.describe(_made(cls.id))


def names() -> list[str]:
    """The ids of Craftax."""
    return [*IDS]


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id, with Craftax's parameters as fields."""
    full = checked_name("craftax", name, IDS)
    with jax.ensure_compile_time_eval():
        params = _made(name).default_params
    return declare_with_params(CraftaxEnv, full, f"{name} of Craftax.", params, {})


def _made(name: str) -> Any:
    module = need("craftax.craftax_env", "craftax", f"craftax/{name}")
    return module.make_craftax_env_from_name(name, auto_reset=False)
