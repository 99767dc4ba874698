"""Crossing: rivers of lava, or walls, from side to side, each with one place to cross.

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
    """Cross every river and reach the goal in the far corner.

    Start: in the corner opposite to the goal, facing right. The rivers lie in random even columns and rows; their
    openings lie along one random path through the rooms between them. Time limit: 4 size^2. Actions, observation,
    reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 16
    grid_changes: ClassVar[bool] = False

    size: int = static(9, help="cells to a side, walls included: odd, 5 to 31")
    num_crossings: int = static(1, help="how many rivers there are")
    obstacle: str = static("lava", choices=tuple(OBSTACLES), help="what the rivers are made of")

    def __post_init__(self) -> None:
        if not 5 <= self.size <= 31 or self.size % 2 == 0:
            raise ValueError(f"size={self.size} must be odd, from 5 to 31, so that rivers fit between the rooms.")
        if not 1 <= self.num_crossings <= 2 * len(self.places):
            most = 2 * len(self.places)
            raise ValueError(f"num_crossings={self.num_crossings} does not fit into size={self.size}: 1 to {most}.")
        check_obstacle(self.obstacle)

    @property
    def time_limit(self) -> int:
        """Enough to see the room four times."""
        return 4 * self.size**2

    @property
    def places(self) -> range:
        """The columns, and the rows, where a river may lie."""
        return range(2, self.size - 2, 2)

    @property
    def task(self) -> str:  # type: ignore[override]  # follows from a field
        """What to do about the obstacle."""
        return TASKS[self.obstacle]

    def init(self, key: Key) -> GridState:
        """Rivers, and a path that crosses them one by one."""
        k_rivers, k_path, k_openings = jax.random.split(key, 3)
        places = len(self.places)
        # The first `num_crossings` of a random order; likewise below for the order of the crossings.
        chosen = distinct(k_rivers, 2 * places, 2 * places) < self.num_crossings
        goes_right = distinct(k_path, self.num_crossings, self.num_crossings) < jnp.sum(chosen[:places])
        columns, rows = self._limits(chosen[:places]), self._limits(chosen[places:])

        def cross(corner, given):
            left, top = corner
            is_right, key = given
            right, bottom = _next(columns, left), _next(rows, top)
            low, high = jnp.where(is_right, top, left) + 1, jnp.where(is_right, bottom, right)
            opening = jax.random.randint(key, (), low, high)
            at = jnp.where(is_right, right, opening), jnp.where(is_right, opening, bottom)
            return (jnp.where(is_right, right, left), jnp.where(is_right, top, bottom)), at

        given = goes_right, jax.random.split(k_openings, self.num_crossings)
        _, (x, y) = jax.lax.scan(cross, (jnp.int32(0), jnp.int32(0)), given)
        return GridState(**begin(self._drawn(columns, rows, x, y), 1, 1, 0))

    def _limits(self, chosen: Bool[Array, "K"]) -> Int[Array, ""]:
        """Where a room ends, as bits: at the chosen places and at the last wall."""
        return jnp.sum(jnp.where(chosen, 1 << np.array(self.places, np.int32), 0), dtype=jnp.int32) | 1 << self.size - 1

    def _drawn(
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
    """The first limit after a position."""
    later = limits & -2 << after
    return jax.lax.population_count((later & -later) - 1)
