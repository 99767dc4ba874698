"""Environments of MuJoCo Playground: `playground/CartpoleBalance`, `playground/Go1JoystickFlatTerrain`.

The plain entries of an environment's configuration become static fields: `ctrl_dt`, `action_repeat`, `impl`. The last
chooses the physics, here "jax", which runs on every device; Playground's default is "warp", for NVIDIA GPUs.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax

from shoal.core.errors import need
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.interop.foreign import ForeignEnv, LibraryEnv, Outcome, checked_name, declare, plain_options, unbounded

LIMIT = "episode_length"


@struct
class PlaygroundEnv(ForeignEnv):
    """An environment of MuJoCo Playground, without its wrappers."""

    reset_every: ClassVar[int] = 100

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Load the environment, and trace its reset for the shapes of observations."""
        env = _playground(cls.name).registry.load(cls.id, config_overrides=dict(options))
        obs = jax.eval_shape(env.reset, make_key(0)).obs
        limit = int(env._config[LIMIT]) // int(env._config.get("action_repeat", 1))
        return LibraryEnv(env, unbounded(obs), Box(-1.0, 1.0, (env.action_size,)), limit)

    def noise(self, key: Key) -> None:
        """No noise: Playground keeps a key in its state."""

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Call `reset`."""
        inner = self.library.env.reset(key)
        return inner, inner.obs

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Call `step`."""
        inner = self.library.env.step(inner, action)
        return Outcome(inner, inner.obs, inner.reward, inner.done)


def names() -> list[str]:
    """The names that Playground knows."""
    return sorted(_playground("the list of Playground's environments").registry.ALL_ENVS)


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of a name, with the plain entries of its configuration as static fields."""
    registry = _playground(f"playground/{name}").registry
    full = checked_name("playground", name, registry.ALL_ENVS)
    options = plain_options({**registry.get_default_config(name)})
    options.pop(LIMIT)
    if "impl" in options:
        options["impl"] = "jax"
    return declare(PlaygroundEnv, full, f"{name} of MuJoCo Playground.", options=options)


def _playground(purpose: str) -> Any:
    return need("mujoco_playground", "playground", purpose)
