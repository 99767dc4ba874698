"""Crossing: rivers of lava, or walls, from side to side, each with one place to cross.

Source: MiniGrid 3.2.0 `envs/crossing.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.lavagap import OBSTACLES, TASKS, check_obstacle
from shoal.grid.actions import at
from shoal.grid.cells import EMPTY, GOAL
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, Level, begin
from shoal.grid.words import encode


@env("MiniGrid-LavaCrossingS9N1-v0", size=9, num_crossings=1)
@env("MiniGrid-LavaCrossingS9N2-v0", size=9, num_crossings=2)
@env("MiniGrid-LavaCrossingS9N3-v0", size=9, num_crossings=3)
@env("MiniGrid-LavaCrossingS11N5-v0", size=11, num_crossings=5)
@env("MiniGrid-SimpleCrossingS9N1-v0", size=9, num_crossings=1, obstacle="wall")
@env("MiniGrid-SimpleCrossingS9N2-v0", size=9, num_crossings=2, obstacle="wall")
@env("MiniGrid-SimpleCrossingS9N3-v0", size=9, num_crossings=3, obstacle="wall")
@env("MiniGrid-SimpleCrossingS11N5-v0", size=11, num_crossings=5, obstacle="wall")
@struct
class Crossing(Level):
    """Cross every river and reach the goal in the far corner.

    Start: in the corner opposite to the goal, facing right. The rivers lie in random even columns and rows; their
    openings lie along one random path through the rooms between them. Time limit: 4 size^2. Actions, observation,
    reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 16
    changes: ClassVar[bool] = False

    size: int = static(9, help="cells to a side, walls included: odd, at least 5")
    num_crossings: int = static(1, help="how many rivers there are")
    obstacle: str = static("lava", choices=tuple(OBSTACLES), help="what the rivers are made of")

    def __post_init__(self) -> None:
        if self.size < 5 or self.size % 2 == 0:
            raise ValueError(f"size={self.size} must be odd and at least 5, so that rivers fit between the rooms.")
        if not 1 <= self.num_crossings <= 2 * len(self.places):
            most = 2 * len(self.places)
            raise ValueError(f"num_crossings={self.num_crossings} does not fit into size={self.size}: 1 to {most}.")
        check_obstacle(self.obstacle)

    @property
    def shape(self) -> tuple[int, int]:
        """Square."""
        return self.size, self.size

    @property
    def time_limit(self) -> int:
        """Enough to see the room four times."""
        return 4 * self.size**2

    @property
    def places(self) -> range:
        """The columns, and the rows, where a river may lie."""
        return range(2, self.size - 2, 2)

    def mission(self, state: GridState) -> UInt8[Array, "L"]:
        """What to do about the rivers."""
        del state
        return jnp.asarray(encode(TASKS[self.obstacle]))

    def init(self, key: Key) -> GridState:
        """Rivers, and a path that crosses them one by one."""
        k_rivers, k_path, k_openings = jax.random.split(key, 3)
        # The first `num_crossings` of a random order; likewise below for the order of the crossings.
        chosen = jax.random.permutation(k_rivers, 2 * len(self.places)) < self.num_crossings
        in_column, in_row = self._limits(chosen[: len(self.places)]), self._limits(chosen[len(self.places) :])
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        is_river = (in_column[:, None] | in_row[None, :]) & (room == EMPTY)
        grid = jnp.where(is_river, OBSTACLES[self.obstacle], room)

        goes_right = jax.random.permutation(k_path, self.num_crossings) < jnp.sum(chosen[: len(self.places)])

        def cross(carry, given):
            grid, left, top = carry
            is_right, key = given
            right, bottom = _next(in_column, left), _next(in_row, top)
            low, high = jnp.where(is_right, top, left) + 1, jnp.where(is_right, bottom, right)
            opening = jax.random.randint(key, (), low, high)
            x, y = jnp.where(is_right, right, opening), jnp.where(is_right, opening, bottom)
            grid = jnp.where(at(self.shape, x, y), EMPTY, grid)
            return (grid, jnp.where(is_right, right, left), jnp.where(is_right, top, bottom)), None

        given = goes_right, jax.random.split(k_openings, self.num_crossings)
        (grid, _, _), _ = jax.lax.scan(cross, (grid, jnp.int32(0), jnp.int32(0)), given)
        return GridState(**begin(grid, 1, 1, 0))

    def _limits(self, chosen: Bool[Array, "K"]) -> Bool[Array, "S"]:
        """Where a room ends: at the chosen places and at the last wall."""
        is_limit = jnp.zeros(self.size, bool).at[2 : self.size - 2 : 2].set(chosen)
        return is_limit.at[-1].set(True)


def _next(is_limit: Bool[Array, "S"], after: Int[Array, ""]) -> Int[Array, ""]:
    places = np.arange(is_limit.shape[0], dtype=np.int32)
    return jnp.argmax(is_limit & (places > after)).astype(jnp.int32)
