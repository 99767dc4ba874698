"""Doors: through a gap in the wall to a goal that can be seen.

Source: Yasin Yousif, "Speeding up Training of Model-Free RL" (2025), and its code (engyasin/ilsurvey): `DoorsGym`, with
what goes wrong in its JAX twin put right.
"""

import functools
import operator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, UInt8

from shoal.canvas import WHITE, Board
from shoal.core.env import Env, Key, State
from shoal.core.registry import env
from shoal.core.spaces import Discrete, MultiDiscrete
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.envs.gridworlds.moves import LONGEST, moved

FREE, AGENT, WALL, GOAL = range(4)  # what an observation shows of a cell
ACTIONS = ("stay", "right", "down", "left", "up")
GROUND, BRICK, GOAL_COLOR, WALKER = (245, 245, 240), (120, 75, 60), (60, 160, 90), (50, 100, 190)
Cell = tuple[UInt8[Array, ""], UInt8[Array, ""]]  # row, column


@struct
class DoorsState(State):
    """Where one stands, and where the goal is in the first row."""

    row: UInt8[Array, ""]
    column: UInt8[Array, ""]
    goal_column: UInt8[Array, ""]


@env("Doors-v0")
@struct
class Doors(Env):
    """Walk from the last row to the goal in the first, through one of the gaps in the wall between them.

    Action: Discrete(5); 0 stay, 1 right, 2 down, 3 left, 4 up. Walls and borders stop a move.

    Observation: MultiDiscrete(4, ... 4), uint8; the cells row by row: 0 free, 1 oneself, 2 wall, 3 goal. Oneself covers
    the goal.

    Reward: the distance to the goal (straight, in cells) before the step, less that after it. A way to the goal adds
    up to the distance at the start, 14 to 19.8 cells in a 15 x 15 grid.
    Start: in the last row; the goal is in the first. Both columns are uniform, and independent of each other.
    End: terminated at the goal; truncated after `max_steps` (25, which is too short for
    12 of the 225 pairs of columns; 28 is enough for all).
    The wall is row `rows // 2`; its gaps are in columns 0, g, 2g, ... with g = `columns // doors`.
    Differences from the code of the article: its Gymnasium version draws columns from a generator that is seeded with
    the last positions; its JAX version draws both columns from one key, so that they are equal, and pays for blocked
    moves. Where `doors` does not divide the number of columns they add a gap; here there are as many as asked for.
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
        """Four kinds of cells."""
        return MultiDiscrete((4,) * (self.rows * self.columns), np.uint8)

    @property
    def action_space(self) -> Discrete:
        """Stay, or four directions."""
        return Discrete(len(ACTIONS))

    def init(self, key: Key) -> DoorsState:
        """Oneself below, the goal above."""
        k_agent, k_goal = jax.random.split(key)
        columns = (random_column(k, self.columns) for k in (k_agent, k_goal))
        return DoorsState(jnp.int32(0), jnp.uint8(self.rows - 1), *columns)

    def transition(
        self, state: DoorsState, action: Integer[Array, ""], noise: None
    ) -> tuple[DoorsState, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Walk, unless there is a wall."""
        del noise
        here = state.row, state.column
        there = walked(here, action, (self.rows, self.columns))
        there = where(in_wall(there, self.rows // 2, self.gaps), here, there)
        reward = distance(here, state.goal_column) - distance(there, state.goal_column)
        arrived = (there[0] == 0) & (there[1] == state.goal_column)
        return state.replace(row=there[0], column=there[1]), reward, arrived, {}

    def observe(self, state: DoorsState) -> UInt8[Array, "RC"]:
        """The grid from above."""
        shape = self.rows, self.columns
        grid = jnp.asarray(np.where(wall_mask(shape, self.gaps), np.uint8(WALL), np.uint8(FREE)))
        grid = jnp.where(at((jnp.uint8(0), state.goal_column), shape), np.uint8(GOAL), grid)
        return jnp.where(at((state.row, state.column), shape), np.uint8(AGENT), grid)

    def render(self, state: DoorsState) -> UInt8[np.ndarray, "H W 3"]:
        """The wall, the goal and oneself."""
        board = wall_picture((self.rows, self.columns), self.gaps)
        goal = (0, int(state.goal_column))
        board.tile(goal, GOAL_COLOR, 0.04)
        board.flag(goal, WHITE)
        board.person((int(state.row), int(state.column)), WALKER)
        return board.pixels()


# What both kinds of doors share.


def check_doors(env: Env) -> None:
    """Raise ValueError for sizes that leave no room, or a number of doors that the wall has no room for."""
    check_range(env, "rows", low=3, high=LONGEST, whole=True)
    check_range(env, "columns", low=1, high=LONGEST, whole=True)
    doors, columns = env.doors, env.columns  # type: ignore[attr-defined]  # both kinds have them
    if not 1 <= doors <= columns:
        raise ValueError(f"doors={doors} do not fit into a wall of {columns} cells: 1 to {columns}.")


def random_column(key: Key, columns: int) -> UInt8[Array, ""]:
    """A uniform column. `key` is consumed."""
    return jax.random.randint(key, (), 0, columns).astype(jnp.uint8)


def walked(cell: Cell, action: Integer[Array, ""], shape: tuple[int, int]) -> Cell:
    """The cell that an action leads to, walls apart."""
    right, down, left, up = (action == ACTIONS.index(name) for name in ("right", "down", "left", "up"))
    return moved(cell[0], down, up, shape[0]), moved(cell[1], right, left, shape[1])


def in_wall(cell: Cell, wall_row: int, gaps: tuple[int, ...]) -> Bool[Array, ""]:
    """Whether a cell is wall."""
    return (cell[0] == wall_row) & ~functools.reduce(operator.or_, (cell[1] == gap for gap in gaps))


def where(flag: Bool[Array, ""], yes: Cell, no: Cell) -> Cell:
    """One cell or the other."""
    return jnp.where(flag, yes[0], no[0]), jnp.where(flag, yes[1], no[1])


def distance(cell: Cell, goal_column: UInt8[Array, ""]) -> Float[Array, ""]:
    """From a cell straight to a goal in the first row."""
    down, right = cell[0].astype(jnp.float32), cell[1].astype(jnp.float32) - goal_column.astype(jnp.float32)
    return jnp.sqrt(down * down + right * right)


def at(cell: Cell, shape: tuple[int, int]) -> Bool[Array, "RC"]:
    """Which of the cells, row by row, is this one."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return (cell[0] == rows.astype(np.uint8)) & (cell[1] == columns.astype(np.uint8))


def wall_mask(shape: tuple[int, int], gaps: tuple[int, ...]) -> Bool[np.ndarray, "RC"]:
    """Which of the cells, row by row, are wall."""
    wall = np.zeros(shape, bool)
    wall[shape[0] // 2] = True
    wall[shape[0] // 2, list(gaps)] = False
    return wall.ravel()


def wall_picture(shape: tuple[int, int], gaps: tuple[int, ...]) -> Board:
    """The grid with its wall."""
    board = Board(*shape, ground=GROUND)
    for index in np.flatnonzero(wall_mask(shape, gaps)):
        board.tile(divmod(int(index), shape[1]), BRICK)
    return board
