"""Unlock a door, and what lies behind it.

Source: MiniGrid 3.2.0 `envs/babyai/unlock.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import Maze, NineRooms, TwoRooms, check_room_size, check_several_rooms
from shoal.envs.babyai.instruction import OPEN, PICK_UP, Grammar, descriptor, one, open_door, pick_up
from shoal.envs.babyai.kit import (
    all_reachable,
    different_colors,
    different_things,
    doors_of,
    finished,
    random_rooms,
    random_side,
    with_agent_outside,
    with_distractors_in_each_room,
    with_locked_room,
    with_things,
)
from shoal.envs.babyai.level import BabyLevel, Layout
from shoal.grid.cells import BALL, BOX, COLORS, KEY, OBJECTS, with_color, with_content
from shoal.grid.layout import random_color
from shoal.grid.rooms import RIGHT, Rooms

ANY_DOOR = OBJECTS.index("door")
ANY_BOX, ANY_BALL = OBJECTS.index("box"), OBJECTS.index("ball")


@env("BabyAI-Unlock-v0")
@struct
class Unlock(Maze):
    """Find the key of a locked room in a maze, and unlock its door.

    Start: a random room is locked, and closed doors connect all other rooms; with probability 1/2 none of them has the
    color of the locked door. The key is in a random room. Each room has three distractors. The agent is in another room
    than the locked one, and can go beside each door and each thing; locked doors count as open.
    End: terminated when a door of the color that the mission names opens. Time limit: room_size^2 num_rows num_cols
    steps. The rest: see `BabyLevel`.

    As in MiniGrid, which compares integers by identity here, the key may lie in the locked room, and the locked room
    has distractors too: 2 % of the levels of 3 x 3 rooms have no solution.
    """

    can_reject: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_several_rooms(self.num_cols, self.num_rows)
        check_room_size(self.room_size, 6)  # in smaller rooms three distractors nearly always block something

    @property
    def grammar(self) -> Grammar:
        """One door to open."""
        return Grammar(verbs=(OPEN,))

    def layout(self, key: Key) -> Layout:
        """Sample locked room, key, doors, distractors and agent."""
        k_plan, k_room, k_colors, k_doors, k_things, k_agent = jax.random.split(key, 6)
        plan, room, color = with_locked_room(k_room, self.rooms.plan(k_plan, may_fail=True))
        plan = plan.connected(k_doors, self.door_colors(k_colors, color))
        plan = with_agent_outside(k_agent, with_distractors_in_each_room(k_things, plan, 3), room)
        plan = plan.provided(all_reachable(plan))
        return finished(plan, one(open_door(descriptor(ANY_DOOR, color))))

    def door_colors(self, key: Key, locked: Int[Array, ""]) -> Int[Array, "2 C R"]:
        """Colors of the other doors: of all six or, with probability 1/2, of the other five. `key` is consumed."""
        k_which, k_any, k_other = jax.random.split(key, 3)
        shape = self.rooms.inner_walls.shape
        others = (locked + jax.random.randint(k_other, shape, 1, len(COLORS))) % len(COLORS)
        return jnp.where(jax.random.bernoulli(k_which, 0.5), random_color(k_any, shape), others)


@env("BabyAI-UnlockLocal-v0")
@env("BabyAI-UnlockLocalDist-v0", distractors=True)
@struct
class UnlockLocal(NineRooms):
    """Unlock the only door of the agent's room with the key, which lies in the room.

    Start: the agent is in the middle room of nine; a random wall has the locked door. With `distractors` three more
    things are in the room, no two alike and none like the key. All other rooms are closed.
    End: terminated when the door opens. Time limit: 9 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 128

    distractors: bool = static(False, choices=(False, True), help="whether three more things are in the room")

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 5 if self.distractors else 4)

    @property
    def grammar(self) -> Grammar:
        """One door to open."""
        return Grammar(verbs=(OPEN,))

    def layout(self, key: Key) -> Layout:
        """Sample door, key, distractors and agent."""
        k_plan, k_side, k_color, k_things, k_places, k_agent = jax.random.split(key, 6)
        plan, color = self.rooms.plan(k_plan, may_fail=True), random_color(k_color)
        plan = plan.with_door(self.middle, random_side(k_side, plan, self.middle), doors_of(color, True))
        door_key = jnp.asarray(with_color(KEY, color))
        others = different_things(k_things, 3 if self.distractors else 0, door_key)
        plan = with_things(k_places, plan, self.middle, jnp.append(door_key, others))
        return finished(plan.with_agent(k_agent, self.middle), one(open_door(descriptor(ANY_DOOR))))


@env("BabyAI-KeyInBox-v0")
@struct
class KeyInBox(NineRooms):
    """Unlock the only door of the agent's room with the key, which is in a box.

    Start: the agent is in the middle room of nine; a random wall has the locked door. The box has a random color, and
    is the only thing in the room. All other rooms are closed.
    End: terminated when the door opens. Time limit: 9 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 128

    @property
    def grammar(self) -> Grammar:
        """One door to open."""
        return Grammar(verbs=(OPEN,))

    def layout(self, key: Key) -> Layout:
        """Sample door, box and agent."""
        k_plan, k_side, k_colors, k_place, k_agent = jax.random.split(key, 5)
        plan = self.rooms.plan(k_plan, may_fail=True)
        door_color, box_color = random_color(k_colors, (2,))
        plan = plan.with_door(self.middle, random_side(k_side, plan, self.middle), doors_of(door_color, True))
        box = with_content(with_color(BOX, box_color), with_color(KEY, door_color))
        plan = plan.with_thing(k_place, self.middle, box).with_agent(k_agent, self.middle)
        return finished(plan, one(open_door(descriptor(ANY_DOOR))))


@env("BabyAI-UnlockPickup-v0")
@env("BabyAI-UnlockPickupDist-v0", distractors=True)
@struct
class UnlockPickup(TwoRooms):
    """Pick up the box in the right room, behind a locked door whose key is in the left room.

    Start: the agent is in the left room. With `distractors` four more things are in random rooms, no two alike, and
    none like the box or the key.
    End: terminated when the agent picks up the box. Time limit: 2 room_size^2 steps (72, not MiniGrid's 288: its test
    for a limit is always false). The rest: see `BabyLevel`.
    """

    distractors: bool = static(False, choices=(False, True), help="whether four more things are in the rooms")

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 6 if self.distractors else 4)  # all things may be in the right room

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    def layout(self, key: Key) -> Layout:
        """Sample box, door, key, distractors and agent."""
        k_plan, k_colors, k_box, k_key, k_things, k_rooms, k_places, k_agent = jax.random.split(key, 8)
        box_color, door_color = random_color(k_colors, (2,))
        box, door_key = jnp.asarray(with_color(BOX, box_color)), jnp.asarray(with_color(KEY, door_color))
        plan = self.rooms.plan(k_plan, may_fail=True).with_thing(k_box, (1, 0), box)
        plan = plan.with_door((0, 0), RIGHT, doors_of(door_color, True)).with_thing(k_key, (0, 0), door_key)
        if self.distractors:
            things = different_things(k_things, 4, box, door_key)
            plan = with_things(k_places, plan, random_rooms(k_rooms, plan, (4,)), things)
        return finished(plan.with_agent(k_agent, (0, 0)), one(pick_up(descriptor(ANY_BOX, box_color))))


@env("BabyAI-BlockedUnlockPickup-v0")
@struct
class BlockedUnlockPickup(TwoRooms):
    """Pick up the box in the right room, behind a locked door that a ball blocks. The key is in the left room.

    Start: the agent is in the left room.
    End: terminated when the agent picks up the box. Time limit: 16 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 128

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    @property
    def time_limit(self) -> int:
        """16 room_size^2 steps."""
        return 16 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample box, door, ball, key and agent."""
        k_plan, k_colors, k_box, k_key, k_agent = jax.random.split(key, 5)
        box_color, door_color, ball_color = random_color(k_colors, (3,))
        plan = self.rooms.plan(k_plan, may_fail=True).with_thing(k_box, (1, 0), with_color(BOX, box_color))
        plan = plan.with_door((0, 0), RIGHT, doors_of(door_color, True))
        plan = plan.with_obstacle((0, 0), RIGHT, with_color(BALL, ball_color))
        plan = plan.with_thing(k_key, (0, 0), with_color(KEY, door_color)).with_agent(k_agent, (0, 0))
        return finished(plan, one(pick_up(descriptor(ANY_BOX))))


@env("BabyAI-UnlockToUnlock-v0")
@struct
class UnlockToUnlock(BabyLevel):
    """Pick up the ball in the left one of three rooms in a row, after unlocking both doors.

    Start: the agent and the key of the right door are in the middle room; the key of the left door is in the right
    room. The doors have different colors.
    End: terminated when the agent picks up the ball. Time limit: 30 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 128

    room_size: int = static(6, help="side of a room in cells, walls included: at least 4")

    def __post_init__(self) -> None:
        check_room_size(self.room_size)

    @property
    def rooms(self) -> Rooms:
        """Three rooms in a row."""
        return Rooms(columns=3, rows=1, size=self.room_size)

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    @property
    def time_limit(self) -> int:
        """30 room_size^2 steps."""
        return 30 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample doors, keys, ball and agent."""
        k_plan, k_colors, k_left, k_right, k_color, k_ball, k_agent = jax.random.split(key, 7)
        left, right = different_colors(k_colors, 2)
        plan = self.rooms.plan(k_plan, may_fail=True).with_door((0, 0), RIGHT, doors_of(left, True))
        plan = plan.with_thing(k_left, (2, 0), with_color(KEY, left)).with_door((1, 0), RIGHT, doors_of(right, True))
        plan = plan.with_thing(k_right, (1, 0), with_color(KEY, right))
        plan = plan.with_thing(k_ball, (0, 0), with_color(BALL, random_color(k_color))).with_agent(k_agent, (1, 0))
        return finished(plan, one(pick_up(descriptor(ANY_BALL))))
