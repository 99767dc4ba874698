"""Functions of the generators of BabyAI's levels: distractors, the agent's place, doors, and whole-level rejection.

A generator makes one attempt at a level: a plan to which it adds, in the reference's order, and an instruction. Where
something finds no place, or a check of the level fails, the attempt is rejected as a whole: see `attempts.py`. Source:
MiniGrid 3.2.0, `envs/babyai/core/roomgrid_level.py` and `core/roomgrid.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, UInt16

from shoal.core.keys import Key
from shoal.envs.babyai.instruction import Instruction, descriptor, is_possible, matches
from shoal.envs.babyai.level import Layout
from shoal.envs.minigrid.things import MOST_THINGS, THINGS
from shoal.grid.cells import (
    CLOSED,
    COLORS,
    DOOR,
    KEY,
    LOCKED,
    STATE_BITS,
    STATE_SHIFT,
    color_of,
    is_a,
    object_of,
    with_color,
    with_state,
)
from shoal.grid.layout import between, distinct, random_color
from shoal.grid.reach import everything_is_touched
from shoal.grid.rooms import Index, Plan
from shoal.ops.loops import short_scan

Room = tuple[Index, Index]
Several = Int[Array, "n"] | Int[np.ndarray, "n"]


def finished(plan: Plan, instruction: Instruction) -> Layout:
    """The attempt at a level that a plan and an instruction make."""
    return Layout(
        grid=plan.grid,
        x=plan.x,
        y=plan.y,
        direction=plan.direction,
        instruction=instruction,
        is_accepted=plan.is_possible,
    )


def looks(thing: UInt16[Array, ""]) -> Int8[Array, "3"]:
    """The descriptor of all things of the kind and color of this one."""
    return descriptor(object_of(thing), color_of(thing))


def one_of(key: Key, things: Array) -> Array:
    """One element of the first axis, all with the same probability. `key` is consumed."""
    return things[jax.random.randint(key, (), 0, things.shape[0])]


# Things.


def random_things(key: Key, shape: tuple[int, ...] = ()) -> UInt16[Array, "*shape"]:
    """Keys, balls and boxes: kind and color uniform. `key` is consumed."""
    return thing_of(jax.random.randint(key, shape, 0, MOST_THINGS))


def different_colors(key: Key, count: int) -> Int[Array, "{count}"]:
    """Different colors, indices of `COLORS`, in random order. `key` is consumed."""
    return distinct(key, count, len(COLORS))


def different_things(key: Key, count: int, *besides: UInt16[Array, ""]) -> UInt16[Array, "{count}"]:
    """Keys, balls and boxes, no two of them alike, and none like one of those `besides`. `key` is consumed."""
    order = distinct(key, MOST_THINGS, MOST_THINGS)
    is_free = jnp.ones((MOST_THINGS,), bool)
    for thing in besides:
        is_free = is_free & (thing_of(order) != thing)
    rank = jnp.where(is_free, jnp.cumsum(is_free, dtype=jnp.int32) - 1, -1)
    chosen = rank[None, :] == np.arange(count, dtype=np.int32)[:, None]
    return thing_of(jnp.sum(jnp.where(chosen, order[None, :], 0), axis=1, dtype=jnp.int32))


def thing_of(number: Int[Array, "*n"]) -> UInt16[Array, "*n"]:
    """The thing with a number from 0 to 17: key, ball or box, and for each kind the six colors."""
    kind = THINGS[0] + (number // len(COLORS)).astype(jnp.uint16)  # key, ball and box have consecutive numbers
    return jnp.asarray(with_color(kind, number % len(COLORS)))


def with_things(key: Key, plan: Plan, rooms: Room | tuple[Several, Several], things: UInt16[Array, "n"]) -> Plan:
    """Put things into random cells of rooms: of one room, or of one for each thing. `key` is consumed."""
    columns, rows = (jnp.broadcast_to(jnp.asarray(index, jnp.int32), things.shape) for index in rooms)

    def with_next(plan: Plan, x: tuple[Key, Array, Array, Array]) -> tuple[Plan, None]:
        key, thing, column, row = x
        return plan.with_thing(key, (column, row), thing), None

    return short_scan(with_next, plan, (jax.random.split(key, things.shape[0]), things, columns, rows))[0]


def with_distractors(
    key: Key, plan: Plan, count: int, room: Room | None = None
) -> tuple[Plan, UInt16[Array, "{count}"]]:
    """Add `count` things of random kinds and colors, in one room or in random rooms. `key` is consumed."""
    k_things, k_rooms, k_places = jax.random.split(key, 3)
    things = random_things(k_things, (count,))
    return with_things(k_places, plan, room or random_rooms(k_rooms, plan, (count,)), things), things


def with_distractors_in_each_room(key: Key, plan: Plan, count: int) -> Plan:
    """Add `count` things of random kinds and colors in every room. `key` is consumed."""
    k_things, k_places = jax.random.split(key)
    columns, rows = np.indices((plan.rooms.columns, plan.rooms.rows), np.int32).reshape(2, -1).repeat(count, axis=1)
    return with_things(k_places, plan, (columns, rows), random_things(k_things, columns.shape))


# Rooms and the agent.


def random_rooms(key: Key, plan: Plan, shape: tuple[int, ...] = ()) -> tuple[Int[Array, "*n"], Int[Array, "*n"]]:
    """Columns and rows of random rooms. `key` is consumed."""
    number = jax.random.randint(key, shape, 0, plan.rooms.columns * plan.rooms.rows)
    return number // plan.rooms.rows, number % plan.rooms.rows


def random_room_but(key: Key, plan: Plan, room: Room) -> Room:
    """A random room other than `room`. `key` is consumed."""
    rows = plan.rooms.rows
    number = jax.random.randint(key, (), 0, plan.rooms.columns * rows - 1)
    number = number + (number >= room[0] * rows + room[1]).astype(jnp.int32)
    return number // rows, number % rows


def with_agent_anywhere(key: Key, plan: Plan) -> Plan:
    """Put the agent into a random room; in the room all places have the same probability. `key` is consumed."""
    k_room, k_place = jax.random.split(key)
    return plan.with_agent(k_place, random_rooms(k_room, plan))


def with_agent_outside(key: Key, plan: Plan, room: Room) -> Plan:
    """Put the agent into a random room other than `room`, which may be outside the plan. `key` is consumed.

    The reference samples rooms until one is suitable. An attempt fails if it comes to a room without a place for the
    agent, `room` included.
    """
    k_first, k_other, k_place = jax.random.split(key, 3)
    first, other = random_rooms(k_first, plan), random_room_but(k_other, plan, room)
    is_same = (first[0] == room[0]) & (first[1] == room[1])
    columns, rows = (jnp.stack(pair) for pair in zip(first, other, strict=True))
    poses = jax.vmap(lambda column, row: plan.poses((column, row)))(columns, rows)
    plan = plan.provided(~is_same | jnp.any(poses[0]))
    which = is_same.astype(jnp.int32)
    return plan.with_agent(k_place, (columns[which], rows[which]), poses[which])


# Doors.


def doors_of(colors: Int[Array, "*n"], is_locked: Bool[Array, "*n"] | bool = False) -> UInt16[Array, "*n"]:
    """Doors of these colors, closed or locked."""
    return jnp.asarray(with_state(with_color(DOOR, colors), jnp.where(is_locked, LOCKED, CLOSED)))


def random_doors(key: Key, count: int) -> UInt16[Array, "{count}"]:
    """Doors of random colors, each locked with probability 1/2. `key` is consumed."""
    k_colors, k_locks = jax.random.split(key)
    return doors_of(random_color(k_colors, (count,)), jax.random.bernoulli(k_locks, 0.5, (count,)))


def with_doors_around(plan: Plan, room: tuple[int, int], doors: UInt16[Array, "4"]) -> Plan:
    """Add a door in each of the four walls of a room, in the order right, below, left, above."""
    for side in range(4):
        plan = plan.with_door(room, side, doors[side])
    return plan


def random_side(key: Key, plan: Plan, room: Room) -> Int[Array, ""]:
    """A random wall of a room behind which there is another room. `key` is consumed."""
    column, row = (jnp.asarray(index) for index in room)
    has_neighbor = jnp.stack([column < plan.rooms.columns - 1, row < plan.rooms.rows - 1, column > 0, row > 0])
    which = between(key, 0, jnp.sum(has_neighbor, dtype=jnp.int32))
    return jnp.argmax(jnp.cumsum(has_neighbor, dtype=jnp.int32) > which).astype(jnp.int32)


def with_locked_room(key: Key, plan: Plan) -> tuple[Plan, Room, Int[Array, ""]]:
    """Lock a random room, and put its key into any room: (plan, the room, the color). `key` is consumed.

    The room is uniform, then the wall of its door. The key may lie in the locked room: the reference compares NumPy
    integers by identity, and never finds the two rooms equal.
    """
    k_room, k_side, k_color, k_key_room, k_key = jax.random.split(key, 5)
    room, color = random_rooms(k_room, plan), random_color(k_color)
    plan = plan.with_door(room, random_side(k_side, plan, room), doors_of(color, True))
    return plan.with_thing(k_key, random_rooms(k_key_room, plan), with_color(KEY, color)), room, color


def with_open_doors(plan: Plan) -> Plan:
    """Open all doors."""
    return plan.replace(grid=jnp.where(is_a(plan.grid, "door"), plan.grid & ~(STATE_BITS << STATE_SHIFT), plan.grid))


def all_reachable(plan: Plan) -> Bool[Array, ""]:
    """Whether the agent can go beside all doors and things, without moving one; doors count as open."""
    return everything_is_touched(plan.grid, plan.x, plan.y)


def can_be_put(plan: Plan, instruction: Instruction) -> Bool[Array, ""]:
    """Whether no "put next to" of an instruction is fulfilled at the start, and none moves a thing next to itself."""
    where = matches(instruction, plan.grid, plan.x, plan.y, plan.direction, plan.rooms.size)
    return is_possible(where)
