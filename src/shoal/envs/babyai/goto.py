"""Go to a thing or a door, in one room or in a maze.

Source: MiniGrid 3.2.0 `envs/babyai/goto.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import (
    Maze,
    NineRooms,
    OneRoom,
    check_count,
    check_room_size,
    check_several_rooms,
    most_within_reach,
)
from shoal.envs.babyai.instruction import GO_TO, Grammar, go_to, one
from shoal.envs.babyai.kit import (
    all_reachable,
    finished,
    looks,
    one_of,
    random_doors,
    with_agent_anywhere,
    with_agent_outside,
    with_distractors,
    with_distractors_in_each_room,
    with_doors_around,
    with_locked_room,
    with_open_doors,
)
from shoal.envs.babyai.level import Layout
from shoal.grid.cells import COLORS, cell, with_color

RED_BALL, BLUE_BALL = cell("ball", "red"), cell("ball", "blue")
GREY = COLORS.index("grey")


@struct
class GoToInRoom(OneRoom):
    """The base class of the levels whose task is to go to a thing in the agent's room."""

    can_reject: ClassVar[bool] = True

    num_dists: int = static(7, help="number of distractors")

    @property
    def grammar(self) -> Grammar:
        """One thing to go to."""
        return Grammar(verbs=(GO_TO,))

    def check_distractors(self, fewest: int, others: int) -> None:
        """Raise ValueError if the distractors and `others` more things do not fit into the room beside the agent."""
        most = most_within_reach(self.room_size) - others
        check_count("num_dists", self.num_dists, fewest, most, f"with room_size={self.room_size}")


@env("BabyAI-GoToRedBallGrey-v0", grey=True)
@env("BabyAI-GoToRedBall-v0")
@env("BabyAI-GoToRedBallNoDists-v0", num_dists=0)
@struct
class GoToRedBall(GoToInRoom):
    """Go to the red ball, or to a red ball, in a room with distractors.

    Start: agent, red ball and `num_dists` things of random kinds and colors are in random cells of the room; the agent
    can go beside each of them. With `grey` the distractors are painted grey.
    End: terminated when a red ball is in front of the agent. Time limit: room_size^2 steps. The rest: see `BabyLevel`.
    """

    grey: bool = static(False, choices=(False, True), help="whether the distractors are grey")

    def __post_init__(self) -> None:
        self.check_distractors(fewest=0, others=1)

    def layout(self, key: Key) -> Layout:
        """Sample agent, ball and distractors."""
        k_plan, k_agent, k_ball, k_distractors = jax.random.split(key, 4)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True))
        plan = plan.with_thing(k_ball, (0, 0), RED_BALL)
        before = plan.grid
        plan, _ = with_distractors(k_distractors, plan, self.num_dists)
        if self.grey:
            painted = jnp.asarray(with_color(plan.grid & 0xF, GREY))
            plan = plan.replace(grid=jnp.where(plan.grid != before, painted, plan.grid))
        return finished(plan.provided(all_reachable(plan)), one(go_to(looks(jnp.asarray(RED_BALL)))))


@env("BabyAI-GoToObj-v0")
@env("BabyAI-GoToObjS4-v0", room_size=4)
@env("BabyAI-GoToObjS6-v1", room_size=6)
@struct
class GoToObj(OneRoom):
    """Go to the only thing in a room.

    Start: the agent and a key, ball or box of a random color are in random cells.
    End: terminated when the thing is in front of the agent. Time limit: room_size^2 steps. The rest: see `BabyLevel`.
    """

    @property
    def grammar(self) -> Grammar:
        """One thing to go to."""
        return Grammar(verbs=(GO_TO,))

    def layout(self, key: Key) -> Layout:
        """Sample agent and thing."""
        k_plan, k_agent, k_thing = jax.random.split(key, 3)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True))
        plan, things = with_distractors(k_thing, plan, 1)
        return finished(plan, one(go_to(looks(things[0]))))


@env("BabyAI-GoToLocal-v0")
@env("BabyAI-GoToLocalS5N2-v0", room_size=5, num_dists=2)
@env("BabyAI-GoToLocalS6N2-v0", room_size=6, num_dists=2)
@env("BabyAI-GoToLocalS6N3-v0", room_size=6, num_dists=3)
@env("BabyAI-GoToLocalS6N4-v0", room_size=6, num_dists=4)
@env("BabyAI-GoToLocalS7N4-v0", room_size=7, num_dists=4)
@env("BabyAI-GoToLocalS7N5-v0", room_size=7, num_dists=5)
@env("BabyAI-GoToLocalS8N2-v0", num_dists=2)
@env("BabyAI-GoToLocalS8N3-v0", num_dists=3)
@env("BabyAI-GoToLocalS8N4-v0", num_dists=4)
@env("BabyAI-GoToLocalS8N5-v0", num_dists=5)
@env("BabyAI-GoToLocalS8N6-v0", num_dists=6)
@env("BabyAI-GoToLocalS8N7-v0", num_dists=7)
@struct
class GoToLocal(GoToInRoom):
    """Go to one of several things in a room.

    Start: agent and `num_dists` things of random kinds and colors are in random cells; the agent can go beside each of
    them. The mission names one of them, and "a" instead of "the" if another looks the same.
    End: terminated when such a thing is in front of the agent. Time limit: room_size^2 steps. The rest: see
    `BabyLevel`.
    """

    num_dists: int = static(8, help="number of things: at least 1")

    def __post_init__(self) -> None:
        self.check_distractors(fewest=1, others=0)

    def layout(self, key: Key) -> Layout:
        """Sample agent, things and target."""
        k_plan, k_agent, k_things, k_target = jax.random.split(key, 4)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True))
        plan, things = with_distractors(k_things, plan, self.num_dists)
        return finished(plan.provided(all_reachable(plan)), one(go_to(looks(one_of(k_target, things)))))


@env("BabyAI-GoToRedBlueBall-v0")
@struct
class GoToRedBlueBall(GoToInRoom):
    """Go to the only red or blue ball in a room.

    Start: the agent, a red or blue ball and `num_dists` things, among them no red and no blue ball, are in random
    cells; the agent can go beside each of them.
    End: terminated when the ball is in front of the agent. Time limit: room_size^2 steps. The rest: see `BabyLevel`.
    """

    def __post_init__(self) -> None:
        self.check_distractors(fewest=0, others=1)

    def layout(self, key: Key) -> Layout:
        """Sample agent, distractors and ball."""
        k_plan, k_agent, k_distractors, k_color, k_ball = jax.random.split(key, 5)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True))
        plan, things = with_distractors(k_distractors, plan, self.num_dists)
        ball = jnp.where(jax.random.bernoulli(k_color, 0.5), RED_BALL, BLUE_BALL)
        plan = plan.provided(~jnp.any((things == RED_BALL) | (things == BLUE_BALL))).with_thing(k_ball, (0, 0), ball)
        return finished(plan.provided(all_reachable(plan)), one(go_to(looks(ball))))


@env("BabyAI-GoTo-v0")
@env("BabyAI-GoToOpen-v0", doors_open=True)
@env("BabyAI-GoToObjMaze-v0", num_dists=1)
@env("BabyAI-GoToObjMazeOpen-v0", num_dists=1, doors_open=True)
@env("BabyAI-GoToObjMazeS4R2-v0", num_dists=1, room_size=4, num_rows=2, num_cols=2)
@env("BabyAI-GoToObjMazeS4-v0", num_dists=1, room_size=4)
@env("BabyAI-GoToObjMazeS5-v0", num_dists=1, room_size=5)
@env("BabyAI-GoToObjMazeS6-v0", num_dists=1, room_size=6)
@env("BabyAI-GoToObjMazeS7-v0", num_dists=1, room_size=7)
@struct
class GoTo(Maze):
    """Go to one of several things in a maze of rooms.

    Start: closed doors, or with `doors_open` open ones, connect all rooms. Agent and `num_dists` things are in random
    rooms; the agent can go beside each thing and each door without moving anything.
    End: terminated when a thing that looks as the mission says is in front of the agent. Time limit: room_size^2
    num_rows num_cols steps. The rest: see `BabyLevel`.
    """

    can_reject: ClassVar[bool] = True

    num_dists: int = static(18, help="number of things: at least 1")
    doors_open: bool = static(False, choices=(False, True), help="whether all doors are open at the start")

    def __post_init__(self) -> None:
        check_count("num_dists", self.num_dists, 1, self.most_around_agent, f"in rooms of room_size={self.room_size}")

    @property
    def grammar(self) -> Grammar:
        """One thing to go to."""
        return Grammar(verbs=(GO_TO,))

    def layout(self, key: Key) -> Layout:
        """Sample agent, doors, things and target."""
        k_plan, k_agent, k_doors, k_things, k_target = jax.random.split(key, 5)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True)).connected(k_doors)
        plan, things = with_distractors(k_things, plan, self.num_dists)
        plan = plan.provided(all_reachable(plan))
        target = one_of(k_target, things)
        return finished(with_open_doors(plan) if self.doors_open else plan, one(go_to(looks(target))))


@env("BabyAI-GoToImpUnlock-v0")
@struct
class GoToImpUnlock(Maze):
    """Go to a thing in a locked room, which the mission does not mention: find its key first.

    Start: a random room is locked, and closed doors connect all other rooms. The key of the locked door is in a random
    room. Each room has two distractors, and the locked room a third one, which the mission names. The agent is in
    another room, and can go beside each door and each thing but the third one; locked doors count as open.
    End: terminated when a thing that looks as the mission says is in front of the agent. Time limit: room_size^2
    num_rows num_cols steps. The rest: see `BabyLevel`.

    As in MiniGrid, which compares integers by identity here, the key may lie in the locked room, and the locked room
    has distractors too: 2 % of the levels of 3 x 3 rooms have no solution.
    """

    can_reject: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_several_rooms(self.num_cols, self.num_rows)
        check_room_size(self.room_size, 5)

    @property
    def grammar(self) -> Grammar:
        """One thing to go to."""
        return Grammar(verbs=(GO_TO,))

    def layout(self, key: Key) -> Layout:
        """Sample locked room, key, doors, distractors, agent and target."""
        k_plan, k_room, k_doors, k_things, k_agent, k_target = jax.random.split(key, 6)
        plan, room, _ = with_locked_room(k_room, self.rooms.plan(k_plan, may_fail=True))
        plan = with_distractors_in_each_room(k_things, plan.connected(k_doors), 2)
        plan = with_agent_outside(k_agent, plan, room)
        plan = plan.provided(all_reachable(plan))
        plan, things = with_distractors(k_target, plan, 1, room)
        return finished(plan, one(go_to(looks(things[0]))))


@env("BabyAI-GoToDoor-v0")
@struct
class GoToDoor(NineRooms):
    """Go to one of the four doors of the agent's room, the middle one of nine.

    Start: the doors have random colors and are locked with probability 1/2 each. All other rooms are closed.
    End: terminated when a door of the color that the mission names is in front of the agent. Time limit: 9
    room_size^2 steps. The rest: see `BabyLevel`.
    """

    room_size: int = static(7, help="side of a room in cells, walls included: at least 4")

    @property
    def grammar(self) -> Grammar:
        """One door to go to."""
        return Grammar(verbs=(GO_TO,))

    def layout(self, key: Key) -> Layout:
        """Sample doors, agent and target."""
        k_plan, k_doors, k_agent, k_target = jax.random.split(key, 4)
        doors = random_doors(k_doors, 4)
        plan = with_doors_around(self.rooms.plan(k_plan, may_fail=True), self.middle, doors)
        return finished(plan.with_agent(k_agent, self.middle), one(go_to(looks(one_of(k_target, doors)))))


@env("BabyAI-GoToObjDoor-v0")
@struct
class GoToObjDoor(NineRooms):
    """Go to a thing or a door in the agent's room, the middle one of nine.

    Start: agent and eight things are in random cells; the four doors have random colors and are locked with probability
    1/2 each. The agent can go beside each thing and each door. All other rooms are closed.
    End: terminated when what the mission names is in front of the agent. Time limit: 9 room_size^2 steps. The rest:
    see `BabyLevel`.
    """

    can_reject: ClassVar[bool] = True
    num_dists: ClassVar[int] = 8

    def __post_init__(self) -> None:
        check_room_size(self.room_size, 7)  # in smaller rooms the things nearly always block one another

    @property
    def grammar(self) -> Grammar:
        """One thing or door to go to."""
        return Grammar(verbs=(GO_TO,))

    def layout(self, key: Key) -> Layout:
        """Sample agent, things, doors and target."""
        k_plan, k_agent, k_things, k_doors, k_target = jax.random.split(key, 5)
        plan = self.rooms.plan(k_plan, may_fail=True).with_agent(k_agent, self.middle)
        plan, things = with_distractors(k_things, plan, self.num_dists, self.middle)
        doors = random_doors(k_doors, 4)
        plan = with_doors_around(plan, self.middle, doors)
        target = one_of(k_target, jnp.concatenate([things, doors]))
        return finished(plan.provided(all_reachable(plan)), one(go_to(looks(target))))
