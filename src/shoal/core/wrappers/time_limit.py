"""Another time limit for an environment."""

from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TimeLimit(Wrapper):
    """Truncate an episode after `max_steps` steps instead of after the environment's own limit; None removes it.

    A traced number: changing it does not recompile. It needs no memory, because every state counts its steps.

        TimeLimit(shoal.make("CartPole-v1"), max_steps=50)
    """

    max_steps: Number | None = None  # type: ignore[override]  # a field in the place of the forwarding property
