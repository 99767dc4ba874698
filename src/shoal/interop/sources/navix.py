"""Environments of NAVIX: `navix/Navix-DoorKey-8x8-v0`. They are MiniGrid's, without its text of the mission.

`shoal.make("MiniGrid-DoorKey-8x8-v0")` is shoal's own version of the same tasks.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax

from shoal.core.errors import need
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Discrete
from shoal.core.struct import static, struct
from shoal.interop.foreign import ForeignEnv, LibraryEnv, Outcome, box, checked_name, declare

OBSERVATIONS = (
    "symbolic_first_person",
    "symbolic",
    "categorical_first_person",
    "categorical",
    "rgb_first_person",
    "rgb",
)


@struct
class NavixEnv(ForeignEnv):
    """An environment of NAVIX. `observation` is the name of one of NAVIX's functions that make observations."""

    reset_every: ClassVar[int] = 32
    observation: str = static("symbolic_first_person", choices=OBSERVATIONS)

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the environment, and trace its reset for the shape of observations."""
        navix = _navix(cls.name)
        if options["observation"] not in OBSERVATIONS:
            raise ValueError(
                f"{cls.name} has no observation {options['observation']!r}: choose one of {', '.join(OBSERVATIONS)}."
            )
        env = navix.make(cls.id, observation_fn=getattr(navix.observations, options["observation"]))
        obs = jax.eval_shape(env.reset, make_key(0)).observation
        space = env.observation_space
        observations = box(space.minimum, space.maximum, obs)
        return LibraryEnv(env, observations, Discrete(len(env.action_set)), int(env.max_steps))

    def noise(self, key: Key) -> None:
        """No noise: NAVIX keeps a key in its state."""

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Call `reset`."""
        inner = self.library.env.reset(key)
        return inner, inner.observation

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Call `_step`, the step without NAVIX's reset in the step after an end."""
        inner = self.library.env._step(inner, action)
        return Outcome(inner, inner.observation, inner.reward, inner.is_termination())


def names() -> list[str]:
    """The ids that NAVIX knows."""
    return sorted(_navix("the list of NAVIX's environments").registry())


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id."""
    full = checked_name("navix", name, _navix(f"navix/{name}").registry())
    return declare(NavixEnv, full, f"{name} of NAVIX.")


def _navix(purpose: str) -> Any:
    return need("navix", "navix", purpose)
