"""Crossing: rivers of lava, or walls, from one side of the room to the other, each with one opening.

Source: MiniGrid 3.2.0 `envs/crossing.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.lavagap import OBSTACLES, TASKS, check_obstacle
from shoal.grid.cells import EMPTY, GOAL
from shoal.grid.layout import distinct, empty_room
from shoal.grid.level import GridState, SquareLevel, begin
from shoal.ops.loops import short_scan


@env("MiniGrid-LavaCrossingS9N1-v0", size=9, num_crossings=1)
@env("MiniGrid-LavaCrossingS9N2-v0", size=9, num_crossings=2)
@env("MiniGrid-LavaCrossingS9N3-v0", size=9, num_crossings=3)
@env("MiniGrid-LavaCrossingS11N5-v0", size=11, num_crossings=5)
@env("MiniGrid-SimpleCrossingS9N1-v0", size=9, num_crossings=1, obstacle="wall")
@env("MiniGrid-SimpleCrossingS9N2-v0", size=9, num_crossings=2, obstacle="wall")
@env("MiniGrid-SimpleCrossingS9N3-v0", size=9, num_crossings=3, obstacle="wall")
@env("MiniGrid-SimpleCrossingS11N5-v0", size=11, num_crossings=5, obstacle="wall")
@struct
class Crossing(SquareLevel):
    """Cross every river and reach the goal in the lower right corner.

    Start: the agent is in the upper left corner, facing right. The rivers are in random even columns and rows. Their
    openings are on one random path from the agent to the goal.
    Time limit: 4 size^2 steps. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 16
    grid_changes: ClassVar[bool] = False

    size: int = static(9, help="side of the grid in cells, walls included: odd, 5 to 31")
    num_crossings: int = static(1, help="number of rivers")
    obstacle: str = static("lava", choices=tuple(OBSTACLES), help="whether the rivers are lava or walls")

    def __post_init__(self) -> None:
        if not 5 <= self.size <= 31 or self.size % 2 == 0:
            raise ValueError(f"size={self.size} must be odd, from 5 to 31, so that rivers fit between the rooms.")
        if not 1 <= self.num_crossings <= 2 * len(self.river_lines):
            most = 2 * len(self.river_lines)
            raise ValueError(f"num_crossings={self.num_crossings} does not fit into size={self.size}: 1 to {most}.")
        check_obstacle(self.obstacle)

    @property
    def time_limit(self) -> int:
        """4 size^2 steps."""
        return 4 * self.size**2

    @property
    def river_lines(self) -> range:
        """The columns, and also the rows, that may be a river."""
        return range(2, self.size - 2, 2)

    @property
    def task(self) -> str:  # type: ignore[override]  # follows from a field
        """The task, which names the obstacle."""
        return TASKS[self.obstacle]

    def init(self, key: Key) -> GridState:
        """Sample the rivers, then a path that crosses them one by one."""
        k_rivers, k_path, k_openings = jax.random.split(key, 3)
        num_lines = len(self.river_lines)
        # The rivers are the first `num_crossings` lines of a random order; the order of the crossings is random too.
        chosen = distinct(k_rivers, 2 * num_lines, 2 * num_lines) < self.num_crossings
        goes_right = distinct(k_path, self.num_crossings, self.num_crossings) < jnp.sum(chosen[:num_lines])
        columns, rows = self._limits(chosen[:num_lines]), self._limits(chosen[num_lines:])

        def cross(corner, crossing):
            left, top = corner
            is_right, key = crossing
            right, bottom = _next(columns, left), _next(rows, top)
            low, high = jnp.where(is_right, top, left) + 1, jnp.where(is_right, bottom, right)
            opening = jax.random.randint(key, (), low, high)
            position = jnp.where(is_right, right, opening), jnp.where(is_right, opening, bottom)
            return (jnp.where(is_right, right, left), jnp.where(is_right, top, bottom)), position

        crossings = goes_right, jax.random.split(k_openings, self.num_crossings)
        _, (x, y) = short_scan(cross, (jnp.int32(0), jnp.int32(0)), crossings)
        return GridState(**begin(self._grid_with_rivers(columns, rows, x, y), 1, 1, 0))

    def _limits(self, chosen: Bool[Array, "K"]) -> Int[Array, ""]:
        """The lines where a room ends, as bits of one integer: the chosen rivers and the last wall."""
        lines = np.array(self.river_lines, np.int32)
        return jnp.sum(jnp.where(chosen, 1 << lines, 0), dtype=jnp.int32) | 1 << self.size - 1

    def _grid_with_rivers(
        self, columns: Int[Array, ""], rows: Int[Array, ""], x: Int[Array, "N"], y: Int[Array, "N"]
    ) -> UInt16[Array, "S S"]:
        """The grid with its rivers and their openings."""
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        cells = np.arange(self.size, dtype=np.int32)
        is_river = ((columns >> cells)[:, None] | (rows >> cells)[None, :]) & 1 == 1
        is_open = ((cells[:, None, None] == x[None, None]) & (cells[None, :, None] == y[None, None])).any(-1)
        return jnp.where(is_river & ~is_open & (room == EMPTY), OBSTACLES[self.obstacle], room)


def _next(limits: Int[Array, ""], after: Int[Array, ""]) -> Int[Array, ""]:
    """The first limit after a position: the lowest bit of `limits` above bit `after`."""
    later = limits & -2 << after
    return jax.lax.population_count((later & -later) - 1)
