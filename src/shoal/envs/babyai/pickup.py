"""Pick up a thing, in a room or in a maze.

Source: MiniGrid 3.2.0 `envs/babyai/pickup.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import AROUND_CORNER, Maze, NineRooms, OneRoom, check_count, check_room_size
from shoal.envs.babyai.instruction import ANY_COLOR, PICK_UP, Grammar, descriptor, one, pick_up
from shoal.envs.babyai.kit import (
    all_reachable,
    different_things,
    doors_of,
    finished,
    looks,
    one_of,
    random_things,
    with_agent_anywhere,
    with_distractors,
    with_things,
)
from shoal.envs.babyai.level import Layout
from shoal.grid.cells import color_of, object_of
from shoal.grid.layout import between, random_color
from shoal.grid.rooms import ABOVE


@env("BabyAI-Pickup-v0")
@env("BabyAI-UnblockPickup-v0", num_dists=20, unblock=True)
@struct
class Pickup(Maze):
    """Pick up one of several things in a maze of rooms.

    Start: closed doors connect all rooms. Agent and `num_dists` things are in random rooms. The agent can go beside
    each thing and each door without moving anything; with `unblock`, there is at least one that it cannot reach so.
    End: terminated when the agent picks up a thing that looks as the mission says. Time limit: room_size^2 num_rows
    num_cols steps. The rest: see `BabyLevel`.
    """

    can_reject: ClassVar[bool] = True

    num_dists: int = static(18, help="number of things: at least 1")
    unblock: bool = static(False, choices=(False, True), help="whether some door or thing is blocked by things")

    def __post_init__(self) -> None:
        rooms = self.num_rows * self.num_cols
        most = rooms * (self.room_size - 2) ** 2 - AROUND_CORNER if self.unblock else self.most_around_agent
        fewest = 3 if self.unblock and rooms == 1 else 1  # two things in front of one in a corner
        check_count("num_dists", self.num_dists, fewest, most, f"in rooms of room_size={self.room_size}")

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    def layout(self, key: Key) -> Layout:
        """Sample agent, doors, things and target."""
        k_plan, k_agent, k_doors, k_things, k_target = jax.random.split(key, 5)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True)).connected(k_doors)
        plan, things = with_distractors(k_things, plan, self.num_dists)
        plan = plan.provided(all_reachable(plan) ^ self.unblock)
        return finished(plan, one(pick_up(looks(one_of(k_target, things)))))


@env("BabyAI-PickupDist-v0")
@env("BabyAI-PickupDistDebug-v0", debug=True)
@struct
class PickupDist(OneRoom):
    """Pick up one of five different things in a room, which the mission names by its kind, its color or both.

    Start: things and agent are in random cells; no thing is next to the middle of the room.
    End: terminated when the agent picks up such a thing; with `debug` also, without a reward, when it picks up another
    one. Time limit: room_size^2 steps. The rest: see `BabyLevel`.

    As in MiniGrid, "a grey object" is said where "the grey object" would do, because the walls are grey objects, too.
    """

    num_dists: ClassVar[int] = 5

    room_size: int = static(7, help="side of the room in cells, walls included: at least 6")
    debug: bool = static(False, choices=(False, True), help="whether picking up another thing ends the episode")

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 6)

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    def layout(self, key: Key) -> Layout:
        """Sample things, agent, target and description."""
        k_plan, k_things, k_places, k_agent, k_target, k_which = jax.random.split(key, 6)
        things = different_things(k_things, self.num_dists)
        plan = with_things(k_places, self.rooms.plan(k_plan, may_fail=True), (0, 0), things).with_agent(k_agent, (0, 0))
        target = one_of(k_target, things)
        which = between(k_which, 0, 3)  # by kind, by color, by both
        kind, color = object_of(target).astype(jnp.int32), color_of(target).astype(jnp.int32)
        description = descriptor(jnp.where(which == 1, 0, kind), jnp.where(which == 0, ANY_COLOR, color))
        return finished(plan, one(pick_up(description, strict=self.debug)))


@env("BabyAI-PickupAbove-v0")
@struct
class PickupAbove(NineRooms):
    """Pick up the thing in the room above.

    Start: the agent is in the middle room of nine, which has a closed door to the room above. Closed doors connect all
    other rooms, too.
    End: terminated when the agent picks up the thing. Time limit: 8 room_size^2 steps. The rest: see `BabyLevel`.
    """

    room_size: int = static(6, help="side of a room in cells, walls included: at least 4")

    @property
    def grammar(self) -> Grammar:
        """One thing to pick up."""
        return Grammar(verbs=(PICK_UP,))

    @property
    def time_limit(self) -> int:
        """8 room_size^2 steps."""
        return 8 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample thing, door, agent and other doors."""
        k_plan, k_thing, k_place, k_color, k_agent, k_doors = jax.random.split(key, 6)
        thing = random_things(k_thing)
        plan = self.rooms.plan(k_plan, may_fail=True).with_thing(k_place, (1, 0), thing)
        plan = plan.with_door(self.middle, ABOVE, doors_of(random_color(k_color)))
        return finished(plan.with_agent(k_agent, self.middle).connected(k_doors), one(pick_up(looks(thing))))
