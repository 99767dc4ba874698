"""A wrapper that changes the time limit of an environment."""

from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TimeLimit(Wrapper):
    """Truncate an episode after `max_steps` steps instead of after the environment's own limit; None removes it.

    `max_steps` is a traced number: changing it does not recompile.

        TimeLimit(shoal.make("CartPole-v1"), max_steps=50)
    """

    max_steps: Number | None = None  # type: ignore[override]  # a field replaces the base class's property
