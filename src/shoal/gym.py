"""Import this module to make shoal's environments with Gymnasium: `gymnasium.make("shoal/CartPole-v1")`.

`gymnasium.make("shoal.gym:shoal/CartPole-v1")` imports it by itself. Gymnasium no longer has entry points for plug-ins.
The classes are imported, and JAX with them, when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from shoal.interop.gymnasium_ids import gymnasium_id, register_all

if TYPE_CHECKING:
    from shoal.interop.func_env import ShoalFuncEnv
    from shoal.interop.gymnasium_env import ShoalEnv
    from shoal.interop.gymnasium_vector import ShoalVectorEnv
    from shoal.interop.missions import TextMissions

__all__ = ["ShoalEnv", "ShoalFuncEnv", "ShoalVectorEnv", "TextMissions", "gymnasium_id"]
MODULES = {
    "ShoalEnv": "gymnasium_env",
    "ShoalFuncEnv": "func_env",
    "ShoalVectorEnv": "gymnasium_vector",
    "TextMissions": "missions",
}

register_all()


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'shoal.gym' has no attribute {name!r}")
    return getattr(importlib.import_module(f"shoal.interop.{MODULES[name]}"), name)
