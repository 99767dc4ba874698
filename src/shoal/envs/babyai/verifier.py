"""The verifier: whether a step of the agent fulfilled the instruction, or made it fail.

In MiniGrid a descriptor holds the very objects that it described at the start, and a list of their positions, which is
renewed at every drop action. Objects keep their kind and color, so in most levels "is one of these objects" is the same
as "looks like them", and nothing has to be remembered. It is not the same if descriptors have places, nor, because of
old positions, if one of several clauses is "go to": there a state keeps `Tracks`.

As in MiniGrid:
- A clause that is judged for the first time takes the hand for empty before the step. So a drop never counts in the
  first step of a clause, and one pickup may fulfill a clause in either group.
- When the first group is done, the second is judged in the same step, with the same action.
- A clause of a pair that is done stays done; a strict clause does not fail inside a pair.
- "go to" is done in front of a position in the list of the descriptor, even if the object is no longer there.

Source: MiniGrid 3.2.0, `envs/babyai/core/verifier.py`.
"""

import functools
from operator import or_
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, UInt8, UInt16

from shoal.core.struct import Struct, struct
from shoal.envs.babyai.instruction import (
    FIRST,
    GO_TO,
    NONE,
    OPEN,
    PICK_UP,
    PUT_NEXT,
    SECOND,
    STRICT,
    VERB,
    Clause,
    Grammar,
    looks_like,
)
from shoal.grid.actions import DROP, PICKUP, TOGGLE, cell_at, cell_mask
from shoal.grid.cells import EMPTY, WALL, is_a, is_shut
from shoal.grid.level import GridState, in_front

BESIDE = ((1, 0), (0, 1), (-1, 0), (0, -1))


@struct
class Tracks(Struct):
    """The objects that the descriptors described at the start. Bit 2 c stands for the
    first descriptor of clause c, bit 2 c + 1 for its second.
    """

    # Bits 0 to 7: the object in this cell is one of the descriptor's. Bits 8 to 15: the list of positions of the
    # descriptor has this cell.
    cells: UInt16[Array, "W H"]
    hand: UInt16[Array, ""]  # bits 0 to 7: the object in the agent's hand is one of the descriptor's


class Verdict(NamedTuple):
    """The outcome of a step for the instruction: success, failure, and the clauses that are done."""

    success: Bool[Array, ""]
    failure: Bool[Array, ""]
    done: UInt8[Array, ""]  # bit c: clause c is done


class Sight(NamedTuple):
    """For each clause, whether objects of its descriptors are where they matter."""

    faces: list[Bool[Array, ""]]  # the cell in front is in the list of positions
    front: list[Bool[Array, ""]]  # the object in front is one of them
    holds: list[Bool[Array, ""]]  # the object in the hand is one of them
    # The next two are empty if there is no "put next to".
    held: list[Bool[Array, ""]]  # the object that was in the hand before the step is one of them
    beside: list[Bool[Array, ""]]  # next to the cell in front there is a position of the second descriptor


def needs_tracks(grammar: Grammar) -> bool:
    """Whether the looks of objects do not suffice to verify all instructions of a grammar."""
    return grammar.places or (grammar.clauses > 1 and GO_TO in grammar.verbs)


def first_tracks(found: UInt8[Array, "W H"]) -> Tracks:
    """The tracks at the start of an episode, from the `matches` of the instruction."""
    return Tracks(_with_new_lists(found.astype(jnp.uint16)), jnp.uint16(0))


def track(tracks: Tracks, before: GridState, after: GridState, action: Int[Array, ""]) -> Tracks:
    """The tracks after an action of the agent, which took `before` to `after`."""
    x, y = in_front(before)
    at = cell_at(tracks.cells, x, y, np.uint16(0))
    took, dropped = _took(before, after), _dropped(before, after)
    emptied = took | (action == TOGGLE) & is_a(cell_at(before.grid, x, y, WALL), "box")
    lists = at & ~np.uint16(255)
    at = jnp.where(emptied, lists, jnp.where(dropped, lists | tracks.hand, at))
    hand = jnp.where(took, cell_at(tracks.cells, x, y, np.uint16(0)) & np.uint16(255), tracks.hand)
    width, height = tracks.cells.shape
    cells = jnp.where(cell_mask((width, height), x, y), at, tracks.cells)
    cells = jnp.where(action == DROP, _with_new_lists(cells & np.uint16(255)), cells)
    return Tracks(cells, jnp.where(dropped, jnp.uint16(0), hand))


def verify(
    clauses: Int8[Array, "G P 8"],
    grammar: Grammar,
    done: UInt8[Array, ""],
    tracks: tuple[Tracks, Tracks] | None,
    before: GridState,
    after: GridState,
    action: Int[Array, ""],
) -> Verdict:
    """Judge a step. `clauses` are in the order in which they have to be done; `tracks` are those before and after it.

    `done` says which clauses were done before the step: bit g P + p for clause p of group g.
    """
    groups, parts, _ = clauses.shape
    sight = (
        _seen_by_looks(clauses, grammar, before, after, action) if tracks is None else _tracked(*tracks, grammar, after)
    )

    def run_group(g: int, is_new: Bool[Array, ""], done: UInt8[Array, ""]) -> Verdict:
        numbers = range(g * parts, (g + 1) * parts)
        judged = [_judge(clauses[g, c % parts], c, grammar, sight, is_new, before, after, action) for c in numbers]
        for c, (succeeds, _) in zip(numbers, judged, strict=True):
            done = done | succeeds.astype(jnp.uint8) << np.uint8(c)
        _, fails = judged[0]
        is_done = _has(done, numbers[0])
        if parts == 2:
            is_pair = clauses[g, 1, VERB] != NONE
            is_done, fails = is_done & (_has(done, numbers[1]) | ~is_pair), fails & ~is_pair
        return Verdict(is_done, fails, done)

    first = run_group(0, after.time == 1, done)
    if groups == 1:
        return first
    was_done = _is_group_done(clauses, done)
    second = run_group(1, ~was_done, first.done)
    is_sequence = clauses[1, 0, VERB] != NONE
    goes_on = first.success & is_sequence
    return Verdict(
        success=first.success & (second.success | ~is_sequence),
        failure=jnp.where(goes_on, second.failure, first.failure & ~was_done),
        done=jnp.where(goes_on, second.done, first.done),
    )


def _judge(
    clause: Clause,
    number: int,
    grammar: Grammar,
    sight: Sight,
    is_new: Bool[Array, ""],
    before: GridState,
    after: GridState,
    action: Int[Array, ""],
) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """(success, failure) of a clause; `is_new` says whether it is judged for the first time."""
    success = failure = jnp.bool_(False)
    verb, strict = clause[VERB], clause[STRICT] != 0
    takes = (action == PICKUP) & (after.carrying != EMPTY)
    if GO_TO in grammar.verbs:
        success = success | (verb == GO_TO) & sight.faces[number]
    if OPEN in grammar.verbs:
        front = cell_at(after.grid, *in_front(after), WALL)
        toggles = (verb == OPEN) & (action == TOGGLE) & is_a(front, "door")
        opens = toggles & sight.front[number] & ~is_shut(front)
        success, failure = success | opens, failure | toggles & strict & ~opens
    if PICK_UP in grammar.verbs:
        was_free = is_new | (before.carrying == EMPTY)
        picks = (verb == PICK_UP) & takes
        good = picks & was_free & sight.holds[number]
        success, failure = success | good, failure | picks & strict & ~good
    if PUT_NEXT in grammar.verbs:
        puts = _dropped(before, after) & ~is_new & sight.held[number] & sight.beside[number]
        success = success | (verb == PUT_NEXT) & puts
        failure = failure | (verb == PUT_NEXT) & strict & takes
    return success, failure


def _seen_by_looks(
    clauses: Int8[Array, "G P 8"], grammar: Grammar, before: GridState, after: GridState, action: Int[Array, ""]
) -> Sight:
    x, y = in_front(after)
    front = cell_at(after.grid, x, y, WALL)
    rows = [clauses[g, p] for g in range(clauses.shape[0]) for p in range(clauses.shape[1])]
    in_place = faces = [_fits(front, row, FIRST) for row in rows]
    if GO_TO in grammar.verbs:
        # There is a single clause. Only the first action can take away the object that the agent faces: later the
        # clause is done as soon as the agent faces it. Its position is still in the list.
        taken = jnp.where((action == PICKUP) | (action == TOGGLE), cell_at(before.grid, *in_front(before), WALL), EMPTY)
        faces = [now | _fits(taken, row, FIRST) for now, row in zip(in_place, rows, strict=True)]
    puts = rows if PUT_NEXT in grammar.verbs else []
    near = [cell_at(after.grid, x + dx, y + dy, WALL) for dx, dy in BESIDE] if puts else []
    return Sight(
        faces=faces,
        front=in_place,
        holds=[_fits(after.carrying, row, FIRST) for row in rows],
        held=[_fits(before.carrying, row, FIRST) for row in puts],
        beside=[functools.reduce(or_, [_fits(cell, row, SECOND) for cell in near]) for row in puts],
    )


def _fits(cell: UInt16[Array, ""], clause: Clause, begin: int) -> Bool[Array, ""]:
    return looks_like(cell, clause[begin], clause[begin + 1])


def _tracked(old: Tracks, new: Tracks, grammar: Grammar, after: GridState) -> Sight:
    x, y = in_front(after)
    front = cell_at(new.cells, x, y, np.uint16(0))
    near = [cell_at(new.cells, x + dx, y + dy, np.uint16(0)) for dx, dy in BESIDE]
    beside = functools.reduce(or_, near)
    bits = range(0, 2 * grammar.clauses, 2)
    return Sight(
        faces=[_has(front, 8 + bit) for bit in bits],
        front=[_has(front, bit) for bit in bits],
        holds=[_has(new.hand, bit) for bit in bits],
        held=[_has(old.hand, bit) for bit in bits],
        beside=[_has(beside, 8 + bit + 1) for bit in bits],
    )


def _is_group_done(clauses: Int8[Array, "G P 8"], done: UInt8[Array, ""]) -> Bool[Array, ""]:
    """Whether all clauses of the first group are done."""
    is_done = _has(done, 0)
    return is_done if clauses.shape[1] == 1 else is_done & (_has(done, 1) | (clauses[0, 1, VERB] == NONE))


def _took(before: GridState, after: GridState) -> Bool[Array, ""]:
    return (before.carrying == EMPTY) & (after.carrying != EMPTY)


def _dropped(before: GridState, after: GridState) -> Bool[Array, ""]:
    return (before.carrying != EMPTY) & (after.carrying == EMPTY)


def _with_new_lists(marks: UInt16[Array, "W H"]) -> UInt16[Array, "W H"]:
    """Bits 0 to 7, copied to bits 8 to 15."""
    return marks | marks << np.uint16(8)


def _has(bits: Array, number: int) -> Bool[Array, ""]:
    return bits >> bits.dtype.type(number) & bits.dtype.type(1) != 0
