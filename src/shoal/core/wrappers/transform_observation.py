"""Observations passed through a function."""

from collections.abc import Callable

from shoal.core.env import Observation, State
from shoal.core.spaces import Space
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TransformObservation(Wrapper):
    """Observe `function(observation)`.

    `function` is pure and unbatched. It is part of the program, so give one that is defined once: a lambda written anew
    for each value compiles each time. `space` is where its results lie; leave it out when that does not change.
    """

    function: Callable[[Observation], Observation] = static()
    space: Space | None = static(None)

    @property
    def observation_space(self) -> Space:
        """The space given, or that of the environment inside."""
        return self.env.observation_space if self.space is None else self.space

    def observe(self, state: State) -> Observation:
        """The transformed observation."""
        return self.function(self.env.observe(state))
