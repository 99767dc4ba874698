"""Levels with other recipes: a thing or a door, a thing in any room, a corridor, a ball.

Source: MiniGrid 3.2.0 `envs/babyai/other.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import NineRooms, OneRoom, check_room_size
from shoal.envs.babyai.instruction import GO_TO, OPEN, PICK_UP, Grammar, descriptor, go_to, one, open_door, pick_up
from shoal.envs.babyai.kit import (
    different_things,
    doors_of,
    finished,
    looks,
    one_of,
    random_rooms,
    random_things,
    with_doors_around,
    with_things,
)
from shoal.envs.babyai.level import BabyLevel, Layout
from shoal.envs.minigrid.key_corridor import corridor
from shoal.grid.cells import BALL, OBJECTS, is_a, object_of, with_color
from shoal.grid.layout import random_color
from shoal.grid.rooms import Rooms

ANY_BALL = OBJECTS.index("ball")


@env("BabyAI-ActionObjDoor-v0")
@struct
class ActionObjDoor(NineRooms):
    """Go to a thing or pick it up, or go to a door or open it, in the middle room of nine.

    Start: the agent's room has five things, no two alike, and a closed door of a random color in each wall. Each of the
    nine is the target with the same probability, and each of its two actions, too. All other rooms are closed.
    End: terminated when the mission is complete. Time limit: 9 room_size^2 steps. The rest: see `BabyLevel`.
    """

    num_dists: ClassVar[int] = 5

    room_size: int = static(7, help="side of a room in cells, walls included: at least 6")

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 6)

    @property
    def grammar(self) -> Grammar:
        """One thing or door to go to, to pick up or to open."""
        return Grammar(verbs=(GO_TO, PICK_UP, OPEN))

    def layout(self, key: Key) -> Layout:
        """Sample things, doors, agent, target and action."""
        k_plan, k_things, k_places, k_doors, k_agent, k_target, k_action = jax.random.split(key, 7)
        things, doors = different_things(k_things, self.num_dists), doors_of(random_color(k_doors, (4,)))
        plan = with_things(k_places, self.rooms.plan(k_plan, may_fail=True), self.middle, things)
        plan = with_doors_around(plan, self.middle, doors).with_agent(k_agent, self.middle)
        target = one_of(k_target, jnp.concatenate([things, doors]))
        handled = jnp.where(is_a(target, "door"), open_door(looks(target)), pick_up(looks(target)))
        is_goal = jax.random.bernoulli(k_action, 0.5)
        return finished(plan, one(jnp.where(is_goal, go_to(looks(target)), handled)))


@env("BabyAI-FindObjS5-v0")
@env("BabyAI-FindObjS6-v0", room_size=6)
@env("BabyAI-FindObjS7-v0", room_size=7)
@struct
class FindObj(NineRooms):
    """Find the only thing in nine rooms, and pick it up.

    Start: the agent is in the middle room, and the thing in a random one. Closed doors connect all rooms.
    End: terminated when the agent picks up the thing. Time limit: 20 room_size^2 steps. The rest: see `BabyLevel`.
    """

    room_size: int = static(5, help="side of a room in cells, walls included: at least 4")

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    @property
    def time_limit(self) -> int:
        """20 room_size^2 steps."""
        return 20 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample thing, agent and doors."""
        k_plan, k_thing, k_room, k_place, k_agent, k_doors = jax.random.split(key, 6)
        plan, thing = self.rooms.plan(k_plan, may_fail=True), random_things(k_thing)
        plan = plan.with_thing(k_place, random_rooms(k_room, plan), thing)
        plan = plan.with_agent(k_agent, self.middle).connected(k_doors)
        return finished(plan, one(pick_up(descriptor(object_of(thing)))))


@env("BabyAI-KeyCorridor-v0")
@env("BabyAI-KeyCorridorS3R1-v0", room_size=3, num_rows=1)
@env("BabyAI-KeyCorridorS3R2-v0", room_size=3, num_rows=2)
@env("BabyAI-KeyCorridorS3R3-v0", room_size=3)
@env("BabyAI-KeyCorridorS4R3-v0", room_size=4)
@env("BabyAI-KeyCorridorS5R3-v0", room_size=5)
@env("BabyAI-KeyCorridorS6R3-v0")
@struct
class KeyCorridor(BabyLevel):
    """Fetch the key from a room left of the corridor, and pick up the ball in the locked room right of it.

    Start: as in MiniGrid-KeyCorridor. The agent is in the middle of the corridor; random doors make every other room
    reachable.
    End: terminated when the agent picks up the ball. Time limit: 30 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 128

    room_size: int = static(6, help="side of a room in cells, walls included: at least 3")
    num_rows: int = static(3, help="number of rooms on each side of the corridor: at least 1")

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 3)
        if self.num_rows < 1:
            raise ValueError(f"num_rows={self.num_rows} leaves no room for key and ball: at least 1.")

    @property
    def rooms(self) -> Rooms:
        """A column of rooms for the corridor, and one on each side of it."""
        return Rooms(columns=3, rows=self.num_rows, size=self.room_size)

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    @property
    def time_limit(self) -> int:
        """30 room_size^2 steps."""
        return 30 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample locked door, ball, key, agent and other doors."""
        plan, _ = corridor(key, self.rooms, BALL)
        return finished(plan, one(pick_up(descriptor(ANY_BALL))))


@env("BabyAI-OneRoomS8-v0")
@env("BabyAI-OneRoomS12-v0", room_size=12)
@env("BabyAI-OneRoomS16-v0", room_size=16)
@env("BabyAI-OneRoomS20-v0", room_size=20)
@struct
class PickupBall(OneRoom):
    """Pick up the ball, the only thing in a room.

    Start: ball and agent are in random cells; the ball is not next to the middle of the room.
    End: terminated when the agent picks up the ball. Time limit: room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 48

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    def layout(self, key: Key) -> Layout:
        """Sample ball and agent."""
        k_plan, k_color, k_ball, k_agent = jax.random.split(key, 4)
        plan = self.rooms.plan(k_plan, may_fail=True)
        plan = plan.with_thing(k_ball, (0, 0), with_color(BALL, random_color(k_color))).with_agent(k_agent, (0, 0))
        return finished(plan, one(pick_up(descriptor(ANY_BALL))))
