"""Read XLA's list of thunks: what the host launches, in order, with the loops and branches around it."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LABELS = {"condition": "kWhile", "body": "kWhile", "branch": "kConditional"}  # words in the label of a part: its owner


@dataclass
class Thunk:
    """A launch, or a loop, a branch or a graph with the thunks inside it."""

    number: int
    kind: str  # such as kCustomKernel, kCopy, kWhile
    part: str  # of the thunk around it: "condition", "body", "branch", or empty
    instruction: str = ""  # the name of its HLO instruction
    threads: int = 0  # that run a kernel; 0 for what is not a kernel
    children: list["Thunk"] = field(default_factory=list)


def parse_thunks(sequence: str, metadata: str) -> list[Thunk]:
    """The outermost thunks of a program, from its `thunk_sequence.txt` and its `thunk_metadata.txt`."""
    names = dict(_names(metadata))
    outermost: list[Thunk] = []
    around: list[tuple[int, Thunk]] = []  # (indentation, thunk), the outermost first
    part: dict[int, str] = {}  # the label that was read last within a thunk
    for line in sequence.splitlines():
        indentation, text = len(line) - len(line.lstrip()), line.strip()
        if found := re.match(r"(\d+): (k\w+)", text):
            around = [(i, thunk) for i, thunk in around if i < indentation]
            parent = around[-1][1] if around else None
            number = int(found[1])
            part_of_parent = part.get(parent.number, "") if parent else ""
            thunk = Thunk(number, found[2], part_of_parent, names.get(number, ""), _threads(text))
            (parent.children if parent else outermost).append(thunk)
            around.append((indentation, thunk))
        elif (label := re.match(r".*(condition|body|branch).*:$", text)) and around:
            part[_owner(around, LABELS[label[1]], indentation).number] = label[1]
    return outermost


def _owner(around: list[tuple[int, Thunk]], kind: str, indentation: int) -> Thunk:
    """The thunk that a label belongs to: the innermost around it, or the last, as XLA does not indent `condition:`."""
    fits = [thunk for i, thunk in around if thunk.kind == kind and i < indentation]
    return fits[-1] if fits else around[-1][1]


def _threads(text: str) -> int:
    sizes = re.search(r"grid: \[([\d, ]+)\] threads: \[([\d, ]+)\]", text)
    return math.prod(int(n) for numbers in sizes.groups() for n in numbers.split(",")) if sizes else 0


def _names(metadata: str) -> Iterator[tuple[int, str]]:
    for block in metadata.split("thunk_metadata {")[1:]:
        number, name = re.search(r"thunk_id: (\d+)", block), re.search(r'profile_annotation: "([^"]*)"', block)
        if number and name:
            yield int(number[1]), name[1]
