"""RedBlueDoors: open the red door, then the blue one.

Source: MiniGrid 3.2.0 `envs/redbluedoors.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import cell, is_a, is_shut
from shoal.grid.layout import empty_room, walled
from shoal.grid.level import GridState, Judgement, Level, begin


@env("MiniGrid-RedBlueDoors-6x6-v0", size=6)
@env("MiniGrid-RedBlueDoors-8x8-v0", size=8)
@struct
class RedBlueDoors(Level):
    """In the room in the middle, open the red door in the left wall, then the blue door in the right wall.

    Start: both doors are closed, each in a random row; the agent is in a random cell of the room.
    Reward: success if the blue door is open and the red one was open before the step.
    End: terminated when the blue door is open. Time limit: 20 size^2 steps. The rest: see `Level`.
    """

    reset_every: ClassVar[int] = 64
    task: ClassVar[str] = "open the red door then the blue door"

    size: int = static(8, help="side of the room in the middle in cells, walls included: at least 4")

    def __post_init__(self) -> None:
        if self.size < 4:
            raise ValueError(f"size={self.size} leaves no room beyond the doors: at least 4.")

    @property
    def shape(self) -> tuple[int, int]:
        """(2 size, size): the room, and half a room on each side."""
        return 2 * self.size, self.size

    @property
    def time_limit(self) -> int:
        """20 size^2 steps."""
        return 20 * self.size**2

    def init(self, key: Key) -> GridState:
        """Sample agent and doors, in MiniGrid's order."""
        k_agent, k_direction, k_doors = jax.random.split(key, 3)
        left, right = self._door_columns
        dx, y = jax.random.randint(k_agent, (2,), 1, self.size - 1)
        red, blue = jax.random.randint(k_doors, (2,), 1, self.size - 1)
        grid = jnp.asarray(walled(empty_room(*self.shape), left, 0, self.size, self.size))
        grid = jnp.where(cell_mask(self.shape, left, red), cell("door", "red", "closed"), grid)
        grid = jnp.where(cell_mask(self.shape, right, blue), cell("door", "blue", "closed"), grid)
        return GridState(**begin(grid, left + dx, y, jax.random.randint(k_direction, (), 0, 4)))

    def judge(self, before: GridState, after: GridState, action: Int[Array, ""]) -> Judgement:
        """An open blue door ends the episode; so does an open red door if the blue one was closed in this step."""
        del action
        red_was, blue_was = self._are_open(before)
        red_is, blue_is = self._are_open(after)
        return jnp.where(blue_is & red_was, self.success(after), 0), blue_is | (red_is & blue_was)

    @property
    def _door_columns(self) -> tuple[int, int]:
        return self.size // 2, self.size // 2 + self.size - 1

    def _are_open(self, state: GridState) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        red, blue = (jnp.any(is_a(state.grid[x], "door") & ~is_shut(state.grid[x])) for x in self._door_columns)
        return red, blue
