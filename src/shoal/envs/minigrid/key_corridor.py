"""KeyCorridor: find the key in one of the rooms on the left, and pick up the ball behind the locked door on the right.

Source: MiniGrid 3.2.0 `envs/keycorridor.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.pick_up import PickUp, PickUpState
from shoal.grid.cells import BALL, BOX, KEY, cell, with_color
from shoal.grid.layout import random_color
from shoal.grid.level import begin
from shoal.grid.rooms import ABOVE, LEFT, Rooms

TARGETS = {"ball": BALL, "box": BOX}


@env("MiniGrid-KeyCorridorS3R1-v0", room_size=3, num_rows=1)
@env("MiniGrid-KeyCorridorS3R2-v0", room_size=3, num_rows=2)
@env("MiniGrid-KeyCorridorS3R3-v0", room_size=3, num_rows=3)
@env("MiniGrid-KeyCorridorS4R3-v0", room_size=4, num_rows=3)
@env("MiniGrid-KeyCorridorS5R3-v0", room_size=5, num_rows=3)
@env("MiniGrid-KeyCorridorS6R3-v0", room_size=6, num_rows=3)
@struct
class KeyCorridor(PickUp):
    """Fetch the key from a room left of the corridor, unlock the room to its right, put the key down, take the ball.

    With `obj_type="box"` a box is to be taken; in MiniGrid also a key, which here could not be told from the other one.

    Start: the agent is in the middle of the corridor; random doors make every other room reachable, often by more than
    one way. Time limit: 30 room_size^2. Terminated with the ball in the hand. Actions, observation and reward: see
    `Level`.
    """

    reset_every: ClassVar[int] = 128

    room_size: int = static(6, help="cells to a side of a room, walls included: at least 3")
    num_rows: int = static(3, help="rooms on each side of the corridor: at least 1")
    obj_type: str = static("ball", choices=tuple(TARGETS), help="what lies behind the locked door")

    def __post_init__(self) -> None:
        if self.room_size < 3:
            raise ValueError(f"room_size={self.room_size} leaves nothing between the walls: at least 3.")
        if self.num_rows < 1:
            raise ValueError(f"num_rows={self.num_rows} leaves no room for key and ball: at least 1.")
        if self.obj_type not in TARGETS:
            raise ValueError(f"obj_type={self.obj_type!r} is unknown. Choose one of: {', '.join(TARGETS)}.")

    @property
    def rooms(self) -> Rooms:
        """The corridor, and a column of rooms on each side."""
        return Rooms(columns=3, rows=self.num_rows, size=self.room_size)

    @property
    def shape(self) -> tuple[int, int]:
        """All rooms."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """Thirty times the cells of a room."""
        return 30 * self.room_size**2

    def init(self, key: Key) -> PickUpState:
        """Corridor, locked door, target, key, agent and other doors, in MiniGrid's order."""
        k_plan, k_rows, k_colors, k_target, k_key, k_agent, k_doors = jax.random.split(key, 7)
        locked, with_key = jax.random.randint(k_rows, (2,), 0, self.num_rows)
        door_color, color = random_color(k_colors, (2,))
        target = jnp.asarray(with_color(TARGETS[self.obj_type], color))
        plan = self.rooms.plan(k_plan)
        for row in range(1, self.num_rows):
            plan = plan.without_wall((1, row), ABOVE)
        plan = plan.with_door((2, locked), LEFT, with_color(cell("door", state="locked"), door_color))
        plan = plan.with_thing(k_target, (2, locked), target).with_thing(
            k_key, (0, with_key), with_color(KEY, door_color)
        )
        plan = plan.with_agent(k_agent, (1, self.num_rows // 2)).connected(k_doors)
        return PickUpState(**begin(plan.grid, plan.x, plan.y, plan.direction), target=target)
