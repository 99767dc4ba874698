"""UnlockPickup and BlockedUnlockPickup: pick up the box behind a locked door, which a ball may block.

Source: MiniGrid 3.2.0 `envs/unlockpickup.py` and `envs/blockedunlockpickup.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.pick_up import PickUp, PickUpState
from shoal.envs.minigrid.unlock import ROOMS
from shoal.grid.cells import BALL, BOX, KEY, cell, with_color
from shoal.grid.layout import random_color
from shoal.grid.level import begin
from shoal.grid.rooms import RIGHT


@env("MiniGrid-UnlockPickup-v0")
@env("MiniGrid-BlockedUnlockPickup-v0", blocked=True)
@struct
class UnlockPickup(PickUp):
    """Unlock the door with the key of its color and pick up the box in the other room, after dropping the key.

    Start: agent and key are in the left room; with `blocked` a ball is in front of the door.
    End: terminated when the agent picks up the box. Toggling the box destroys it; success is then impossible. Time
    limit: 288 steps, with `blocked` 576. Actions, observation and reward: see `Level`.
    """

    reset_every: ClassVar[int] = 128

    blocked: bool = static(False, choices=(False, True), help="whether a ball is in front of the door")

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of two rooms side by side."""
        return ROOMS.shape

    @property
    def time_limit(self) -> int:
        """288 steps, or 576 with `blocked`."""
        return (16 if self.blocked else 8) * ROOMS.size**2

    def init(self, key: Key) -> PickUpState:
        """Sample box, door, ball, key and agent, in MiniGrid's order."""
        k_plan, k_colors, k_box, k_key, k_agent = jax.random.split(key, 5)
        box_color, door_color, ball_color = random_color(k_colors, (3,))
        box = jnp.asarray(with_color(BOX, box_color))
        plan = ROOMS.plan(k_plan).with_thing(k_box, (1, 0), box)
        plan = plan.with_door((0, 0), RIGHT, with_color(cell("door", state="locked"), door_color))
        if self.blocked:
            plan = plan.with_obstacle((0, 0), RIGHT, with_color(BALL, ball_color))
        plan = plan.with_thing(k_key, (0, 0), with_color(KEY, door_color)).with_agent(k_agent, (0, 0))
        return PickUpState(**begin(plan.grid, plan.x, plan.y, plan.direction), target=box)
