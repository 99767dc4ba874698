"""KeyCorridor: find the key in a room on the left, and pick up the ball behind the locked door on the right.

Source: MiniGrid 3.2.0 `envs/keycorridor.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.pick_up import PickUp, PickUpState
from shoal.grid.cells import BALL, BOX, KEY, Cell, cell, with_color
from shoal.grid.layout import random_color
from shoal.grid.level import begin
from shoal.grid.rooms import ABOVE, LEFT, Plan, Rooms

TARGETS = {"ball": BALL, "box": BOX}


@env("MiniGrid-KeyCorridorS3R1-v0", room_size=3, num_rows=1)
@env("MiniGrid-KeyCorridorS3R2-v0", room_size=3, num_rows=2)
@env("MiniGrid-KeyCorridorS3R3-v0", room_size=3, num_rows=3)
@env("MiniGrid-KeyCorridorS4R3-v0", room_size=4, num_rows=3)
@env("MiniGrid-KeyCorridorS5R3-v0", room_size=5, num_rows=3)
@env("MiniGrid-KeyCorridorS6R3-v0", room_size=6, num_rows=3)
@struct
class KeyCorridor(PickUp):
    """Fetch the key from a room left of the corridor, unlock a room on the right, drop the key, pick up the ball.

    With `obj_type="box"` the target is a box.
    Start: the agent is in the middle of the corridor. Random doors make every other room reachable, often on more than
    one path.
    End: terminated when the agent picks up the target. Time limit: 30 room_size^2 steps. Actions, observation and
    reward: see `Level`.

    Difference from MiniGrid: the target cannot be a key (`obj_type="key"`), because it could look the same as the key
    of the door.
    """

    reset_every: ClassVar[int] = 128

    room_size: int = static(6, help="side of a room in cells, walls included: at least 3")
    num_rows: int = static(3, help="number of rooms on each side of the corridor: at least 1")
    obj_type: str = static("ball", choices=tuple(TARGETS), help="the object behind the locked door")

    def __post_init__(self) -> None:
        if self.room_size < 3:
            raise ValueError(f"room_size={self.room_size} leaves nothing between the walls: at least 3.")
        if self.num_rows < 1:
            raise ValueError(f"num_rows={self.num_rows} leaves no room for key and ball: at least 1.")
        if self.obj_type not in TARGETS:
            raise ValueError(f"obj_type={self.obj_type!r} is unknown. Choose one of: {', '.join(TARGETS)}.")

    @property
    def rooms(self) -> Rooms:
        """A column of rooms for the corridor, and one on each side of it."""
        return Rooms(columns=3, rows=self.num_rows, size=self.room_size)

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of all rooms together."""
        return self.rooms.shape

    @property
    def time_limit(self) -> int:
        """30 room_size^2 steps."""
        return 30 * self.room_size**2

    def init(self, key: Key) -> PickUpState:
        """Sample locked door, target, key, agent and other doors, in MiniGrid's order."""
        plan, target = corridor(key, self.rooms, TARGETS[self.obj_type])
        return PickUpState(**begin(plan.grid, plan.x, plan.y, plan.direction), target=target)


def corridor(key: Key, rooms: Rooms, kind: Cell) -> tuple[Plan, UInt16[Array, ""]]:
    """A plan of three columns of rooms, of which the middle one is a corridor, and the target. `key` is consumed.

    The target, of this kind and a random color, is in a random room on the right, whose door is locked; the key is in a
    random room on the left. The agent is in the middle of the corridor, and random doors make every other room
    reachable.
    """
    k_plan, k_rows, k_colors, k_target, k_key, k_agent, k_doors = jax.random.split(key, 7)
    locked, with_key = jax.random.randint(k_rows, (2,), 0, rooms.rows)
    door_color, color = random_color(k_colors, (2,))
    target = jnp.asarray(with_color(kind, color))
    plan = rooms.plan(k_plan)
    for row in range(1, rooms.rows):
        plan = plan.without_wall((1, row), ABOVE)
    plan = plan.with_door((2, locked), LEFT, with_color(cell("door", state="locked"), door_color))
    plan = plan.with_thing(k_target, (2, locked), target)
    plan = plan.with_thing(k_key, (0, with_key), with_color(KEY, door_color))
    return plan.with_agent(k_agent, (1, rooms.rows // 2)).connected(k_doors), target
