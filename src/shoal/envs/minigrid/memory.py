"""Memory: remember an object, and go to the one that looks the same.

Source: MiniGrid 3.2.0 `envs/memory.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import WALL, cell
from shoal.grid.layout import column, empty_room, rectangle
from shoal.grid.level import GridState, Judgement, SquareLevel, begin


@struct
class MemoryState(GridState):
    """A hallway that splits at its end, and the side of the split that is correct."""

    split_x: Int[Array, ""]  # column of the split
    match_y: Int[Array, ""]  # row of the correct side, next to the matching object; the wrong side mirrors it


@env("MiniGrid-MemoryS7-v0", size=7)
@env("MiniGrid-MemoryS9-v0", size=9)
@env("MiniGrid-MemoryS11-v0", size=11)
@env("MiniGrid-MemoryS13-v0", size=13)
@env("MiniGrid-MemoryS13Random-v0", size=13, random_length=True)
@env("MiniGrid-MemoryS17Random-v0", size=17, random_length=True)
@struct
class Memory(SquareLevel):
    """Look at the object in the first room, walk down the hallway, and turn to the side with the same object.

    The actions "pickup", "drop" and "toggle" have no effect.
    Start: the agent is in a random cell of the middle row, not beyond the end of the hallway, facing that end; with
    `random_length` the hallway ends in a random column.
    Reward: success at the correct side of the split.
    End: terminated at either side of the split. Time limit: 5 size^2 steps. The rest: see `Level`.
    """

    reset_every: ClassVar[int] = 64
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "go to the matching object at the end of the hallway"

    size: int = static(13, help="side of the grid in cells, walls included: odd, at least 7")
    random_length: bool = static(False, choices=(False, True), help="whether the length of the hallway is random")

    def __post_init__(self) -> None:
        if self.size < 7 or self.size % 2 == 0:
            raise ValueError(f"size={self.size} must be odd, for a hallway in the middle, and at least 7.")

    @property
    def time_limit(self) -> int:
        """5 size^2 steps."""
        return 5 * self.size**2

    def init(self, key: Key) -> MemoryState:
        """Sample walls, agent and the three objects, in MiniGrid's order."""
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

    def judge(self, before: MemoryState, after: MemoryState, action: Int[Array, ""]) -> Judgement:
        """Each side of the split ends the episode; the correct one is a success."""
        del before, action
        is_at_split = after.x == after.split_x
        is_correct = is_at_split & (after.y == after.match_y)
        is_wrong = is_at_split & (after.y == self.size - 1 - after.match_y)
        return jnp.where(is_correct, self.success(after), 0), is_correct | is_wrong

    def _walls(self, end: Int[Array, ""]) -> Bool[Array, "W H"]:
        middle = self.size // 2
        distance = np.abs(np.arange(self.size) - middle)[None, :]  # of each row from the middle row
        room = rectangle(self.shape, 1, 0, 4, self.size) & (distance == 2)
        hallway = rectangle(self.shape, 4, 0, end - 4, self.size) & (distance == 1)
        return room | hallway | column(self.shape, end) & (distance != 0) | column(self.shape, end + 2)
