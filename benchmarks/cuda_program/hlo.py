"""Read XLA's scheduled HLO text: its instructions, and the lines of source that they come from."""

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

ITEM_BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "c128": 16, "token": 0}
ITEM_BYTES |= {f"{kind}{bits}": bits // 8 for kind in "fsuc" for bits in (8, 32, 64)}
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


class Array(NamedTuple):
    """The type of an array: its dtype as XLA writes it, its sizes, and its axes from the fastest to the slowest."""

    dtype: str
    shape: tuple[int, ...]
    layout: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES.get(self.dtype, 4)

    @property
    def bytes(self) -> int:
        """Bytes of the whole array."""
        return self.item_bytes * math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Operand(NamedTuple):
    """A use of the instruction `name`, or of element `index` of its tuple."""

    name: str
    index: int | None


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    arrays: tuple[Array, ...]  # of the result; more than one for a tuple
    opcode: str
    operands: tuple[Operand, ...]
    attributes: str
    is_root: bool

    @property
    def size(self) -> int:
        """Elements of the first array of the result."""
        return math.prod(self.arrays[0].shape) if self.arrays else 0

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
        known = self.attribute(r'"known_trip_count":\{"n":"(\d+)"')
        return int(known) if known else None


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
        return {instruction.name: instruction for body in self.computations.values() for instruction in body}

    def body(self, fusion: Instruction) -> list[Instruction]:
        """The instructions inside a fusion; none for other instructions."""
        return self.computations.get(fusion.attribute(r"calls=%([\w.\-]+)"), []) if fusion.opcode == "fusion" else []

    def bytes_of(self, operand: Operand) -> int:
        """Bytes of an operand."""
        origin = self.by_name.get(operand.name)
        if origin is None:
            return 0
        return origin.bytes if operand.index is None else origin.arrays[operand.index].bytes

    def source(self, instruction: Instruction, package: str = "/src/shoal/") -> tuple[str, tuple[str, ...]]:
        """("folder/file.py:line" of the innermost call within a package, the functions of all calls within it)."""
        calls = [call for call in self._calls(instruction) if package in call[0]]
        place = f"{'/'.join(calls[0][0].split('/')[-2:])}:{calls[0][2]}" if calls else ""
        return place, tuple(function for _, function, _ in calls)

    def _calls(self, instruction: Instruction) -> Iterator[tuple[str, str, int]]:
        """(file, function, line) of the calls that made an instruction, the innermost first."""
        files, functions, locations, frames = (self._tables[name] for name in TABLES)
        frame = int(instruction.attribute(r"stack_frame_id=(\d+)") or 0)
        while frame in frames:
            numbers = _numbers(frames[frame])
            place = _numbers(locations[numbers["file_location_id"]])
            yield files[place["file_name_id"]], functions[place["function_name_id"]], place["line"]
            frame = numbers.get("parent_frame_id", 1) - 1  # XLA writes the number plus one


def parse_instruction(line: str) -> Instruction | None:
    """The instruction of a line `%name = type opcode(operands), attributes`; None for other lines."""
    found = re.match(r"\s*(ROOT )?%([\w.\-]+) = (.*)$", line)
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
        arrays=tuple(_arrays(kind)),
        opcode=rest[:opening],
        operands=tuple(Operand(name, int(index) if index else None) for name, index in operands),
        attributes=rest[closing + 1 :],
        is_root=bool(found[1]),
    )


def _arrays(text: str) -> Iterator[Array]:
    """The arrays of a type such as `(f32[2,3]{1,0}, s32[])`."""
    for dtype, shape, layout in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\](?:\{([\d,]*))?", text):
        yield Array(dtype, *(tuple(int(n) for n in numbers.split(",") if n) for numbers in (shape, layout)))


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
