"""Read XLA's scheduled HLO text: instructions, their bytes in memory, and the lines of source that they come from."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

ITEM_BYTES = {"pred": 1, "bf16": 2, "f16": 2} | {f"{kind}{bits}": bits // 8 for kind in "fsuc" for bits in (8, 32, 64)}
ITEM_BYTES |= {"s16": 2, "u16": 2, "s4": 1, "u4": 1, "c128": 16, "token": 0, "s2": 1, "u2": 1}
ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\](?:\{([\d,]*))?")
SECTOR = 32  # bytes; the smallest part of memory that a GPU reads or writes
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
SLICES = ("dynamic-slice", "slice", "gather")
UPDATES = ("dynamic-update-slice", "scatter")
VIEWS = ("bitcast", "reshape")


class Traffic(NamedTuple):
    """Bytes that a kernel reads and writes: those it uses, and those that memory moves for them in whole sectors."""

    used: int
    moved: int

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.used + other.used, self.moved + other.moved)


@dataclass(frozen=True)
class Array:
    """The type of an array: its dtype as XLA writes it, its sizes, and its axes from the fastest to the slowest."""

    dtype: str
    shape: tuple[int, ...]
    layout: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the whole array."""
        return ITEM_BYTES.get(self.dtype, 4) * math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Operand:
    """A use of the instruction `name`, or of element `index` of its tuple."""

    name: str
    index: int | None


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    arrays: tuple[Array, ...]  # of the result; more than one for a tuple
    opcode: str
    operands: tuple[Operand, ...]
    attributes: str
    is_root: bool

    @property
    def bytes(self) -> int:
        """Bytes of the whole result."""
        return sum(array.bytes for array in self.arrays)

    def attribute(self, pattern: str) -> str:
        """The first group of a pattern in the attributes; empty if it is not there."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else ""

    @property
    def trips(self) -> int | None:
        """The number of trips of a `while`; None if XLA does not know it."""
        return (
            int(self.attribute(r'"known_trip_count":\{"n":"(\d+)"') or -1)
            if "known_trip_count" in self.attributes
            else None
        )


class Module:
    """The computations of a program, `{name: [instruction]}`, and where in the source they come from."""

    def __init__(self, text: str) -> None:
        """Parse the text of a `*_gpu_after_optimizations.txt`."""
        self._tables: dict[str, dict[int, str]] = {name: {} for name in TABLES}
        self.computations: dict[str, list[Instruction]] = {}
        table, inside = "", ""
        for line in text.splitlines():
            if line in TABLES:
                table = line
            elif start := re.match(r"(?:ENTRY )?%([\w.\-]+) \(.*\{\s*$", line):
                table, inside = "", start[1]
                self.computations[inside] = []
            elif line.startswith("}"):
                inside = ""
            elif table and (row := re.match(r"(\d+) (.*)", line)):
                self._tables[table][int(row[1])] = row[2].strip('"')
            elif inside and (instruction := parse_instruction(line)):
                self.computations[inside].append(instruction)

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """All instructions by name."""
        return {each.name: each for body in self.computations.values() for each in body}

    def frames(self, instruction: Instruction) -> Iterator[tuple[str, str, int]]:
        """(file, function, line) of the calls that made an instruction, the innermost first."""
        frame = int(instruction.attribute(r"stack_frame_id=(\d+)") or 0)
        while row := self._tables["StackFrames"].get(frame):
            numbers = _numbers(row)
            place = _numbers(self._tables["FileLocations"].get(numbers["file_location_id"], ""))
            yield (
                self._tables["FileNames"].get(place.get("file_name_id", 0), ""),
                self._tables["FunctionNames"].get(place.get("function_name_id", 0), ""),
                place.get("line", 0),
            )
            if numbers.get("parent_frame_id", 0) - 1 == frame:
                return
            frame = numbers.get("parent_frame_id", 0) - 1  # XLA stores the number plus one

    def source(self, instruction: Instruction, package: str = "/src/shoal/") -> tuple[str, str]:
        """("folder/file.py:line", function) of the innermost call within a package; empty if there is none."""
        for file, function, line in self.frames(instruction):
            if package in file:
                return f"{'/'.join(file.split('/')[-2:])}:{line}", function
        return "", ""

    def traffic(self, instruction: Instruction) -> Traffic:
        """Bytes of one kernel. A slice counts what is cut out; an update in place counts what is written."""
        if instruction.opcode in ("copy", "transpose", "reverse"):
            return Traffic(2 * instruction.bytes, 2 * instruction.bytes)
        body = self.computations.get(instruction.attribute(r"calls=%([\w.\-]+)"), [])
        if instruction.opcode != "fusion" or not body:
            size = instruction.bytes + sum(self._operand_bytes(each) for each in instruction.operands)
            return Traffic(size, size)
        return _Body(body).traffic()

    def _operand_bytes(self, operand: Operand) -> int:
        origin = self.by_name.get(operand.name)
        if origin is None:
            return 0
        return origin.bytes if operand.index is None else origin.arrays[operand.index].bytes


class _Body:
    """The computation inside one kernel."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        self._by_name = {each.name: each for each in body}
        self._users: dict[str, list[tuple[Instruction, int]]] = defaultdict(list)
        for each in body:
            for position, operand in enumerate(each.operands):
                self._users[operand.name].append((each, position))

    def traffic(self) -> Traffic:
        """Bytes of all parameters that are read, and of all results that are written."""
        total = Traffic(0, 0)
        for each in self._by_name.values():
            if each.opcode == "parameter":
                total += self._read(each)
            if each.is_root:
                total += self._written(each)
        return total

    def _read(self, array: Instruction) -> Traffic:
        whole, total = Traffic(array.bytes, array.bytes), Traffic(0, 0)
        for user, position in self._users[array.name]:
            if user.opcode in SLICES and position == 0:
                total += Traffic(user.bytes, moved_by_gather(user) if user.opcode == "gather" else user.bytes)
            elif user.opcode in VIEWS:
                total += self._read(user)
            elif not (user.opcode in UPDATES and position == 0):
                return whole
        return Traffic(min(total.used, whole.used), min(total.moved, whole.moved))

    def _written(self, result: Instruction) -> Traffic:
        inputs = [self._by_name[each.name] for each in result.operands if each.name in self._by_name]
        if result.opcode in VIEWS and inputs:
            return self._written(inputs[0])
        if result.opcode == "tuple":
            return sum((self._written(each) for each in inputs), Traffic(0, 0))
        if result.opcode == "dynamic-update-slice":
            return Traffic(inputs[1].bytes, inputs[1].bytes)
        if result.opcode == "scatter":
            updates = sum(each.bytes for each in inputs[len(inputs) // 2 + 1 :])
            return Traffic(updates, max(updates, SECTOR * math.prod(inputs[len(inputs) // 2].arrays[0].shape[:-1])))
        return Traffic(result.bytes, result.bytes)


def moved_by_gather(gather: Instruction) -> int:
    """Bytes that memory moves for a gather: each of its contiguous runs in whole sectors.

    The rows of a gather lie anywhere, so that a row of one 2-byte number costs a sector of 32 bytes.
    """
    sizes = [int(size) for size in gather.attribute(r"slice_sizes=\{([\d,]*)\}").split(",") if size]
    result = gather.arrays[0]
    run = math.prod(sizes) * ITEM_BYTES.get(result.dtype, 4)
    return gather.bytes // max(run, 1) * math.ceil(run / SECTOR) * SECTOR


def parse_instruction(line: str) -> Instruction | None:
    """The instruction of a line `%name = type opcode(operands), attributes`; None for other lines."""
    found = re.match(r"\s*(ROOT )?%([\w.\-]+) = (.*)$", re.sub(r"/\*.*?\*/", "", line))
    if not found:
        return None
    rest = found[3]
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    kind, rest = rest[:end], rest[end:].lstrip()
    opening = rest.index("(")
    closing = _closing(rest, opening)
    operands = re.findall(r"%([\w.\-]+)(?:#(\d+))?", rest[opening:closing])
    return Instruction(
        name=found[2],
        arrays=tuple(parse_arrays(kind)),
        opcode=rest[:opening],
        operands=tuple(Operand(name, int(index) if index else None) for name, index in operands),
        attributes=rest[closing + 1 :],
        is_root=bool(found[1]),
    )


def parse_arrays(text: str) -> Iterator[Array]:
    """The arrays of a type such as `(f32[2,3]{1,0}, s32[])`."""
    for dtype, shape, layout in ARRAY.findall(text):
        sizes, axes = (tuple(int(n) for n in numbers.split(",") if n) for numbers in (shape, layout))
        yield Array(dtype, sizes, axes or tuple(reversed(range(len(sizes)))))


def _closing(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise ValueError(f"no bracket closes the one at {opening} of {text!r}.")


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}
