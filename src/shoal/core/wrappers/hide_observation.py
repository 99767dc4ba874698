"""A wrapper that hides components of observations, so that an agent needs a memory to act as well as before."""

import numpy as np
from jaxtyping import Array, Shaped

from shoal.core.env import State
from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class HideObservation(Wrapper):
    """Leave out components of an observation in a Box: those with the numbers `components` along its last axis.

    Hiding velocities makes a task with full observation one in which the agent must remember earlier observations:

        env = shoal.HideObservation(shoal.make("CartPole-v1"), (1, 3))  # position and angle are left
        env = shoal.HideObservation(shoal.make("Pendulum-v1"), (2,))  # cosine and sine of the angle are left

    Numbers begin with 0. In a picture [H, W, C] the components are channels. Observations of other spaces can be
    flattened before (`FlattenObservation`).

    Raises TypeError if observations are not a Box with an axis, and ValueError for numbers that are repeated or too
    large, for none at all, and if nothing would be left.
    """

    components: tuple[int, ...] = static(help="numbers of the components that are left out, the first is 0")

    def __post_init__(self) -> None:
        space = self.env.observation_space
        if not isinstance(space, Box) or not space.shape:
            raise TypeError(
                f"HideObservation needs observations in a Box with an axis, not {space}. FlattenObservation makes a "
                "vector of observations of any space: HideObservation(FlattenObservation(env), ...)."
            )
        given, size = self.components, space.shape[-1]
        if not all(0 <= number < size for number in given) or len(set(given)) < len(given):
            raise ValueError(
                f"HideObservation needs numbers from 0 to {size - 1}, each at most once, not {given}: the last axis of "
                f"observations here has {size} components."
            )
        if not 0 < len(given) < size:
            raise ValueError(
                f"HideObservation needs at least 1 number and must leave at least 1 of {size} components: {given} "
                f"hides {len(given)}."
            )

    @property
    def observation_space(self) -> Box:
        """The box of the inner environment without the hidden components."""
        space: Box = self.env.observation_space  # type: ignore[assignment]  # `__post_init__` checks it
        low, high = (bound[..., self._shown] for bound in space.bounds())
        return Box(low, high, low.shape, space.dtype)

    def observe(self, state: State) -> Shaped[Array, "..."]:
        """Return the inner observation without the hidden components."""
        return self.env.observe(state)[..., self._shown]

    @property
    def _shown(self) -> np.ndarray:
        size = self.env.observation_space.shape[-1]  # type: ignore[union-attr]  # it is a Box
        return np.setdiff1d(np.arange(size), self.components)
