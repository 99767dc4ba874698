"""A wrapper that applies a function to observations."""

from collections.abc import Callable

from shoal.core.env import Observation, State
from shoal.core.spaces import Space
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class TransformObservation(Wrapper):
    """Replace each observation by `function(observation)`.

    `function` is pure and unbatched. It is part of the program, so define it once: a new lambda for each environment
    compiles each time. `space` contains its results; leave it out if the observation space does not change.
    """

    function: Callable[[Observation], Observation] = static()
    space: Space | None = static(None)

    @property
    def observation_space(self) -> Space:
        """The field `space`, or the observation space of the inner environment where it is None."""
        return self.env.observation_space if self.space is None else self.space

    def observe(self, state: State) -> Observation:
        """Return the transformed observation."""
        return self.function(self.env.observe(state))
