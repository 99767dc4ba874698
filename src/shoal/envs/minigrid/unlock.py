"""Unlock: find the key and open the locked door.

Source: MiniGrid 3.2.0 `envs/unlock.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import struct
from shoal.grid.actions import TOGGLE, cell_at
from shoal.grid.cells import KEY, WALL, cell, is_a, is_shut, with_color
from shoal.grid.layout import random_color
from shoal.grid.level import GridState, Judgement, Level, begin, in_front
from shoal.grid.rooms import RIGHT, Rooms

ROOMS = Rooms(columns=2, rows=1, size=6)


@env("MiniGrid-Unlock-v0")
@struct
class Unlock(Level):
    """Open the locked door between two rooms; its key is in the agent's room.

    Start: the agent is in the left room, facing an empty cell or a wall.
    Reward: success when the door opens.
    End: terminated when the door opens. Time limit: 288 steps. Actions, observation and reward: see `Level`.
    """

    reset_every: ClassVar[int] = 128
    task: ClassVar[str] = "open the door"

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of two rooms side by side."""
        return ROOMS.shape

    @property
    def time_limit(self) -> int:
        """288 steps: eight times the cells of a room."""
        return 8 * ROOMS.size**2

    def init(self, key: Key) -> GridState:
        """Sample door, key and agent, in MiniGrid's order."""
        k_plan, k_color, k_key, k_agent = jax.random.split(key, 4)
        color = random_color(k_color)
        plan = ROOMS.plan(k_plan).with_door((0, 0), RIGHT, with_color(cell("door", state="locked"), color))
        plan = plan.with_thing(k_key, (0, 0), with_color(KEY, color)).with_agent(k_agent, (0, 0))
        return GridState(**begin(plan.grid, plan.x, plan.y, plan.direction))

    def judge(self, before: GridState, after: GridState, action: Int[Array, ""]) -> Judgement:
        """Success, and the end, when the agent has opened the door."""
        del before
        front = cell_at(after.grid, *in_front(after), WALL)
        opened = (action == TOGGLE) & is_a(front, "door") & ~is_shut(front)
        return jnp.where(opened, self.success(after), 0), opened
