"""DoorsImitation: through a gap in the wall to a goal that cannot be seen, but that an expert would know.

Source: Yasin Yousif, "Hands-On Imitation Learning: From Behavior Cloning to Multi-Modal Imitation Learning" (2024), and
its code (engyasin/ilsurvey): `Doors`.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int8, Integer, UInt8

from shoal.core.env import Env, Key, State
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.gridworlds.doors import (
    ACTIONS,
    GOAL_COLOR,
    WALKER,
    at,
    check_doors,
    distance,
    in_wall,
    random_column,
    walked,
    wall_mask,
    wall_picture,
    where,
)

WALL, FREE, AGENT, START = np.int8(-1), np.int8(0), np.int8(1), np.int8(2)  # what an observation shows of a cell
START_COLOR = (235, 200, 90)


@struct
class DoorsImitationState(State):
    """Where one stands, and where one started."""

    row: UInt8[Array, ""]
    column: UInt8[Array, ""]
    start_column: UInt8[Array, ""]
    is_marked: Bool[Array, ""]  # the mark on the first cell, which it is forbidden to enter again


@env("DoorsImitation-v0")
@struct
class DoorsImitation(Env):
    """Walk from the last row to the mirrored place in the first, through one of the gaps in the wall between them.

    Action: Discrete(5); 0 stay, 1 right, 2 down, 3 left, 4 up. Walls and borders stop a move.

    Observation: Box(-1, 2), int8, one number a cell, row by row: -1 wall, 0 free, 1 oneself, 2 the cell that one
    started from. The goal is not shown; the mark on the start tells where it is.

    Reward: the distance to the goal (straight, in cells) before the step, less that after it: whatever the way, an
    episode adds up to the distance at its start less that at its end.
    Start: in the last row, in a uniform column c; the goal is in column `columns` - 1 - c of the first row.
    End: truncated after `max_steps` (32), never terminated: an expert who is at the goal stays there.
    The wall is row `rows // 2`; its gaps are in columns g - 1, 2g - 1, ... with g = `columns // doors`.
    The mark is the article's: at first it hides oneself; it blocks like a wall once one has left it; and it vanishes
    when the first action does not lead away.
    Differences from the code of the article: the observation's floats hold whole numbers, so they are int8 here.
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
        """Wall, free, oneself, start."""
        return Box(-1, 2, (self.rows * self.columns,), np.int8)

    @property
    def action_space(self) -> Discrete:
        """Stay, or four directions."""
        return Discrete(len(ACTIONS))

    def init(self, key: Key) -> DoorsImitationState:
        """On a marked cell of the last row."""
        column = random_column(key, self.columns)
        return DoorsImitationState(jnp.int32(0), jnp.uint8(self.rows - 1), column, column, jnp.bool_(True))

    def transition(
        self, state: DoorsImitationState, action: Integer[Array, ""], noise: None
    ) -> tuple[DoorsImitationState, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Walk, unless there is a wall or the mark."""
        del noise
        here = state.row, state.column
        there = walked(here, action, (self.rows, self.columns))
        on_mark = state.is_marked & (there[0] == self.rows - 1) & (there[1] == state.start_column)
        blocked = on_mark | in_wall(there, self.rows // 2, self.gaps)
        there = where(blocked, here, there)
        goal_column = self.goal_column(state)
        reward = distance(here, goal_column) - distance(there, goal_column)
        is_marked = state.is_marked & ((state.time > 1) | ~blocked)
        return state.replace(row=there[0], column=there[1], is_marked=is_marked), reward, jnp.bool_(False), {}

    def observe(self, state: DoorsImitationState) -> Int8[Array, "RC"]:
        """The grid from above."""
        shape = self.rows, self.columns
        grid = jnp.asarray(np.where(wall_mask(shape, self.gaps), WALL, FREE))
        grid = jnp.where(at((state.row, state.column), shape), AGENT, grid)
        start = at((jnp.uint8(self.rows - 1), state.start_column), shape)
        return jnp.where(start & state.is_marked, START, grid)

    def goal_column(self, state: DoorsImitationState) -> UInt8[Array, ""]:
        """The column of the goal, which no observation shows."""
        return jnp.uint8(self.columns - 1) - state.start_column

    def render(self, state: DoorsImitationState) -> UInt8[np.ndarray, "H W 3"]:
        """The wall, the mark, oneself, and a pale flag on the goal that agents do not see."""
        board = wall_picture((self.rows, self.columns), self.gaps)
        board.flag((0, int(self.goal_column(state))), GOAL_COLOR)
        if state.is_marked:
            board.tile((self.rows - 1, int(state.start_column)), START_COLOR, 0.04)
        board.person((int(state.row), int(state.column)), WALKER)
        return board.pixels()
