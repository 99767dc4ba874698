"""The base class of bsuite's environments: counters that are kept across episodes, and the length of an episode."""

import abc
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float

from shoal.core.env import Env, State
from shoal.core.struct import is_concrete, struct


@struct
class Task(Env):
    """A bsuite environment. Its counters are integers in the environment state, so they stay exact in long runs.

    As in bsuite, episodes are never truncated: an episode that reaches its time limit is terminated, with discount 0.
    """

    # The fields of the state that a reset keeps. bsuite holds them as attributes of the environment object.
    COUNTERS: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def bsuite_info(self, state: State) -> dict[str, Float[Array, ""]]:
        """The counters that bsuite logs and scores, summed over all episodes so far."""

    @property
    @abc.abstractmethod
    def longest_episode(self) -> int:
        """The largest number of steps of an episode."""

    def carry_over(self, ended: Any, fresh: Any) -> Any:
        """Keep the counters across the reset."""
        return fresh.replace(**{name: getattr(ended, name) for name in self.COUNTERS})


def shortest(number: Any, otherwise: int) -> int:
    """The smallest value of a field (over a population); `otherwise` while JAX is tracing it."""
    return int(np.min(np.asarray(number))) if is_concrete(number) else otherwise


def longest(number: Any, otherwise: int) -> int:
    """The largest value of a field (over a population); `otherwise` while JAX is tracing it."""
    return int(np.max(np.asarray(number))) if is_concrete(number) else otherwise


def cells(count: int, beyond: int = 0) -> np.ndarray:
    """The indices 0, ..., count - 1 of a board's cells, row by row, in the smallest dtype for count + beyond - 1.

    One comparison with all indices is vectorized over the whole board; comparing rows and columns apart is vectorized
    over one row at most.
    """
    return np.arange(count, dtype=np.int8 if count + beyond <= 128 else np.int16)


def as_real(count: Any) -> Float[Array, ""]:
    """A counter as float32."""
    return jax.numpy.asarray(count, jax.numpy.float32)
