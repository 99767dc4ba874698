"""The one description from which every format is written: a list of array operations without control flow but loops.

There are about sixty operations (`numpy_code.NUMPY` lists them), of arrays that broadcast as those of NumPy do. Every
value has a fixed shape.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Unportable(ValueError):
    """A function has a part that cannot be written in a format. The message names it, with its line where known."""

    def __init__(self, part: str, line: str = "") -> None:
        super().__init__(f"{part} in {line}" if line else part)
        self.part, self.line = part, line


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """One array: an input, a constant (`data` is not None), or the result of a step."""

    shape: tuple[int, ...]
    dtype: Any
    name: str = ""  # of inputs and constants
    data: Any = None
    origin: "Value | None" = None  # a smaller array that NumPy's rules broadcast to this one

    @property
    def is_constant(self) -> bool:
        """Whether it is known when the program is written."""
        return self.data is not None

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def is_filled(self, number: float | None = None) -> bool:
        """Whether it is a constant whose elements are all equal, and equal to `number` if that is given."""
        if not self.is_constant or self.size == 0 or not isinstance(self.data, np.ndarray):
            return False
        first = self.data.flat[0]
        return bool((self.data == first).all()) and number in (None, first)


class Step(NamedTuple):
    """One operation: its result is computed from the inputs. `options` are fixed: shapes, axes."""

    operation: str
    inputs: tuple[Value, ...]
    output: Value
    options: dict[str, Any]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The result."""
        return (self.output,)


class Loop(NamedTuple):
    """`length` repetitions of `steps`. Each reads one row of every array in `sources` and writes one of every result.

    `carries` are the values that a repetition hands to the next: (before the first, inside, after each, after all).
    `rows` are (array, its row inside); `stacked` are (row inside, all rows).
    """

    length: int
    reverse: bool
    carries: tuple[tuple[Value, Value, Value, Value], ...]
    rows: tuple[tuple[Value, Value], ...]
    stacked: tuple[tuple[Value, Value], ...]
    steps: tuple[Any, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All values from outside that it reads."""
        inside = {id(value) for value in self._inside()}
        read = [value for step in self.steps for value in step.inputs] + [carry[2] for carry in self.carries]
        read += [row for row, _ in self.stacked]
        outer = [value for value in read if id(value) not in inside]
        return (*(carry[0] for carry in self.carries), *(array for array, _ in self.rows), *outer)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The last carries, and all rows of results."""
        return (*(carry[3] for carry in self.carries), *(rows for _, rows in self.stacked))

    def _inside(self) -> Iterator[Value]:
        yield from (carry[1] for carry in self.carries)
        yield from (row for _, row in self.rows)
        for step in self.steps:
            yield from step.outputs


class Program(NamedTuple):
    """Inputs, the steps in order, and outputs."""

    inputs: tuple[Value, ...]
    steps: tuple[Step | Loop, ...]
    outputs: tuple[Value, ...]

    def constants(self) -> list[Value]:
        """All constants that the steps and the outputs read, each once."""
        read = (*(value for step in self.steps for value in step.inputs), *self.outputs)
        return list({id(value): value for value in read if value.is_constant}.values())


def needed(steps: Iterable[Step | Loop], results: Iterable[Value]) -> tuple[Step | Loop, ...]:
    """The steps that some results depend on, in order."""
    used, kept = {id(value) for value in results}, []
    for step in reversed(list(steps)):
        if any(id(value) in used for value in step.outputs):
            if isinstance(step, Loop):
                inner = [carry[2] for carry in step.carries] + [row for row, _ in step.stacked]
                step = step._replace(steps=needed(step.steps, inner))
            kept.append(step)
            used |= {id(value) for value in step.inputs}
    return tuple(reversed(kept))
