"""DoorsImitation: walk through a gap in the wall to a goal that is not observed, but follows from the start."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Integer, UInt8

from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.gridworlds.doors import (
    ACTIONS,
    GOAL_COLOR,
    WALKER,
    cell_mask,
    check_doors,
    distance,
    in_wall,
    neighbor,
    random_column,
    select,
    wall_mask,
    wall_picture,
)

WALL, FREE, AGENT, START = np.int8(-1), np.int8(0), np.int8(1), np.int8(2)  # values of a cell in an observation
START_COLOR = (235, 200, 90)


@struct
class DoorsImitationState(State):
    """Row and column of the agent, and the column of its first cell (in the last row)."""

    row: UInt8[Array, ""]
    column: UInt8[Array, ""]
    start_column: UInt8[Array, ""]
    is_marked: Bool[Array, ""]  # whether the first cell is still marked; a marked cell cannot be entered


@env("DoorsImitation-v0")
@struct
class DoorsImitation(Env):
    """Walk from the last row to the mirrored column of the first row, through one of the gaps in the wall between them.

    Source: Yasin Yousif's article "Hands-On Imitation Learning: From Behavior Cloning to Multi-Modal Imitation
    Learning" (2024) and its code (`Doors` in github.com/engyasin/ilsurvey).

    Action: Discrete(5); 0 stay, 1 right, 2 down, 3 left, 4 up. Walls and borders stop a move.

    Observation: Box(`rows` x `columns`), int8, from -1 to 2; the cells row by row: -1 wall, 0 free, 1 agent, 2 the mark
    on the first cell. The goal is not shown; its column follows from that of the mark.

    Reward: the Euclidean distance to the goal, in cells, before the step minus the distance after it. The return of an
    episode is the distance at the start minus the distance at the end.
    Start: in the last row, in a uniformly random column c; the goal is in column `columns` - 1 - c of the first row.
    End: truncated after `max_steps` (32), never terminated: an expert that has reached the goal stays there.
    The wall is row `rows // 2`; its gaps are in columns g - 1, 2g - 1, ... with g = `columns // doors`.
    The mark works as in that code: at the start it hides the agent; after the agent has left, it blocks like a wall;
    and it is removed if the first action does not leave the cell.
    Differences from that code: the observation is int8 (there: whole numbers as floats).
    """

    reset_every: ClassVar[int] = 32

    rows: int = static(15)
    columns: int = static(15)
    doors: int = static(3)
    max_steps: Number | None = 32

    def __post_init__(self) -> None:
        check_doors(self)

    @property
    def gaps(self) -> tuple[int, ...]:
        """The columns of the gaps in the wall."""
        return tuple((door + 1) * (self.columns // self.doors) - 1 for door in range(self.doors))

    @property
    def observation_space(self) -> Box:
        """One value from -1 to 2 for each cell."""
        return Box(-1, 2, (self.rows * self.columns,), np.int8)

    @property
    def action_space(self) -> Discrete:
        """Stay, or one of four directions."""
        return Discrete(len(ACTIONS))

    def init(self, key: Key) -> DoorsImitationState:
        """The first state: in a random column of the last row, on a marked cell."""
        column = random_column(key, self.columns)
        return DoorsImitationState(jnp.int32(0), jnp.uint8(self.rows - 1), column, column, jnp.bool_(True))

    def transition(
        self, state: DoorsImitationState, action: Integer[Array, ""], noise: None
    ) -> Transition[DoorsImitationState]:
        """Move one cell unless a wall or the mark is there; then compute the reward."""
        del noise
        cell = state.row, state.column
        next_cell = neighbor(cell, action, (self.rows, self.columns))
        on_mark = state.is_marked & (next_cell[0] == self.rows - 1) & (next_cell[1] == state.start_column)
        blocked = on_mark | in_wall(next_cell, self.rows // 2, self.gaps)
        next_cell = select(blocked, cell, next_cell)
        goal_column = self.goal_column(state)
        reward = distance(cell, goal_column) - distance(next_cell, goal_column)
        is_marked = state.is_marked & ((state.time > 1) | ~blocked)
        return state.replace(row=next_cell[0], column=next_cell[1], is_marked=is_marked), reward, jnp.bool_(False), {}

    def observe(self, state: DoorsImitationState) -> Int8[Array, "RC"]:
        """All cells, row by row: [rows x columns]."""
        shape = self.rows, self.columns
        grid = jnp.asarray(np.where(wall_mask(shape, self.gaps), WALL, FREE))
        grid = jnp.where(cell_mask((state.row, state.column), shape), AGENT, grid)
        start = cell_mask((jnp.uint8(self.rows - 1), state.start_column), shape)
        return jnp.where(start & state.is_marked, START, grid)

    def goal_column(self, state: DoorsImitationState) -> UInt8[Array, ""]:
        """The column of the goal. It is not observed."""
        return jnp.uint8(self.columns - 1) - state.start_column

    def render(self, state: DoorsImitationState) -> UInt8[np.ndarray, "H W 3"]:
        """The wall, the mark, the agent, and a flag at the goal, which is not observed."""
        board = wall_picture((self.rows, self.columns), self.gaps)
        board.flag((0, int(self.goal_column(state))), GOAL_COLOR)
        if state.is_marked:
            board.tile((self.rows - 1, int(state.start_column)), START_COLOR, 0.04)
        board.person((int(state.row), int(state.column)), WALKER)
        return board.pixels()
