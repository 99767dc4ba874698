"""What bsuite's wrappers share: a world inside that may be given by name, whose counters they pass on."""

from typing import Any

from jaxtyping import Array, Float

from shoal.core.env import State
from shoal.core.registry import make
from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TaskWrapper(Wrapper):
    """A wrapper around a bsuite world. `env` is a value or a registered name, so that a preset can hold it unbuilt."""

    env: Any = "bsuite/bandit/0"

    def __post_init__(self) -> None:
        if isinstance(self.env, str):
            object.__setattr__(self, "env", make(self.env))
        if not hasattr(self.env, "bsuite_info"):
            kind = type(self.env).__name__
            raise TypeError(f"{type(self).__name__} keeps the counters of a bsuite world, which {kind} does not have.")

    @property
    def max_steps(self) -> Number | None:
        """The time limit of the world inside; a world that is still a name is not asked yet."""
        return None if isinstance(self.env, str) else self.env.max_steps

    @property
    def longest_episode(self) -> int:
        """That of the world inside."""
        return self.env.longest_episode

    def bsuite_info(self, state: State) -> dict[str, Float[Array, ""]]:
        """That of the world inside."""
        return self.env.bsuite_info(state)
