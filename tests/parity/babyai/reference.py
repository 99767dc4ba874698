"""BabyAI's levels of MiniGrid as plain data: read a layout from them, and put a layout of ours into them."""

import contextlib
import io
from typing import Any, NamedTuple

import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, IDX_TO_COLOR, IDX_TO_OBJECT, OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.envs.babyai.core import verifier

from parity.minigrid.reference import EMPTY, make_reference, pack, packed_grid, unpack

NONE, GO_TO, PICK_UP, OPEN, PUT_NEXT = range(5)
ONE, BEFORE, AFTER = range(3)
PLACES = (None, "left", "right", "front", "behind")
JOINTS = {verifier.BeforeInstr: BEFORE, verifier.AfterInstr: AFTER}
VERBS = {verifier.GoToInstr: GO_TO, verifier.PickupInstr: PICK_UP, verifier.OpenInstr: OPEN}
ANY = (0, 6, 0)  # a descriptor without kind, color and place


class Start(NamedTuple):
    """A level at the start of an episode. `clauses` [2, 2, 8] are those of our `Instruction`, as spoken."""

    grid: np.ndarray  # uint16 [W, H]; the object that the agent carries from the start still lies in it
    x: int
    y: int
    direction: int
    carried: tuple[int, int] | None  # the position of that object
    order: int
    clauses: np.ndarray
    max_steps: int


def fresh(env_id: str, seed: int | None = None) -> Any:
    """The reference, reset. It prints each attempt that it rejects; that is left out."""
    env = make_reference(env_id)
    reset(env, seed)
    return env


def reset(env: Any, seed: int | None = None) -> dict[str, Any]:
    """Reset the reference without its prints, and return its observation."""
    with contextlib.redirect_stdout(io.StringIO()):
        return env.reset(seed=seed)[0]


def start_of(env: Any) -> Start:
    """The start of the episode of a reference that was just reset."""
    grid, carried = packed_grid(env).copy(), None
    if env.carrying is not None:
        carried = tuple(int(i) for i in env.carrying.init_pos)
        grid[carried] = pack(env.carrying)
    order, clauses = packed_instruction(env.instrs)
    x, y = (int(i) for i in env.agent_pos)
    return Start(grid, x, y, int(env.agent_dir), carried, order, clauses, int(env.max_steps))


def begin(env: Any, start: Start) -> dict[str, Any]:
    """Begin an episode in a reference of the same id, which was reset before, and return its first observation.

    As after a reset, an object that the agent carries from the start still lies in the grid in this observation.
    """
    env.grid = Grid(*start.grid.shape)
    for (x, y), cell in np.ndenumerate(start.grid):
        thing = unpack(cell)
        env.grid.set(x, y, thing)
        if thing is not None:
            thing.init_pos = thing.cur_pos = (x, y)
    env.agent_pos, env.agent_dir = (start.x, start.y), start.direction
    env.carrying, env.step_count, env.max_steps = None, 0, start.max_steps
    env.instrs = unpacked_instruction(start.order, start.clauses)
    env.mission = env.instrs.surface(env)
    env.instrs.reset_verifier(env)
    obs = env.gen_obs()
    if start.carried is not None:  # only after the descriptors have found it in the grid
        env.carrying = env.obj_a = env.grid.get(*start.carried)
        env.grid.set(*start.carried, None)
    return obs


def clauses_of(instruction: verifier.Instr) -> list[verifier.ActionInstr]:
    """All clauses of an instruction, as spoken."""
    if isinstance(instruction, verifier.ActionInstr):
        return [instruction]
    return clauses_of(instruction.instr_a) + clauses_of(instruction.instr_b)


def descriptors_of(instruction: verifier.Instr) -> list[verifier.ObjDesc]:
    """All descriptors of an instruction, as spoken."""
    return [d for clause in clauses_of(instruction) for d in vars(clause).values() if isinstance(d, verifier.ObjDesc)]


def packed_instruction(instruction: verifier.Instr) -> tuple[int, np.ndarray]:
    """(order, clauses [2, 2, 8]) of an instruction of the reference."""
    clauses = np.zeros((2, 2, 8), np.int8)
    order = JOINTS.get(type(instruction), ONE)
    groups = [instruction] if order == ONE else [instruction.instr_a, instruction.instr_b]
    for g, group in enumerate(groups):
        for p, clause in enumerate(clauses_of(group)):
            clauses[g, p] = _packed_clause(clause)
    return order, clauses


def unpacked_instruction(order: int, clauses: np.ndarray) -> verifier.Instr:
    """The instruction of the reference, before `reset_verifier`."""
    groups = [[_unpacked_clause(row) for row in group if row[0] != NONE] for group in clauses]
    first, second = (verifier.AndInstr(*group) if len(group) == 2 else (group or [None])[0] for group in groups)
    if order == ONE:
        return first
    return (verifier.BeforeInstr if order == BEFORE else verifier.AfterInstr)(first, second)


def _packed_clause(clause: verifier.ActionInstr) -> tuple[int, ...]:
    strict = int(bool(getattr(clause, "strict", False)))
    if isinstance(clause, verifier.PutNextInstr):
        return (PUT_NEXT, strict, *_packed_descriptor(clause.desc_move), *_packed_descriptor(clause.desc_fixed))
    return (VERBS[type(clause)], strict, *_packed_descriptor(clause.desc), *ANY)


def _unpacked_clause(row: np.ndarray) -> verifier.ActionInstr:
    verb, strict, first = int(row[0]), bool(row[1]), _unpacked_descriptor(row[2:5])
    if verb == GO_TO:
        return verifier.GoToInstr(first)
    if verb == PUT_NEXT:
        return verifier.PutNextInstr(first, _unpacked_descriptor(row[5:8]), strict=strict)
    return {PICK_UP: verifier.PickupInstr, OPEN: verifier.OpenInstr}[verb](first, strict=strict)


def _packed_descriptor(descriptor: verifier.ObjDesc) -> tuple[int, int, int]:
    kind = OBJECT_TO_IDX[descriptor.type] if descriptor.type else ANY[0]
    return kind, COLOR_TO_IDX[descriptor.color] if descriptor.color else ANY[1], PLACES.index(descriptor.loc)


def _unpacked_descriptor(numbers: np.ndarray) -> verifier.ObjDesc:
    kind, color, place = (int(number) for number in numbers)
    return verifier.ObjDesc(
        IDX_TO_OBJECT[kind] if kind != ANY[0] else None, IDX_TO_COLOR[color] if color != ANY[1] else None, PLACES[place]
    )


assert EMPTY == 1
