"""Levels whose instructions are sampled from the whole language: one to four actions, in any order or in a given one.

Source: MiniGrid 3.2.0 `envs/babyai/core/levelgen.py`, `synth.py`, `goto.py` (GoToSeq) and `pickup.py` (PickupLoc).
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import (
    AROUND_AGENT,
    AROUND_CORNER,
    Maze,
    check_count,
    check_several_rooms,
    most_within_reach,
)
from shoal.envs.babyai.instruction import (
    AFTER,
    BEFORE,
    GO_TO,
    KINDS,
    ONE,
    OPEN,
    PICK_UP,
    PLACES,
    PUT_NEXT,
    Grammar,
    Instruction,
    descriptor,
    places,
)
from shoal.envs.babyai.kit import (
    Room,
    all_reachable,
    can_be_put,
    doors_of,
    finished,
    random_room_but,
    with_agent_outside,
    with_distractors,
)
from shoal.envs.babyai.level import Layout
from shoal.grid.cells import COLORS, KEY, OBJECTS, color_of, object_of, with_color
from shoal.grid.layout import between, random_color, rectangle
from shoal.grid.rooms import Plan

VERBS = {"goto": GO_TO, "pickup": PICK_UP, "open": OPEN, "putnext": PUT_NEXT}
SHAPES = ("action", "and", "seq")
FIRST_KIND = KINDS[0]  # the four kinds have consecutive numbers
NO_ROOM = (-1, -1)
ONE_ACTION = "Follow an instruction of one action, in a maze of rooms, one of which may be locked."
# How often each place is sampled, in eighths: no place with probability 1/2, else one of four.
PLACE_WEIGHTS = (4, 1, 1, 1, 1)


@env(
    "BabyAI-GoToSeq-v0",
    about="Go to one to four things, in any order or in a given one, in a maze of rooms.",
    action_kinds=("goto",),
    locked_room_prob=0.0,
    locations=False,
    unblocking=False,
)
@env(
    "BabyAI-GoToSeqS5R2-v0",
    about="Go to one to four things, in any order or in a given one, in four small rooms.",
    action_kinds=("goto",),
    locked_room_prob=0.0,
    locations=False,
    unblocking=False,
    room_size=5,
    num_rows=2,
    num_cols=2,
    num_dists=4,
)
@env(
    "BabyAI-PickupLoc-v0",
    about="Pick up a thing in the agent's room, which the mission may describe by its place.",
    action_kinds=("pickup",),
    instr_kinds=("action",),
    num_rows=1,
    num_cols=1,
    num_dists=8,
    locked_room_prob=0.0,
    unblocking=False,
)
@env("BabyAI-Synth-v0", about=ONE_ACTION, instr_kinds=("action",), locations=False, implicit_unlock=False)
@env(
    "BabyAI-SynthS5R2-v0",
    about="Follow an instruction of one action, in six small rooms, one of which may be locked.",
    instr_kinds=("action",),
    locations=False,
    implicit_unlock=False,
    room_size=5,
    num_rows=2,
)
@env("BabyAI-SynthLoc-v0", about=ONE_ACTION, instr_kinds=("action",), implicit_unlock=False)
@env("BabyAI-SynthSeq-v0", implicit_unlock=False)
@env("BabyAI-MiniBossLevel-v0", room_size=5, num_rows=2, num_cols=2, num_dists=7, locked_room_prob=0.25)
@env("BabyAI-BossLevel-v0")
@env(
    "BabyAI-BossLevelNoUnlock-v0",
    about="Follow an instruction of one to four actions, in a maze of rooms, none of which is locked.",
    locked_room_prob=0.0,
    implicit_unlock=False,
)
@struct
class BossLevel(Maze):
    """Follow an instruction of one to four actions, in a maze of rooms, one of which may be locked.

    Start: with probability `locked_room_prob` a room is locked, and its key is in another room; closed doors connect
    all rooms. `num_dists` things are in random rooms, and the agent is in a room that is not locked. Without
    `unblocking` the agent can go beside each thing and each door without moving anything.
    Mission: of a random one of `instr_kinds`: "action" is one action; "and" is two actions, in any order; "seq" is an
    action or two, then an action or two. An action is a random one of `action_kinds`. A thing is described by its kind
    or color or both and, with `locations`, perhaps by its place as seen from the agent's start. The description fits
    something; without `implicit_unlock`, something outside of the locked room (whose walls and doors count as inside).
    With `unblocking` no mission names a key of the color of a locked door.
    End: terminated when the mission is complete. Time limit: room_size^2 num_rows num_cols steps for each action, and
    twice as many to put one thing next to another. The rest: see `BabyLevel`.

    Differences from MiniGrid: its `reset` never returns if the only free cells of the agent's room have things all
    around; here such an attempt is rejected. It gives up after 101 descriptions that fit nothing, and rejects the
    level; here the description is sampled among those that fit, and the level is rejected if there is none.
    """

    can_reject: ClassVar[bool] = True

    num_dists: int = static(18, help="number of things, besides the key of a locked room")
    locked_room_prob: float = static(0.5, help="probability that a room is locked")
    locations: bool = static(True, choices=(False, True), help="whether things are described by their place, too")
    unblocking: bool = static(True, choices=(False, True), help="whether things may be in the way of others")
    implicit_unlock: bool = static(True, choices=(False, True), help="whether the mission may lie in the locked room")
    action_kinds: tuple[str, ...] = static(tuple(VERBS), help="actions of a mission: goto, pickup, open, putnext")
    instr_kinds: tuple[str, ...] = static(SHAPES, help="forms of a mission: action, and, seq")

    def __post_init__(self) -> None:
        rooms, cells = self.num_rows * self.num_cols, (self.room_size - 2) ** 2
        # No thing is next to the place in the middle where the agent is until it gets its own.
        most = rooms * cells - (AROUND_CORNER if self.room_size == 4 else AROUND_AGENT) - (self.locked_room_prob > 0)
        if rooms == 1 and not self.unblocking:
            most = min(most, most_within_reach(self.room_size))
        fewest = 2 if rooms == 1 and self.action_kinds == ("putnext",) else 1
        check_count("num_dists", self.num_dists, fewest, most, f"in rooms of room_size={self.room_size}")
        if not 0 <= self.locked_room_prob <= 1:
            raise ValueError(f"locked_room_prob={self.locked_room_prob} is no probability: from 0 to 1.")
        if self.locked_room_prob > 0:
            check_several_rooms(self.num_cols, self.num_rows)
        _ = self.grammar  # checks the names
        if self.action_kinds == ("open",) and rooms == 2 and self.locked_room_prob == 1 and not self.implicit_unlock:
            raise ValueError(
                "action_kinds=('open',) without implicit_unlock needs a door that is not locked: at least 3 rooms, or "
                "locked_room_prob below 1."
            )
        if self.action_kinds == ("open",) and rooms < 2:
            raise ValueError("action_kinds=('open',) needs a door: at least 2 rooms (num_rows, num_cols).")

    @property
    def grammar(self) -> Grammar:
        """The instructions that `instr_kinds` and `action_kinds` allow. Raises ValueError for unknown names."""
        _check_names("action_kinds", self.action_kinds, tuple(VERBS))
        _check_names("instr_kinds", self.instr_kinds, SHAPES)
        return Grammar(
            verbs=tuple(VERBS[name] for name in self.action_kinds),
            groups=2 if "seq" in self.instr_kinds else 1,
            parts=2 if {"and", "seq"} & {*self.instr_kinds} else 1,
            places=self.locations,
        )

    def layout(self, key: Key) -> Layout:
        """Sample locked room, doors, things, agent and instruction."""
        k_plan, k_locked, k_doors, k_things, k_agent, k_instruction = jax.random.split(key, 6)
        plan, locked_room, door_color = self.with_locked_room(k_locked, self.rooms.plan(k_plan, may_fail=True))
        plan, _ = with_distractors(k_things, plan.connected(k_doors), self.num_dists)
        plan = with_agent_outside(k_agent, plan, locked_room)
        if not self.unblocking:
            plan = plan.provided(all_reachable(plan))
        instruction, is_found = self.instruction(k_instruction, self.descriptions(plan, locked_room))
        plan = plan.provided(is_found)
        if "putnext" in self.action_kinds:
            plan = plan.provided(can_be_put(plan, instruction))
        if self.unblocking:
            plan = plan.provided(~_names_key(instruction, door_color))
        return finished(plan, instruction)

    def with_locked_room(self, key: Key, plan: Plan) -> tuple[Plan, Room, Int[Array, ""]]:
        """Lock a room, perhaps, and put its key into another: (plan, the room, the color). `key` is consumed.

        All pairs of a room and a wall to another room have the same probability. Without a locked room the result is
        `NO_ROOM` and the color -1.
        """
        if self.locked_room_prob == 0:
            return plan, NO_ROOM, jnp.int32(-1)
        k_is_locked, k_wall, k_color, k_room, k_key = jax.random.split(key, 5)
        pairs = jnp.asarray(_rooms_with_walls(self.num_cols, self.num_rows))
        column, row, side = pairs[jax.random.randint(k_wall, (), 0, len(pairs))]
        room, color = (column, row), random_color(k_color)
        locked = plan.with_door(room, side, doors_of(color, True))
        locked = locked.with_thing(k_key, random_room_but(k_room, plan, room), with_color(KEY, color))
        is_locked = jax.random.bernoulli(k_is_locked, self.locked_room_prob)
        plan = jax.tree.map(lambda new, old: jnp.where(is_locked, new, old), locked, plan)
        column, row, color = (jnp.where(is_locked, number, -1) for number in (column, row, color))
        return plan, (column, row), color

    def descriptions(self, plan: Plan, locked_room: Room) -> Bool[Array, "4 7 5"]:
        """Which descriptions [kind, color, place] fit something; the last color is any, the first place anywhere.

        Without `implicit_unlock` things inside the locked room do not count.
        """
        kind = object_of(plan.grid).astype(jnp.int32) - FIRST_KIND
        counts = (kind >= 0) & (kind < len(KINDS))
        if not self.implicit_unlock:
            left, top = (jnp.asarray(index) * plan.rooms.pitch for index in locked_room)
            size = jnp.where(left < 0, 0, plan.rooms.size)
            counts = counts & ~rectangle(plan.rooms.shape, left, top, size, size)
        # A bit for each kind and color: the union over the cells of a place are the things that are there.
        number = jnp.where(counts, kind * len(COLORS) + color_of(plan.grid).astype(jnp.int32), 0).astype(jnp.uint32)
        bits = jnp.where(counts, jnp.uint32(1) << number, 0)
        somewhere = places(plan.rooms.shape, plan.x, plan.y, plan.direction, plan.rooms.size)
        where = jnp.concatenate([jnp.ones((1, *plan.rooms.shape), bool), somewhere])
        found = jnp.bitwise_or.reduce(jnp.where(where, bits[None], 0).reshape(len(PLACES), -1), axis=1)
        looks = np.arange(len(KINDS) * len(COLORS), dtype=np.uint32).reshape(len(KINDS), len(COLORS), 1)
        fits = (found[None, None] >> looks & 1) == 1
        return jnp.concatenate([fits, jnp.any(fits, axis=1, keepdims=True)], axis=1)

    def instruction(self, key: Key, fits: Bool[Array, "4 7 5"]) -> tuple[Instruction, Bool[Array, ""]]:
        """Sample an instruction: (instruction, whether a description was found for each thing). `key` is consumed."""
        groups, parts = self.grammar.groups, self.grammar.parts
        k_form, k_pairs, k_order, k_clauses = jax.random.split(key, 4)
        forms = jnp.array([SHAPES.index(name) for name in self.instr_kinds], jnp.int32)
        form = forms[between(k_form, 0, len(self.instr_kinds))]
        is_seq = form == SHAPES.index("seq")
        is_pair = jnp.where(is_seq, jax.random.bernoulli(k_pairs, 0.5, (groups,)), form == SHAPES.index("and"))
        group, part = np.indices((groups, parts), np.int32)
        is_used = ((group == 0) | is_seq) & ((part == 0) | is_pair[:, None])
        keys = jax.random.split(k_clauses, (groups, parts))
        clauses, is_found = jax.vmap(jax.vmap(lambda key: self.clause(key, fits)))(keys)
        order = jnp.where(is_seq, jnp.where(jax.random.bernoulli(k_order, 0.5), BEFORE, AFTER), ONE)
        unused = jnp.zeros_like(clauses)
        used = Instruction(order=order.astype(jnp.int8), clauses=jnp.where(is_used[..., None], clauses, unused))
        return used, jnp.all(is_found | ~is_used)

    def clause(self, key: Key, fits: Bool[Array, "4 7 5"]) -> tuple[Int8[Array, "8"], Bool[Array, ""]]:
        """Sample an action and what it is about: (clause, whether there are such things). `key` is consumed."""
        k_verb, k_first, k_second = jax.random.split(key, 3)
        verbs = jnp.array([VERBS[name] for name in self.action_kinds], jnp.int32)
        verb = verbs[between(k_verb, 0, len(self.action_kinds))]
        is_door = np.array(KINDS) == OBJECTS.index("door")
        kinds = jnp.where(is_door, (verb == GO_TO) | (verb == OPEN), verb != OPEN)
        first, has_first = self.description(k_first, fits & kinds[:, None, None])
        second, has_second = self.description(k_second, fits)
        is_put = verb == PUT_NEXT
        second = jnp.where(is_put, second, descriptor())
        head = jnp.stack([verb, jnp.zeros_like(verb)]).astype(jnp.int8)
        return jnp.concatenate([head, first, second]), has_first & (has_second | ~is_put)

    def description(self, key: Key, fits: Bool[Array, "4 7 5"]) -> tuple[Int8[Array, "3"], Bool[Array, ""]]:
        """Sample one of the descriptions that fit: (descriptor, whether there is one). `key` is consumed.

        The reference samples kind, color and place, and again until something fits. The result is a sample of the
        descriptions that fit, with their probabilities.
        """
        weights = PLACE_WEIGHTS if self.locations else (1, 0, 0, 0, 0)
        weight = jnp.where(fits, np.array(weights, np.int32), 0).reshape(-1)
        up_to = jnp.cumsum(weight, dtype=jnp.int32)
        number = jnp.sum(up_to <= between(key, 0, up_to[-1]), dtype=jnp.int32)
        kind, color, place = jnp.unravel_index(number, fits.shape)
        return descriptor(kind + FIRST_KIND, color, place), up_to[-1] > 0


def _names_key(instruction: Instruction, color: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether an instruction describes something as a key of this color."""
    kinds, colors = instruction.clauses[..., 2::3], instruction.clauses[..., 3::3]
    return jnp.any((kinds == OBJECTS.index("key")) & (colors == color.astype(colors.dtype)))


def _rooms_with_walls(columns: int, rows: int) -> Int[np.ndarray, "n 3"]:
    """All (column, row, side) where a wall separates the room from another one."""
    ways = ((1, 0), (0, 1), (-1, 0), (0, -1))
    return np.array(
        [
            (column, row, side)
            for column in range(columns)
            for row in range(rows)
            for side, (dx, dy) in enumerate(ways)
            if 0 <= column + dx < columns and 0 <= row + dy < rows
        ],
        np.int32,
    )


def _check_names(field: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names or len({*names}) < len(names):
        wrong = f"{unknown[0]!r} is unknown" if unknown else "a name is there twice" if names else "it is empty"
        raise ValueError(f"{field}={names!r}: {wrong}. Choose among: {', '.join(known)}.")
