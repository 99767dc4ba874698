"""What every bsuite world has besides the contract: counters that outlive episodes, and a longest episode."""

import abc
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float

from shoal.core.env import Env, State
from shoal.core.struct import is_concrete, struct


@struct
class Task(Env):
    """A bsuite world. Its counters are whole numbers in the state, so that they stay exact over any run.

    Like all bsuite worlds it ends by itself: an episode that runs out of time is terminated, with discount 0, and
    never truncated.
    """

    # The fields of the state that survive a reset: what bsuite keeps on the environment object.
    COUNTERS: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def bsuite_info(self, state: State) -> dict[str, Float[Array, ""]]:
        """What bsuite logs and scores, counted since the very first episode."""

    @property
    @abc.abstractmethod
    def longest_episode(self) -> int:
        """After how many steps an episode is over at the latest."""

    def carry_over(self, ended: Any, fresh: Any) -> Any:
        """The counters go on."""
        return fresh.replace(**{name: getattr(ended, name) for name in self.COUNTERS})


def shortest(number: Any, otherwise: int) -> int:
    """The smallest of a field's numbers; `otherwise` where it is being traced."""
    return int(np.min(np.asarray(number))) if is_concrete(number) else otherwise


def longest(number: Any, otherwise: int) -> int:
    """The largest of a field's numbers; `otherwise` where it is being traced."""
    return int(np.max(np.asarray(number))) if is_concrete(number) else otherwise


def cells(count: int, beyond: int = 0) -> np.ndarray:
    """The numbers of a board's cells, row by row, in the smallest type that also holds `beyond` more.

    Comparing all of them in one row makes vectors of the whole board; comparing rows and columns, of a row at most.
    """
    return np.arange(count, dtype=np.int8 if count + beyond <= 128 else np.int16)


def as_real(count: Any) -> Float[Array, ""]:
    """A counter as a float32."""
    return jax.numpy.asarray(count, jax.numpy.float32)
