"""ObstructedMaze: locked doors, keys hidden in boxes, balls in front of the doors, and a blue ball behind it all.

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

BLUE_BALL, OBSTACLE, GREY_BOX = cell("ball", "blue"), cell("ball", "green"), cell("box", "grey")
LOCKED_DOOR = cell("door", state="locked")
MIDDLE = (1, 1)
# The rooms to the right of the middle, below, to the left and above; and which corners become reachable with each.
SIDES = ((2, 1), (1, 2), (0, 1), (1, 0))
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


@struct
class Obstructed(PickUp):
    """What the mazes share: how doors are locked and keys hidden, and the blue ball to pick up."""

    reset_every: ClassVar[int] = 128

    key_in_box: bool = static(True, choices=(False, True))
    blocked: bool = static(True, choices=(False, True))

    def lock(self, plan: Plan, room: tuple[Index, Index], side: Index, color: Int[Array, ""]) -> Plan:
        """A locked door, with a ball in front of it where doors are blocked."""
        plan = plan.with_door(room, side, with_color(LOCKED_DOOR, color))
        return plan.with_obstacle(room, side, OBSTACLE) if self.blocked else plan

    def hide(self, key: Key, plan: Plan, room: tuple[Index, Index], color: Int[Array, ""]) -> Plan:
        """The key of a locked door, in a box where keys are hidden. `key` is consumed."""
        door_key = with_color(KEY, color)
        return plan.with_thing(key, room, with_content(GREY_BOX, door_key) if self.key_in_box else door_key)

    def start(self, plan: Plan) -> PickUpState:
        """The first state of a level."""
        return PickUpState(**begin(plan.grid, plan.x, plan.y, plan.direction), target=jnp.asarray(BLUE_BALL))


@env("MiniGrid-ObstructedMaze-1Dl-v0", key_in_box=False, blocked=False)
@env("MiniGrid-ObstructedMaze-1Dlh-v0", blocked=False)
@env("MiniGrid-ObstructedMaze-1Dlhb-v0")
@struct
class ObstructedMaze1D(Obstructed):
    """Pick up the blue ball in the other of two rooms, behind a locked door.

    Start: agent and key are in the left room, the key in a box with `key_in_box`; with `blocked` a ball lies before
    the door. Time limit: 288. Terminated with the blue ball in the hand. Actions, observation and reward: see `Level`.
    """

    rooms: ClassVar[Rooms] = Rooms(columns=2, rows=1, size=6)

    @property
    def shape(self) -> tuple[int, int]:
        """Two rooms side by side."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """For two rooms."""
        return 4 * 2 * self.rooms.size**2

    def init(self, key: Key) -> PickUpState:
        """Door, its ball, its key, the blue ball and the agent, in MiniGrid's order."""
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

    The middle leads to `num_quarters` side rooms; each has two locked doors, to the corners beside it, and their keys.
    In version 0 the ball before the second door may replace the key of the first, which makes some levels impossible;
    in version 1 (`keys_last`) keys come after both balls. Time limit: 144 num_rooms_visited. Terminated with the blue
    ball in the hand. Actions, observation and reward: see `Level`.
    """

    rooms: ClassVar[Rooms] = Rooms(columns=3, rows=3, size=6)

    agent_room: tuple[int, int] = static(MIDDLE, help="column and row of the room in which the agent starts")
    num_quarters: int = static(4, help="how many side rooms and corners are in use: 1 to 4")
    num_rooms_visited: int = static(25, help="how many visits of rooms the time limit allows for")
    keys_last: bool = static(False, choices=(False, True))

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
        """Nine rooms."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """Four times the cells of every room to visit."""
        return 4 * self.num_rooms_visited * self.rooms.size**2

    def init(self, key: Key) -> PickUpState:
        """Quarter by quarter, then the blue ball and the agent, in MiniGrid's order."""
        k_plan, k_colors, k_quarters, k_corner, k_ball, k_agent = jax.random.split(key, 6)
        colors = jax.random.permutation(k_colors, np.arange(len(COLORS), dtype=np.int32))

        def with_quarter(number: Index, plan: Plan) -> Plan:
            return self.with_quarter(jax.random.fold_in(k_quarters, number), plan, number, colors)

        plan = jax.lax.fori_loop(0, self.num_quarters, with_quarter, self.rooms.plan(k_plan))
        corner = jnp.asarray(CORNERS, jnp.int32)[jax.random.randint(k_corner, (), 0, self.num_quarters)]
        plan = plan.with_thing(k_ball, (corner[0], corner[1]), BLUE_BALL)
        return self.start(plan.with_agent(k_agent, self.agent_room))

    def with_quarter(self, key: Key, plan: Plan, number: Index, colors: Int[Array, "6"]) -> Plan:
        """A side room: its door to the middle, its two locked doors, and their keys. `key` is consumed."""
        dx, dy = heading(jnp.asarray(number))
        room = (MIDDLE[0] + dx, MIDDLE[1] + dy)
        plan = plan.with_door(MIDDLE, number, closed_doors(colors[number]))
        sides = ((number + 3) % 4, (number + 1) % 4)
        paints = (colors[(number + 5) % 6], colors[(number + 1) % 6])
        keys = jax.random.split(key)
        if self.keys_last:
            for side, color in zip(sides, paints, strict=True):
                plan = self.lock(plan, room, side, color)
            for i, color in enumerate(paints):
                plan = self.hide(keys[i], plan, room, color)
        else:
            for i, (side, color) in enumerate(zip(sides, paints, strict=True)):
                plan = self.hide(keys[i], self.lock(plan, room, side, color), room, color)
        return plan
