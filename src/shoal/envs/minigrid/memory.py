"""Memory: remember a thing, and go to the one that matches it.

Source: MiniGrid 3.2.0 `envs/memory.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import WALL, cell
from shoal.grid.layout import column, empty_room, rectangle
from shoal.grid.level import GridState, SquareLevel, begin


@struct
class MemoryState(GridState):
    """A hallway that splits at its end, and which side of the split is right."""

    split_x: Int[Array, ""]
    match_y: Int[Array, ""]  # the row of the right side, next to what matches; the wrong side mirrors it


@env("MiniGrid-MemoryS7-v0", size=7)
@env("MiniGrid-MemoryS9-v0", size=9)
@env("MiniGrid-MemoryS11-v0", size=11)
@env("MiniGrid-MemoryS13-v0", size=13)
@env("MiniGrid-MemoryS13Random-v0", size=13, random_length=True)
@env("MiniGrid-MemoryS17Random-v0", size=17, random_length=True)
@struct
class Memory(SquareLevel):
    """Look at the thing in the first room, walk down the hallway, and turn to the side where the same thing lies.

    "pickup" does what "toggle" does, which is nothing here. Start: the agent stands anywhere in the middle row up to
    the end of the hallway, facing it; with `random_length` that end is anywhere.
    End: terminated at either side of the split, with success at the right one. Time limit: 5 size^2. The rest: `Level`.
    """

    reset_every: ClassVar[int] = 64
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "go to the matching object at the end of the hallway"

    size: int = static(13, help="cells to a side, walls included: odd, at least 7")
    random_length: bool = static(False, choices=(False, True))

    def __post_init__(self) -> None:
        if self.size < 7 or self.size % 2 == 0:
            raise ValueError(f"size={self.size} must be odd, for a hallway in the middle, and at least 7.")

    @property
    def time_limit(self) -> int:
        """Enough to see the maze five times."""
        return 5 * self.size**2

    def init(self, key: Key) -> MemoryState:
        """Walls, agent, and the three things, in MiniGrid's order."""
        k_end, k_agent, k_first, k_others = jax.random.split(key, 4)
        middle = self.size // 2
        end = jax.random.randint(k_end, (), 4, self.size - 2) if self.random_length else jnp.int32(self.size - 3)
        first_is_key, upper_is_key = jax.random.bernoulli(k_first), jax.random.bernoulli(k_others)
        grid = jnp.where(self._walls(end), WALL, empty_room(*self.shape))
        for x, y, is_key in (
            (1, middle - 1, first_is_key),
            (end + 1, middle - 2, upper_is_key),
            (end + 1, middle + 2, ~upper_is_key),
        ):
            grid = jnp.where(
                cell_mask(self.shape, x, y), jnp.where(is_key, cell("key", "green"), cell("ball", "green")), grid
            )
        return MemoryState(
            **begin(grid, jax.random.randint(k_agent, (), 1, end + 1), middle, 0),
            split_x=end + 1,
            match_y=jnp.where(first_is_key == upper_is_key, middle - 1, middle + 1).astype(jnp.int32),
        )

    def judge(
        self, before: MemoryState, after: MemoryState, action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Both sides of the split decide."""
        del before, action
        is_at_split = after.x == after.split_x
        is_right = is_at_split & (after.y == after.match_y)
        is_wrong = is_at_split & (after.y == self.size - 1 - after.match_y)
        return jnp.where(is_right, self.success(after), 0), is_right | is_wrong

    def _walls(self, end: Int[Array, ""]) -> Bool[Array, "W H"]:
        middle = self.size // 2
        off = np.abs(np.arange(self.size) - middle)[None, :]  # rows away from the middle one
        room = rectangle(self.shape, 1, 0, 4, self.size) & (off == 2)
        hallway = rectangle(self.shape, 4, 0, end - 4, self.size) & (off == 1)
        return room | hallway | column(self.shape, end) & (off != 0) | column(self.shape, end + 2)
