"""A wrapper that changes the time limit of an environment."""

from shoal.core.env import State
from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TimeLimit(Wrapper):
    """Truncate an episode after `max_steps` steps instead of after the environment's own limit; None removes it.

    `max_steps` is a traced number: changing it does not recompile.

        TimeLimit(shoal.make("CartPole-v1"), max_steps=50)
    """

    max_steps: Number | None = None  # type: ignore[override]  # a field replaces the base class's property

    @property
    def limit_range(self) -> tuple[Number, Number] | None:
        """`max_steps`, twice."""
        return None if self.max_steps is None else (self.max_steps, self.max_steps)

    def limit_of(self, state: State) -> Number | None:
        """Return `max_steps`, for every episode."""
        del state
        return self.max_steps
