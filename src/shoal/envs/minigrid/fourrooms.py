"""FourRooms: find the goal in one of four rooms.

Source: MiniGrid 3.2.0 `envs/fourrooms.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, GOAL, WALL
from shoal.grid.layout import choose, empty_room, place
from shoal.grid.level import GridState, Level, begin

SIDE, MIDDLE = 19, 9


@env("MiniGrid-FourRooms-v0")
@struct
class FourRooms(Level):
    """Reach the goal, which may be in another room.

    Start: two walls cross in the middle, and each half of them has an opening at a random position. Agent and goal are
    in random cells, or at `agent_pos` and `goal_pos`, where they replace a wall if there is one. The agent's direction
    is random.
    Time limit: 100 steps. Actions, observation, reward and end: see `Level`.

    Difference from MiniGrid: if `goal_pos` is set and `agent_pos` is not, the agent never starts on the goal.
    """

    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "reach the goal"

    agent_pos: tuple[int, int] | None = static(None, help="column and row where the agent starts; None: random")
    goal_pos: tuple[int, int] | None = static(None, help="column and row of the goal; None: random")

    def __post_init__(self) -> None:
        for name, position in (("agent_pos", self.agent_pos), ("goal_pos", self.goal_pos)):
            if position is not None and not (len(position) == 2 and all(1 <= index <= SIDE - 2 for index in position)):
                raise ValueError(
                    f"{name}={position} is not inside the outer walls: columns and rows are 1 to {SIDE - 2}."
                )
        if self.agent_pos is not None and self.agent_pos == self.goal_pos:
            raise ValueError(f"agent_pos and goal_pos are both {self.goal_pos}: the agent cannot start on the goal.")

    @property
    def shape(self) -> tuple[int, int]:
        """(19, 19)."""
        return SIDE, SIDE

    @property
    def time_limit(self) -> int:
        """100 steps."""
        return 100

    def init(self, key: Key) -> GridState:
        """Sample openings, agent and goal, in MiniGrid's order."""
        k_openings, k_agent, k_direction, k_goal = jax.random.split(key, 4)
        rooms = empty_room(*self.shape)
        rooms[MIDDLE, :] = WALL
        rooms[:, MIDDLE] = WALL
        upper, lower, left, right = jax.random.randint(k_openings, (4,), 1, MIDDLE)
        is_open = cell_mask(self.shape, MIDDLE, upper) | cell_mask(self.shape, MIDDLE, MIDDLE + lower)
        is_open |= cell_mask(self.shape, left, MIDDLE) | cell_mask(self.shape, MIDDLE + right, MIDDLE)
        grid = jnp.where(is_open, EMPTY, rooms)
        if self.goal_pos is not None:
            grid = jnp.where(cell_mask(self.shape, *self.goal_pos), GOAL, grid)
        if self.agent_pos is not None:
            x, y = self.agent_pos
            grid = jnp.where(cell_mask(self.shape, x, y), EMPTY, grid)
        else:
            x, y = choose(k_agent, grid == EMPTY)
        if self.goal_pos is None:
            grid, _, _ = place(k_goal, grid, GOAL, ~cell_mask(self.shape, x, y))
        return GridState(**begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)))
