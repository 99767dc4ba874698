"""Doors: walk through a gap in the wall to a goal that is observed."""

import functools
import operator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, UInt8

from shoal.canvas import WHITE, Board
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Discrete, MultiDiscrete
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.envs.gridworlds.moves import LONGEST, moved

FREE, AGENT, WALL, GOAL = range(4)  # values of a cell in an observation
ACTIONS = ("stay", "right", "down", "left", "up")
GROUND, BRICK, GOAL_COLOR, WALKER = (245, 245, 240), (120, 75, 60), (60, 160, 90), (50, 100, 190)
Cell = tuple[UInt8[Array, ""], UInt8[Array, ""]]  # row, column


@struct
class DoorsState(State):
    """Row and column of the agent, and the column of the goal. The goal is in row 0."""

    row: UInt8[Array, ""]
    column: UInt8[Array, ""]
    goal_column: UInt8[Array, ""]


@env("Doors-v0")
@struct
class Doors(Env):
    """Walk from the last row to the goal in the first, through one of the gaps in the wall between them.

    Source: Yasin Yousif's article "Speeding up Training of Model-Free RL" (2025) and its code (`DoorsGym` in
    github.com/engyasin/ilsurvey).

    Action: Discrete(5); 0 stay, 1 right, 2 down, 3 left, 4 up. Walls and borders stop a move.

    Observation: MultiDiscrete(4, ... 4), uint8; the cells row by row: 0 free, 1 agent, 2 wall, 3 goal. At the goal, the
    agent is shown.

    Reward: the Euclidean distance to the goal, in cells, before the step minus the distance after it. The return of an
    episode that reaches the goal is the distance at the start: 14 to 19.8 cells in a 15 x 15 grid.
    Start: the agent is in the last row, the goal in the first row; both columns are uniform and independent.
    End: terminated at the goal; truncated after `max_steps` (25, which is too short for 12 of the 225 pairs of
    columns; 28 is enough for all).
    The wall is row `rows // 2`; its gaps are in columns 0, g, 2g, ... with g = `columns // doors`.
    Differences from that code: its Gymnasium version samples columns from a generator that is seeded with
    the last positions; its JAX version samples both columns from one key, so that they are equal, and rewards blocked
    moves. If `doors` does not divide `columns`, both have one gap more; here there are exactly `doors` gaps.
    """

    reset_every: ClassVar[int] = 25

    rows: int = static(15)
    columns: int = static(15)
    doors: int = static(3)
    max_steps: Number | None = 25

    def __post_init__(self) -> None:
        check_doors(self)

    @property
    def gaps(self) -> tuple[int, ...]:
        """The columns of the gaps in the wall."""
        return tuple(door * (self.columns // self.doors) for door in range(self.doors))

    @property
    def observation_space(self) -> MultiDiscrete:
        """Four values for each cell."""
        return MultiDiscrete((4,) * (self.rows * self.columns), np.uint8)

    @property
    def action_space(self) -> Discrete:
        """Stay, or one of four directions."""
        return Discrete(len(ACTIONS))

    def init(self, key: Key) -> DoorsState:
        """The first state: the agent in the last row, the goal in the first row, both in random columns."""
        k_agent, k_goal = jax.random.split(key)
        columns = (random_column(k, self.columns) for k in (k_agent, k_goal))
        return DoorsState(jnp.int32(0), jnp.uint8(self.rows - 1), *columns)

    def transition(self, state: DoorsState, action: Integer[Array, ""], noise: None) -> Transition[DoorsState]:
        """Move one cell unless a wall is there; then compute reward and termination."""
        del noise
        cell = state.row, state.column
        next_cell = neighbor(cell, action, (self.rows, self.columns))
        next_cell = select(in_wall(next_cell, self.rows // 2, self.gaps), cell, next_cell)
        reward = distance(cell, state.goal_column) - distance(next_cell, state.goal_column)
        at_goal = (next_cell[0] == 0) & (next_cell[1] == state.goal_column)
        return state.replace(row=next_cell[0], column=next_cell[1]), reward, at_goal, {}

    def observe(self, state: DoorsState) -> UInt8[Array, "RC"]:
        """All cells, row by row: [rows x columns]."""
        shape = self.rows, self.columns
        grid = jnp.asarray(np.where(wall_mask(shape, self.gaps), np.uint8(WALL), np.uint8(FREE)))
        grid = jnp.where(cell_mask((jnp.uint8(0), state.goal_column), shape), np.uint8(GOAL), grid)
        return jnp.where(cell_mask((state.row, state.column), shape), np.uint8(AGENT), grid)

    def render(self, state: DoorsState) -> UInt8[np.ndarray, "H W 3"]:
        """The wall, the goal and the agent."""
        board = wall_picture((self.rows, self.columns), self.gaps)
        goal = (0, int(state.goal_column))
        board.tile(goal, GOAL_COLOR, 0.04)
        board.flag(goal, WHITE)
        board.person((int(state.row), int(state.column)), WALKER)
        return board.pixels()


# Functions that Doors and DoorsImitation share.


def check_doors(env: Env) -> None:
    """Raise ValueError if the grid is too small or too large, or if `doors` is not in 1, ..., `columns`."""
    check_range(env, "rows", low=3, high=LONGEST, whole=True)
    check_range(env, "columns", low=1, high=LONGEST, whole=True)
    doors, columns = env.doors, env.columns  # type: ignore[attr-defined]  # both classes have them
    if not 1 <= doors <= columns:
        raise ValueError(f"doors={doors} do not fit into a wall of {columns} cells: give 1 to {columns}.")


def random_column(key: Key, columns: int) -> UInt8[Array, ""]:
    """A uniformly random column. `key` is consumed."""
    return jax.random.randint(key, (), 0, columns).astype(jnp.uint8)


def neighbor(cell: Cell, action: Integer[Array, ""], shape: tuple[int, int]) -> Cell:
    """The cell that an action leads to, without regard to walls; borders stop the move."""
    right, down, left, up = (action == ACTIONS.index(name) for name in ("right", "down", "left", "up"))
    return moved(cell[0], down, up, shape[0]), moved(cell[1], right, left, shape[1])


def in_wall(cell: Cell, wall_row: int, gaps: tuple[int, ...]) -> Bool[Array, ""]:
    """Whether a cell is part of the wall."""
    return (cell[0] == wall_row) & ~functools.reduce(operator.or_, (cell[1] == gap for gap in gaps))


def select(flag: Bool[Array, ""], yes: Cell, no: Cell) -> Cell:
    """`yes` where `flag` is true, else `no`."""
    return jnp.where(flag, yes[0], no[0]), jnp.where(flag, yes[1], no[1])


def distance(cell: Cell, goal_column: UInt8[Array, ""]) -> Float[Array, ""]:
    """Euclidean distance from a cell to a goal in the first row, in cells."""
    down, right = cell[0].astype(jnp.float32), cell[1].astype(jnp.float32) - goal_column.astype(jnp.float32)
    return jnp.sqrt(down * down + right * right)


def cell_mask(cell: Cell, shape: tuple[int, int]) -> Bool[Array, "RC"]:
    """A mask of all cells, row by row, that is true at this cell."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return (cell[0] == rows.astype(np.uint8)) & (cell[1] == columns.astype(np.uint8))


def wall_mask(shape: tuple[int, int], gaps: tuple[int, ...]) -> Bool[np.ndarray, "RC"]:
    """A mask of all cells, row by row, that is true at the wall."""
    wall = np.zeros(shape, bool)
    wall[shape[0] // 2] = True
    wall[shape[0] // 2, list(gaps)] = False
    return wall.ravel()


def wall_picture(shape: tuple[int, int], gaps: tuple[int, ...]) -> Board:
    """A picture of the grid with its wall."""
    board = Board(*shape, ground=GROUND)
    for index in np.flatnonzero(wall_mask(shape, gaps)):
        board.tile(divmod(int(index), shape[1]), BRICK)
    return board
