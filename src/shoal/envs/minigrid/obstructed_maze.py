"""ObstructedMaze: find the blue ball behind locked doors, with keys hidden in boxes and balls in front of doors.

Source: MiniGrid 3.2.0 `envs/obstructedmaze.py` and `envs/obstructedmaze_v1.py`, step for step.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.pick_up import PickUp, PickUpState
from shoal.grid.actions import heading
from shoal.grid.cells import COLORS, KEY, cell, with_color, with_content
from shoal.grid.layout import random_color
from shoal.grid.level import begin
from shoal.grid.rooms import RIGHT, Index, Plan, Rooms, closed_doors
from shoal.ops.loops import short_repeat

BLUE_BALL, OBSTACLE, GREY_BOX = cell("ball", "blue"), cell("ball", "green"), cell("box", "grey")
LOCKED_DOOR = cell("door", state="locked")
MIDDLE = (1, 1)
# The side rooms: to the right of the middle, below, to the left, above. Side i leads to corner i, among others.
SIDES = ((2, 1), (1, 2), (0, 1), (1, 0))
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


@struct
class Obstructed(PickUp):
    """Base class of the mazes: locks doors, hides keys, and sets the blue ball as target."""

    reset_every: ClassVar[int] = 128

    key_in_box: bool = static(True, choices=(False, True), help="whether keys are hidden in boxes")
    blocked: bool = static(True, choices=(False, True), help="whether a ball is in front of each locked door")

    def lock(self, plan: Plan, room: tuple[Index, Index], side: Index, color: Int[Array, ""]) -> Plan:
        """Add a locked door, with `blocked` with a ball in front of it."""
        plan = plan.with_door(room, side, with_color(LOCKED_DOOR, color))
        return plan.with_obstacle(room, side, OBSTACLE) if self.blocked else plan

    def hide(self, key: Key, plan: Plan, room: tuple[Index, Index], color: Int[Array, ""]) -> Plan:
        """Add the key of a locked door to a room, with `key_in_box` inside a box. `key` is consumed."""
        door_key = with_color(KEY, color)
        return plan.with_thing(key, room, with_content(GREY_BOX, door_key) if self.key_in_box else door_key)

    def start(self, plan: Plan) -> PickUpState:
        """The first state of the level."""
        return PickUpState(**begin(plan.grid, plan.x, plan.y, plan.direction), target=jnp.asarray(BLUE_BALL))


@env("MiniGrid-ObstructedMaze-1Dl-v0", key_in_box=False, blocked=False)
@env("MiniGrid-ObstructedMaze-1Dlh-v0", blocked=False)
@env("MiniGrid-ObstructedMaze-1Dlhb-v0")
@struct
class ObstructedMaze1D(Obstructed):
    """Pick up the blue ball in the right one of two rooms, behind a locked door.

    Start: agent and key are in the left room; with `key_in_box` the key is in a box, with `blocked` a ball is in front
    of the door.
    End: terminated when the agent picks up the blue ball. Time limit: 288 steps. Actions, observation and reward: see
    `Level`.
    """

    rooms: ClassVar[Rooms] = Rooms(columns=2, rows=1, size=6)

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of two rooms side by side."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """288 steps: four times the cells of two rooms."""
        return 4 * 2 * self.rooms.size**2

    def init(self, key: Key) -> PickUpState:
        """Sample the door, the ball in front of it, its key, the blue ball and the agent, in MiniGrid's order."""
        k_plan, k_color, k_key, k_ball, k_agent = jax.random.split(key, 5)
        color = random_color(k_color)
        plan = self.lock(self.rooms.plan(k_plan), (0, 0), RIGHT, color)
        plan = self.hide(k_key, plan, (0, 0), color)
        return self.start(plan.with_thing(k_ball, (1, 0), BLUE_BALL).with_agent(k_agent, (0, 0)))


_ONE_QUARTER: dict[str, Any] = {"num_quarters": 1, "num_rooms_visited": 4, "agent_room": SIDES[0]}
_FROM_MIDDLE: dict[str, Any] = {"num_quarters": 1, "num_rooms_visited": 5}
_TWO_QUARTERS: dict[str, Any] = {"num_quarters": 2, "num_rooms_visited": 11, "agent_room": SIDES[0]}


@env("MiniGrid-ObstructedMaze-2Dl-v0", key_in_box=False, blocked=False, **_ONE_QUARTER)
@env("MiniGrid-ObstructedMaze-2Dlh-v0", blocked=False, **_ONE_QUARTER)
@env("MiniGrid-ObstructedMaze-2Dlhb-v0", **_ONE_QUARTER)
@env("MiniGrid-ObstructedMaze-1Q-v0", **_FROM_MIDDLE)
@env("MiniGrid-ObstructedMaze-2Q-v0", **_TWO_QUARTERS)
@env("MiniGrid-ObstructedMaze-Full-v0")
@env("MiniGrid-ObstructedMaze-2Dlhb-v1", keys_last=True, **_ONE_QUARTER)
@env("MiniGrid-ObstructedMaze-1Q-v1", keys_last=True, **_FROM_MIDDLE)
@env("MiniGrid-ObstructedMaze-2Q-v1", keys_last=True, **_TWO_QUARTERS)
@env("MiniGrid-ObstructedMaze-Full-v1", keys_last=True)
@struct
class ObstructedMaze(Obstructed):
    """Pick up the blue ball in one of the corners of a 3x3 maze.

    Start: the middle room leads to `num_quarters` side rooms. Each side room has two locked doors, to the corners next
    to it, and the keys of these doors. The agent is in `agent_room`. In version 0 the ball in front of the second door
    may replace the key of the first, so some levels have no solution; in version 1 (`keys_last`) keys are placed after
    both balls.
    End: terminated when the agent picks up the blue ball. Time limit: 144 num_rooms_visited steps. Actions,
    observation and reward: see `Level`.
    """

    rooms: ClassVar[Rooms] = Rooms(columns=3, rows=3, size=6)

    agent_room: tuple[int, int] = static(MIDDLE, help="column and row of the room in which the agent starts")
    num_quarters: int = static(4, help="number of side rooms in use: 1 to 4")
    num_rooms_visited: int = static(25, help="number of visits of rooms that the time limit allows")
    keys_last: bool = static(
        False, choices=(False, True), help="whether keys are placed after all balls (version 1 of MiniGrid's ids)"
    )

    def __post_init__(self) -> None:
        if not 1 <= self.num_quarters <= len(SIDES):
            raise ValueError(f"num_quarters={self.num_quarters} must be 1, 2, 3 or 4: the maze has four side rooms.")
        in_use = (MIDDLE, *SIDES[: self.num_quarters])
        if self.agent_room not in in_use:
            raise ValueError(
                f"agent_room={self.agent_room} is closed off or a corner: with num_quarters={self.num_quarters} the "
                f"agent can start in {', '.join(map(str, in_use))}."
            )
        if self.num_rooms_visited < 1:
            raise ValueError(f"num_rooms_visited={self.num_rooms_visited} leaves no time: at least 1.")

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of nine rooms."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """144 num_rooms_visited steps: four times the cells of these rooms."""
        return 4 * self.num_rooms_visited * self.rooms.size**2

    def init(self, key: Key) -> PickUpState:
        """Add one side room after another, then the blue ball and the agent, in MiniGrid's order."""
        k_plan, k_colors, k_quarters, k_corner, k_ball, k_agent = jax.random.split(key, 6)
        colors = jax.random.permutation(k_colors, np.arange(len(COLORS), dtype=np.int32))

        def with_quarter(number: Index, plan: Plan) -> Plan:
            return self.with_quarter(jax.random.fold_in(k_quarters, number), plan, number, colors)

        plan = short_repeat(self.num_quarters, with_quarter, self.rooms.plan(k_plan))
        corner = jnp.asarray(CORNERS, jnp.int32)[jax.random.randint(k_corner, (), 0, self.num_quarters)]
        plan = plan.with_thing(k_ball, (corner[0], corner[1]), BLUE_BALL)
        return self.start(plan.with_agent(k_agent, self.agent_room))

    def with_quarter(self, key: Key, plan: Plan, number: Index, colors: Int[Array, "6"]) -> Plan:
        """Add a side room: its door to the middle, its two locked doors, and their keys. `key` is consumed."""
        dx, dy = heading(jnp.asarray(number))
        room = (MIDDLE[0] + dx, MIDDLE[1] + dy)
        plan = plan.with_door(MIDDLE, number, closed_doors(colors[number]))
        sides = ((number + 3) % 4, (number + 1) % 4)
        door_colors = (colors[(number + 5) % 6], colors[(number + 1) % 6])
        keys = jax.random.split(key)
        if self.keys_last:
            for side, color in zip(sides, door_colors, strict=True):
                plan = self.lock(plan, room, side, color)
            for i, color in enumerate(door_colors):
                plan = self.hide(keys[i], plan, room, color)
        else:
            for i, (side, color) in enumerate(zip(sides, door_colors, strict=True)):
                plan = self.hide(keys[i], self.lock(plan, room, side, color), room, color)
        return plan
