"""GridWorld: find the goal in an empty grid."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer, UInt, UInt8

from shoal.canvas import WHITE, Board
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Discrete, MultiDiscrete
from shoal.core.struct import Number, is_concrete, static, struct
from shoal.envs.checks import check_range
from shoal.envs.gridworlds.moves import LONGEST, moved

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))  # right, down, left, up: (rows down, columns right)
MIN_START = 3  # the smallest row and column of a random start
GROUND, GOAL, WALKER = (245, 245, 240), (60, 160, 90), (50, 100, 190)


@struct
class GridWorldState(State):
    """The cell of the agent."""

    row: UInt8[Array, ""]
    column: UInt8[Array, ""]


@env("GridWorld-v0")
@struct
class GridWorld(Env):
    """Walk to the goal in an empty grid. With the default 8 x 12 cells it is 18 steps from corner to corner.

    Source: Ryan Pegoud's article "Vectorize and Parallelize RL Environments with JAX: Q-learning at the Speed of Light"
    and its code (github.com/RPegoud/jym).

    Action: Discrete(4); 0 right, 1 down, 2 left, 3 up. Borders stop a move.

    Observation: MultiDiscrete(rows, columns), uint8; row and column of the agent. With `observation="index"`
    Discrete(rows x columns), row x columns + column, for tabular agents.

    Reward: 1 on the step that reaches the goal, otherwise 0.
    Start: in the cell (`start_row`, `start_column`), by default the last cell; with `random_start` a uniformly random
    cell with row >= 3 and column >= 3.
    End: terminated at the goal. By default there is no time limit; a random policy needs about 600 steps.
    Differences from that article: the reward is a float; the final observation shows the goal, not the start of the
    next episode.
    """

    reset_every: ClassVar[int] = 300
    action_names: ClassVar[tuple[str, ...]] = ("right", "down", "left", "up")

    rows: int = static(8)
    columns: int = static(12)
    random_start: bool = static(False, choices=(False, True))
    observation: str = static("position", choices=("position", "index"))
    goal_row: Number = 0
    goal_column: Number = 0
    start_row: Number | None = None  # None: the last row
    start_column: Number | None = None  # None: the last column
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        least = MIN_START + 1 if self.random_start else 1
        for size, *cell_fields in (("rows", "goal_row", "start_row"), ("columns", "goal_column", "start_column")):
            check_range(self, size, low=least, high=LONGEST, whole=True)
            for field in cell_fields:
                check_range(self, field, low=0, high=getattr(self, size) - 1, whole=True)
        if self.random_start and (self.start_row is not None or self.start_column is not None):
            raise ValueError("start_row and start_column have no effect with random_start=True: leave them out.")
        self._check_goal()
        if self.observation not in ("position", "index"):
            raise ValueError(f"observation={self.observation!r} is unknown. Choose 'position' or 'index'.")

    @property
    def start(self) -> tuple[Number, Number]:
        """Row and column of the start without `random_start`."""
        row, column = self.start_row, self.start_column
        return (self.rows - 1 if row is None else row), (self.columns - 1 if column is None else column)

    @property
    def observation_space(self) -> MultiDiscrete | Discrete:
        """(Row, column), or the index of the cell."""
        if self.observation == "index":
            return Discrete(self.rows * self.columns, self._index_dtype)
        return MultiDiscrete((self.rows, self.columns), np.uint8)

    @property
    def action_space(self) -> Discrete:
        """One of four directions."""
        return Discrete(len(MOVES))

    def init(self, key: Key) -> GridWorldState:
        """The first state: the agent at the start."""
        row, column = self.start
        if self.random_start:
            k_row, k_column = jax.random.split(key)
            row = jax.random.randint(k_row, (), MIN_START, self.rows)
            column = jax.random.randint(k_column, (), MIN_START, self.columns)
        return GridWorldState(jnp.int32(0), jnp.asarray(row, jnp.uint8), jnp.asarray(column, jnp.uint8))

    def transition(self, state: GridWorldState, action: Integer[Array, ""], noise: None) -> Transition[GridWorldState]:
        """Move one cell; then compute reward and termination."""
        del noise
        right, down, left, up = (action == number for number in range(len(MOVES)))
        row = moved(state.row, down, up, self.rows)
        column = moved(state.column, right, left, self.columns)
        goal_row, goal_column = (jnp.asarray(field, jnp.uint8) for field in (self.goal_row, self.goal_column))
        at_goal = (row == goal_row) & (column == goal_column)
        return state.replace(row=row, column=column), at_goal.astype(jnp.float32), at_goal, {}

    def observe(self, state: GridWorldState) -> UInt[Array, "..."]:
        """Row and column [2], or the index of the cell."""
        if self.observation == "index":
            dtype = self._index_dtype
            return state.row.astype(dtype) * dtype.type(self.columns) + state.column.astype(dtype)
        return jnp.stack([state.row, state.column])

    def render(self, state: GridWorldState) -> UInt8[np.ndarray, "H W 3"]:
        """The grid, a flag at the goal, and the agent."""
        board = Board(self.rows, self.columns, ground=GROUND)
        board.tile((int(self.goal_row), int(self.goal_column)), GOAL, 0.04)
        board.flag((int(self.goal_row), int(self.goal_column)), WHITE)
        board.person((int(state.row), int(state.column)), WALKER)
        return board.pixels()

    def _check_goal(self) -> None:
        goal = (self.goal_row, self.goal_column)
        if not all(is_concrete(field) for field in (*goal, *self.start)):
            return
        if self.random_start and np.any((np.asarray(goal[0]) >= MIN_START) & (np.asarray(goal[1]) >= MIN_START)):
            raise ValueError(
                f"the goal in row {goal[0]}, column {goal[1]} may be the random start, which has row and column of at "
                f"least {MIN_START}: choose a goal above or to the left of that."
            )
        same = (np.asarray(goal[0]) == np.asarray(self.start[0])) & (np.asarray(goal[1]) == np.asarray(self.start[1]))
        if not self.random_start and np.any(same):
            raise ValueError(f"start and goal are both in row {goal[0]}, column {goal[1]}: move one of them.")

    @property
    def _index_dtype(self) -> np.dtype:
        return np.min_scalar_type(self.rows * self.columns - 1)
