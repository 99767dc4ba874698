"""Instructions as arrays of a fixed size: up to two groups of up to two clauses, each about one or two descriptors.

A descriptor describes objects by kind, color and place: "a red ball on your left". A clause is a verb with descriptors:
"pick up a red ball". A group is a clause, or two that may be done in any order: "open a door and go to a key". An
instruction is a group, or two in a given order: "pick up a ball, then open a door", "open a door after you pick up a
ball". Source: MiniGrid 3.2.0, `envs/babyai/core/verifier.py`.
"""

import functools
from operator import or_
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, UInt8, UInt16

from shoal.core.struct import Struct, struct
from shoal.grid.actions import heading
from shoal.grid.cells import COLORS, EMPTY, OBJECTS, Cell, Whole, color_of, object_of
from shoal.ops.loops import short_scan

Descriptor = Int8[Array, "3"] | Int8[np.ndarray, "3"]
Clause = Int8[Array, "8"] | Int8[np.ndarray, "8"]

NONE, GO_TO, PICK_UP, OPEN, PUT_NEXT = range(5)  # verbs; NONE: the row of a clause is not used
ONE, BEFORE, AFTER = range(3)  # the order of the groups: one group, "A, then B", "A after you B"
ANY_KIND, ANY_COLOR, ANYWHERE = 0, len(COLORS), 0
PLACES = ("", "left", "right", "front", "behind")  # seen from the agent's first pose
KINDS = tuple(OBJECTS.index(name) for name in ("door", "key", "ball", "box"))  # that a descriptor may name

# The numbers of a clause: VERB, STRICT, then the kind, color and place of each descriptor.
VERB, STRICT, FIRST, SECOND, SIZE = 0, 1, 2, 5, 8
_ONE_BIT, _ALL_BITS, _EMPTY_BIT = np.uint16(1), np.uint16(0xFFFF), np.uint16(1 << OBJECTS.index("empty"))


@struct
class Instruction(Struct):
    """An instruction of G groups of P clauses, as spoken: the first group is the one that is spoken first.

    A clause is (verb, strict, kind, color, place, kind, color, place). Its second descriptor is that of "next to" in
    "put ... next to ...". A strict clause fails when the agent picks up, or opens, something else. A clause that is not
    used has the verb NONE.
    """

    order: Int8[Array, ""]  # ONE, BEFORE or AFTER
    clauses: Int8[Array, "G P 8"]

    @property
    def shape(self) -> tuple[int, int]:
        """G and P, the number of groups and of clauses in each."""
        groups, parts, _ = self.clauses.shape
        return groups, parts


class Grammar(NamedTuple):
    """The kinds of instructions of a level. They determine the sizes of arrays, and which fields a state has."""

    verbs: tuple[int, ...]  # GO_TO, PICK_UP, OPEN, PUT_NEXT
    groups: int = 1
    parts: int = 1  # clauses in a group
    places: bool = False  # whether descriptors may have a place

    @property
    def clauses(self) -> int:
        """The largest number of clauses."""
        return self.groups * self.parts


def descriptor(kind: Whole = ANY_KIND, color: Whole = ANY_COLOR, place: Whole = ANYWHERE) -> Int8[Array, "3"]:
    """Describe objects of a kind (an index of `OBJECTS`), of a color (of `COLORS`), at a place (of `PLACES`)."""
    return _numbers(kind, color, place)


def go_to(what: Descriptor) -> Int8[Array, "8"]:
    """The clause that is done when the agent faces such an object."""
    return _clause(GO_TO, False, what)


def pick_up(what: Descriptor, strict: bool = False) -> Int8[Array, "8"]:
    """The clause that is done when the agent picks up such an object; a strict one fails with another object."""
    return _clause(PICK_UP, strict, what)


def open_door(what: Descriptor, strict: bool = False) -> Int8[Array, "8"]:
    """The clause that is done when the agent opens such a door; a strict one fails when it toggles another door."""
    return _clause(OPEN, strict, what)


def put_next(what: Descriptor, to: Descriptor) -> Int8[Array, "8"]:
    """The clause that is done when the agent drops the one object beside the other."""
    return jnp.concatenate([_numbers(PUT_NEXT, False), jnp.asarray(what), jnp.asarray(to)])


def one(clause: Clause) -> Instruction:
    """The instruction of one clause."""
    return Instruction(jnp.int8(ONE), jnp.asarray(clause)[None, None])


def pair(first: Clause, second: Clause) -> Instruction:
    """The instruction "first and second": both clauses, in any order."""
    return Instruction(jnp.int8(ONE), jnp.stack([jnp.asarray(first), jnp.asarray(second)])[None])


def before(first: Instruction, second: Instruction) -> Instruction:
    """The instruction "first, then second", of two instructions with one group each of the same size."""
    return Instruction(jnp.int8(BEFORE), jnp.concatenate([first.clauses, second.clauses]))


def after(first: Instruction, second: Instruction) -> Instruction:
    """The instruction "first after you second", of two instructions with one group each of the same size."""
    return Instruction(jnp.int8(AFTER), jnp.concatenate([first.clauses, second.clauses]))


def padded(instruction: Instruction, groups: int, parts: int) -> Instruction:
    """The same instruction with room for more groups and clauses."""
    has_groups, has_parts = instruction.shape
    extra = ((0, groups - has_groups), (0, parts - has_parts), (0, 0))
    return instruction.replace(clauses=jnp.pad(instruction.clauses, extra))


def navigations(instruction: Instruction) -> Int[Array, ""]:
    """The number of objects that the agent has to go to: two for "put ... next to ...", one for any other clause."""
    verb = instruction.clauses[..., VERB]
    return jnp.sum(jnp.where(verb == NONE, 0, jnp.where(verb == PUT_NEXT, 2, 1)), dtype=jnp.int32)


def matches(
    instruction: Instruction,
    grid: UInt16[Array, "W H"],
    x: Int[Array, ""],
    y: Int[Array, ""],
    direction: Int[Array, ""],
    room_size: int,
) -> UInt8[Array, "W H"]:
    """Which descriptors describe each cell, for an agent with this pose: bit 2 c + i for descriptor i of clause c.

    As in MiniGrid, a descriptor of any kind also describes walls. A descriptor with a place describes only cells of the
    agent's room, its walls included; a cell may be in front of the agent and on its left. A descriptor that the clause
    does not use describes nothing.
    """
    kinds, colors = object_of(grid).reshape(-1), color_of(grid).reshape(-1)
    at = [cells.reshape(-1).astype(jnp.uint16) for cells in places(grid.shape, x, y, direction, room_size)]
    there = functools.reduce(or_, (cells << np.uint16(place) for place, cells in enumerate(at, start=1)), np.uint16(1))
    clauses = instruction.clauses.reshape(-1, 1, SIZE)
    verb = clauses[..., VERB]
    is_used = jnp.concatenate([verb != NONE, verb == PUT_NEXT], axis=1).reshape(-1)
    descriptors = jnp.concatenate([clauses[..., FIRST:SECOND], clauses[..., SECOND:]], axis=1).reshape(-1, 3)

    def add(found: UInt8[Array, "N"], target: tuple) -> tuple[UInt8[Array, "N"], None]:
        # What a descriptor allows is a word with a bit for each number: a shift is cheaper than comparisons.
        is_used, (kind, color, place), bit = target
        allowed_kinds = jnp.where(kind == ANY_KIND, _ALL_BITS, _ONE_BIT << kind) & ~_EMPTY_BIT
        allowed_colors = jnp.where(color == ANY_COLOR, _ALL_BITS, _ONE_BIT << color)
        fits = allowed_kinds >> kinds & allowed_colors >> colors & there >> place & _ONE_BIT
        return found | jnp.where(is_used, fits, np.uint16(0)).astype(jnp.uint8) << bit, None

    # A loop, because XLA would otherwise compute the bits again for each value that depends on them.
    targets = (is_used, descriptors.astype(jnp.uint16), np.arange(descriptors.shape[0], dtype=np.uint8))
    found, _ = short_scan(add, jnp.zeros(grid.size, jnp.uint8), targets)
    return found.reshape(grid.shape)


def some_and_several(found: UInt8[Array, "W H"]) -> tuple[UInt8[Array, ""], UInt8[Array, ""]]:
    """Which descriptors describe at least one cell, and which more than one, as bits. `found` are the `matches`."""

    def add(one: tuple, other: tuple) -> tuple:
        return one[0] | other[0], one[1] | other[1] | one[0] & other[0]

    none = np.uint8(0)
    return jax.lax.reduce((found.reshape(-1), jnp.zeros(found.size, jnp.uint8)), (none, none), add, (0,))


def is_possible(found: UInt8[Array, "W H"]) -> Bool[Array, ""]:
    """Whether no clause "put A next to B" is senseless: an object that is A and B, or an A beside a B already.

    `found` are the `matches` of the instruction.
    """
    moved, fixed = found & np.uint8(0b01010101), found >> np.uint8(1) & np.uint8(0b01010101)
    wide = jnp.pad(fixed, 1)
    beside = wide[2:, 1:-1] | wide[:-2, 1:-1] | wide[1:-1, 2:] | wide[1:-1, :-2]
    return ~jnp.any(moved & (fixed | beside) != 0)


def places(
    shape: tuple[int, ...], x: Int[Array, ""], y: Int[Array, ""], direction: Int[Array, ""], room_size: int
) -> Bool[Array, "4 W H"]:
    """The cells on the left, on the right, in front and behind, in the room of an agent with this pose."""
    pitch = room_size - 1
    columns, rows = np.arange(shape[0], dtype=np.int32)[:, None], np.arange(shape[1], dtype=np.int32)[None, :]
    left, top = x // pitch * pitch, y // pitch * pitch
    inside = (columns >= left) & (columns <= left + pitch) & (rows >= top) & (rows <= top + pitch)
    dx, dy = heading(direction)
    ahead = (columns - x) * dx + (rows - y) * dy
    aside = (rows - y) * dx - (columns - x) * dy
    return jnp.stack([aside < 0, aside > 0, ahead > 0, ahead < 0]) & inside[None]


def looks_like(cells: Cell, kind: Int8[Array, "..."], color: Int8[Array, "..."]) -> Bool[Array, "..."]:
    """Whether cells are of a kind and of a color, as a descriptor has them."""
    is_kind = (kind == ANY_KIND) | (object_of(cells) == kind.astype(jnp.uint16))
    return (cells != EMPTY) & is_kind & ((color == ANY_COLOR) | (color_of(cells) == color.astype(jnp.uint16)))


def _clause(verb: int, strict: bool, what: Descriptor) -> Int8[Array, "8"]:
    return jnp.concatenate([_numbers(verb, strict), jnp.asarray(what), descriptor()])


def _numbers(*numbers: Whole) -> Int8[Array, "n"]:
    return jnp.stack([jnp.asarray(number).astype(jnp.int8) for number in numbers])
