"""The base class of bsuite's wrappers: the inner environment may be given by its id; its counters are passed on."""

from typing import Any

from jaxtyping import Array, Float

from shoal.core.env import State
from shoal.core.registry import make
from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TaskWrapper(Wrapper):
    """A wrapper around a bsuite environment. `env` is an environment, or a registered id, which is made when needed."""

    env: Any = "bsuite/bandit/0"

    def __post_init__(self) -> None:
        if isinstance(self.env, str):
            object.__setattr__(self, "env", make(self.env))
        if not hasattr(self.env, "bsuite_info"):
            kind = type(self.env).__name__
            raise TypeError(
                f"{type(self).__name__} needs the counters of a bsuite environment, which {kind} does not have."
            )

    @property
    def max_steps(self) -> Number | None:
        """The time limit of the inner environment; None while `env` is still an id, or is no environment."""
        return None if isinstance(self.env, str) else getattr(self.env, "max_steps", None)

    @property
    def longest_episode(self) -> int:
        """As in the inner environment."""
        return self.env.longest_episode

    def bsuite_info(self, state: State) -> dict[str, Float[Array, ""]]:
        """As in the inner environment."""
        return self.env.bsuite_info(state)
