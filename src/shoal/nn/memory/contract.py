"""The contract of a memory, and the memories by name."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float

from shoal.core.keys import Key

Weights = Any
MEMORIES: dict[str, Callable[..., "Memory"]] = {}  # name -> the memory with so many units


@runtime_checkable
class Memory(Protocol):
    """A network that reads the inputs of an episode one after another and keeps what it needs in a carry."""

    @property
    def size(self) -> int:
        """H, the units of the output."""
        ...

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed."""
        ...

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Any:
        """The carry at the start of an episode, with leading `axes`."""
        ...

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: Any
    ) -> tuple[Float[Array, "*axes H"], Any]:
        """(output, next carry) for one input. `inputs` and `carry` have the same leading axes."""
        ...

    def unroll(
        self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Bool[Array, "T *axes"], carry: Any
    ) -> tuple[Float[Array, "T *axes H"], Any]:
        """(outputs, carry after each step) for T inputs. The carry is reset before every step with `is_first`.

        `is_first` belongs to the input of the same step: if an episode ended at t - 1, the input at t is the first of
        the next episode. Passing `done` of step t instead would reset one step too early.
        """
        ...


def named(name: str) -> Callable[[type], type]:
    """A decorator that adds a memory to `MEMORIES`."""

    def add(cls: type) -> type:
        MEMORIES[name] = cls
        return cls

    return add
