"""Count the bytes that one kernel reads and writes, and what they cost where they are not next to each other."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from cuda_program.hlo import Array, Instruction, Module

SECTOR = 32  # bytes; the smallest part of memory that a GPU reads or writes
LINE = 128  # bytes in a row that memory moves in the time of one read at a random place (measured on an H200)
CACHE = 25_000_000  # bytes of each half of the second-level cache; data that both halves read are in both
VIEWS = ("bitcast", "reshape")
UPDATES = ("dynamic-update-slice", "scatter")
FREE = (*VIEWS, "parameter", "constant", "broadcast", "iota", "tuple", "copy", "transpose", "slice", "concatenate")


class Traffic(NamedTuple):
    """The memory traffic of a kernel, and its operations."""

    used: int  # bytes that it needs
    moved: int  # bytes in a row that memory moves in the same time: more, where places are apart from each other
    places: int = 0  # such places
    operations: int = 0  # numbers that are computed, once for each operation on them

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Traffic(0, 0)


class Needed(NamedTuple):
    """Elements of an array that a kernel needs, in so many places apart from each other; 0 places: in a row."""

    elements: int
    places: int = 0

    def traffic(self, array: Array, environments: int = 0) -> Traffic:
        """The bytes of these elements, of an array of so many environments that are visited again for each place.

        With 0 environments, one is finished before the next is begun: then a part of the array is read only once.
        """
        used = self.elements * array.item_bytes
        if not self.places:
            return Traffic(used, used)
        is_cached = array.bytes <= CACHE
        visits = 1 if is_cached or not environments else max(1, self.places // environments)
        run = max(SECTOR if is_cached else LINE, math.ceil(used / self.places / SECTOR) * SECTOR)
        return Traffic(used, max(used, visits * min(self.places // visits * run, array.bytes)), self.places)


def traffic(module: Module, kernel: Instruction) -> Traffic:
    """The traffic of a kernel. A slice counts the elements that it cuts out, an update in place those it writes."""
    if kernel.opcode in ("copy", "transpose", "reverse"):
        return Traffic(2 * kernel.bytes, 2 * kernel.bytes)
    if body := module.body(kernel):
        return _Body(body).traffic()
    size = kernel.bytes + sum(module.bytes_of(operand) for operand in kernel.operands)
    return Traffic(size, size)


class _Body:
    """The computation inside one kernel, and the elements of each array in it that are needed for the results."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        self._by_name = {instruction.name: instruction for instruction in body}
        self._asked: dict[str, list[Needed]] = defaultdict(list)  # by the users of each array
        self._written = NOTHING
        self._operations = 0
        for instruction in reversed(body):  # operands come before their users
            if instruction.is_root:
                self._write(instruction)
            elif self._asked[instruction.name]:
                self._ask_for(instruction, self._needed(instruction))
            self._operations += self._computed(instruction)

    def traffic(self) -> Traffic:
        """All parameters that are read, and all results that are written."""
        roots = [instruction for instruction in self._by_name.values() if instruction.is_root]
        parameters = [instruction for instruction in self._by_name.values() if instruction.opcode == "parameter"]
        visited_again = max((_fast_environments(array) for root in roots for array in root.arrays), default=0)
        read = (self._needed(parameter).traffic(parameter.arrays[0], visited_again) for parameter in parameters)
        return sum(read, self._written)._replace(operations=self._operations)

    def _computed(self, result: Instruction) -> int:
        """The numbers that an operation computes; of a sum those that are added."""
        if result.opcode in FREE:
            return 0
        if result.opcode == "reduce":
            return self._needed(self._by_name[result.operands[0].name]).elements
        if result.opcode in UPDATES:
            return sum(part.size for part in _parts_of_update(result, self._inputs(result))[2])
        return result.size if result.is_root else self._needed(result).elements

    def _inputs(self, user: Instruction) -> list[Instruction]:
        return [self._by_name[operand.name] for operand in user.operands if operand.name in self._by_name]

    def _needed(self, array: Instruction) -> Needed:
        """The elements of an array that its users need together, at most all of them."""
        asked = self._asked[array.name]
        if any(needed.elements >= array.size and not needed.places for needed in asked):
            return Needed(array.size)
        return Needed(min(sum(e.elements for e in asked), array.size), sum(e.places for e in asked))

    def _write(self, result: Instruction) -> None:
        """Add what a result writes. Of an update in place only the new elements: the old ones are not even read."""
        inputs = self._inputs(result)
        if result.opcode == "tuple" or (result.opcode in VIEWS and inputs[0].opcode in UPDATES):
            for operand in inputs:
                self._write(operand)
        elif result.opcode in UPDATES:
            arrays, rows, new = _parts_of_update(result, inputs)
            for array, values in zip(arrays, new, strict=True):
                self._written += Needed(values.size, rows).traffic(array.arrays[0])
            for operand in inputs[len(arrays) :]:
                self._asked[operand.name].append(Needed(operand.size))
        else:
            self._written += Traffic(result.bytes, result.bytes)
            self._ask_for(result, Needed(result.size))

    def _ask_for(self, user: Instruction, needed: Needed) -> None:
        """Pass on what is needed of an instruction to its operands."""
        for position, operand in enumerate(user.operands):
            if array := self._by_name.get(operand.name):
                self._asked[array.name].append(_of_operand(user, needed, array, position))


def _parts_of_update(
    update: Instruction, inputs: list[Instruction]
) -> tuple[list[Instruction], int, list[Instruction]]:
    """(the arrays that are changed, the number of places, the new values) of a slice or a scatter."""
    if update.opcode == "dynamic-update-slice":
        return inputs[:1], 0, inputs[1:2]
    count = len(inputs) // 2
    return inputs[:count], math.prod(inputs[count].arrays[0].shape[:-1]), inputs[count + 1 :]


def _of_operand(user: Instruction, needed: Needed, array: Instruction, position: int) -> Needed:
    """The elements of an operand that are needed for the needed elements of its user."""
    ratio = array.size / max(user.size, 1)
    if user.opcode == "gather" and position == 0:
        return Needed(needed.elements, max(1, round(needed.elements / _run_of_gather(user))))
    if user.opcode in ("dynamic-slice", "slice") and position == 0:
        return needed
    if user.opcode in ("concatenate", "reduce", "gather", "dynamic-update-slice"):
        return Needed(math.ceil(needed.elements * ratio), round(needed.places * ratio))
    if ratio <= 1:  # elementwise, a view, or a broadcast
        return Needed(min(array.size, needed.elements), needed.places if ratio == 1 else 0)
    return Needed(array.size)


def _run_of_gather(gather: Instruction) -> int:
    """The number of elements that a gather reads in a row, before it jumps to another place."""
    return math.prod(int(size) for size in re.findall(r"\d+", gather.attribute(r"slice_sizes=\{([\d,]*)\}")))


def _fast_environments(array: Array) -> int:
    """The length of the longest axis, that of the environments, if it is not the slowest one; 0 if it is."""
    longest = max(array.shape, default=0)
    return longest if array.shape and array.shape[array.layout[-1]] < longest else 0
