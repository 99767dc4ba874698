"""GoToDoor: go to the door that the mission names, and choose the action "done" beside it.

Source: MiniGrid 3.2.0 `envs/gotodoor.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8, UInt16

from shoal.core.env import Key
from shoal.core.form import computed_once
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import DONE, TOGGLE
from shoal.grid.cells import COLORS, EMPTY, WALL, cell, color_of, with_color
from shoal.grid.layout import between, distinct
from shoal.grid.level import GridState, Judgement, SquareLevel, begin
from shoal.grid.words import color_word, fill


@struct
class GoToState(GridState):
    """A room, and the object to go to."""

    target: UInt16[Array, ""]  # the object, as the cell that it was at the start
    target_x: Int[Array, ""]  # its position at the start, which does not change when it is moved
    target_y: Int[Array, ""]


@struct
class GoTo(SquareLevel):
    """The task of going to an object.

    The action "done" ends the episode. It is a success in one of the four cells next to the target, in whichever
    direction the agent faces. The action "toggle" ends the episode too, without a reward.
    """

    reset_every: ClassVar[int] = 2

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")

    def judge(self, before: GoToState, after: GoToState, action: Int[Array, ""]) -> Judgement:
        """Only the actions "done" and "toggle" decide."""
        del before
        distance = jnp.abs(after.x - after.target_x) + jnp.abs(after.y - after.target_y)
        is_done = action == DONE
        return jnp.where(is_done & (distance == 1), self.success(after), 0), is_done | (action == TOGGLE)


@env("MiniGrid-GoToDoor-5x5-v0", size=5)
@env("MiniGrid-GoToDoor-6x6-v0", size=6)
@env("MiniGrid-GoToDoor-8x8-v0", size=8)
@struct
class GoToDoor(GoTo):
    """In a room with a door in each wall, choose "done" beside the door of the color that the mission names.

    Start: the room is 5 to `size` cells wide and high, and the rest of the grid is empty. The doors are closed, have
    four different colors, and are not next to a corner. The agent is in a random cell.
    Reward: success for "done" in one of the four cells next to that door.
    End: terminated by "done" and by "toggle". Time limit: 4 size^2 steps. The rest: see `Level`.
    """

    task: ClassVar[str] = "go to the {} door"

    size: int = static(5, help="side of the largest room in cells, walls included: at least 5")

    def __post_init__(self) -> None:
        if self.size < 5:
            raise ValueError(f"size={self.size} leaves no place for a door away from the corners: at least 5.")

    @property
    def time_limit(self) -> int:
        """4 size^2 steps."""
        return 4 * self.size**2

    def init(self, key: Key) -> GoToState:
        """Sample the room, its doors, the agent and the target, in MiniGrid's order."""
        k_size, k_door, k_color, k_agent, k_direction, k_target = jax.random.split(key, 6)
        width, height = jax.random.randint(k_size, (2,), 5, self.size + 1)
        along = between(k_door, 2, jnp.stack([width, width, height, height]) - 2, (4,))
        zero = jnp.zeros_like(width)
        door_x, door_y = jnp.stack([*along[:2], zero, width - 1]), jnp.stack([zero, height - 1, *along[2:]])
        doors = jnp.asarray(with_color(cell("door", state="closed"), distinct(k_color, 4, len(COLORS))))
        width, height, door_x, door_y, doors = computed_once((width, height, door_x, door_y, doors))
        # The cells are one axis and not two: XLA's loops over 64 cells are twice as fast as those over 8 x 8.
        cells = np.arange(self.size**2, dtype=np.int32)
        column, row = cells // self.size, cells % self.size
        is_edge = (column == 0) | (column == width - 1) | (row == 0) | (row == height - 1)
        grid = jnp.where(is_edge & (column < width) & (row < height), WALL, EMPTY)
        for i in range(4):
            grid = jnp.where(cells == door_x[i] * self.size + door_y[i], doors[i], grid)
        grid = grid.reshape(self.shape)
        x, y = between(k_agent, 1, jnp.stack([width, height]) - 1, (2,))
        target = jax.random.randint(k_target, (), 0, 4)
        return GoToState(
            **begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)),
            target=doors[target],
            target_x=door_x[target],
            target_y=door_y[target],
        )

    def mission(self, state: GoToState) -> UInt8[Array, "L"]:
        """Names the color of the door."""
        return fill(self.task, color_word(color_of(state.target)))
