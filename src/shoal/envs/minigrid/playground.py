"""Playground: nine rooms with objects, and no task.

Source: MiniGrid 3.2.0 `envs/playground.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, KEY, with_color
from shoal.grid.layout import choose, place, random_color
from shoal.grid.level import GridState, Level, begin
from shoal.grid.rooms import Rooms, closed_doors
from shoal.ops.loops import short_repeat

ROOMS = Rooms(columns=3, rows=3, size=7)
THINGS = 12


@env("MiniGrid-Playground-v0")
@struct
class Playground(Level):
    """Nine rooms with a closed door in every wall between them, and twelve keys, balls and boxes of random colors.

    Start: objects and agent are in random cells.
    Reward: always 0.
    End: truncated after 100 steps; never terminated. Actions and observation: see `Level`.
    """

    reset_every: ClassVar[int] = 100

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of all rooms together."""
        return ROOMS.shape

    @property
    def time_limit(self) -> int:
        """100 steps."""
        return 100

    def init(self, key: Key) -> GridState:
        """Sample doors, agent and objects, in MiniGrid's order."""
        k_plan, k_doors, k_agent, k_direction, k_things = jax.random.split(key, 5)
        # MiniGrid never puts a door into the last cell of a wall.
        plan = ROOMS.plan(k_plan, last=ROOMS.size - 3)
        plan = plan.with_doors(ROOMS.inner_walls, closed_doors(random_color(k_doors, plan.is_open.shape)))
        x, y = choose(k_agent, plan.grid == EMPTY)
        elsewhere = ~cell_mask(self.shape, x, y)

        def with_thing(i: Int[Array, ""] | int, grid: UInt16[Array, "W H"]) -> UInt16[Array, "W H"]:
            k_kind, k_color, k_position = jax.random.split(jax.random.fold_in(k_things, i), 3)
            kind = KEY + jax.random.randint(k_kind, (), 0, 3).astype(jnp.uint16)  # key, ball, box
            return place(k_position, grid, with_color(kind, random_color(k_color)), elsewhere)[0]

        grid = short_repeat(THINGS, with_thing, plan.grid)
        return GridState(**begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)))
