"""Catch: move a paddle under a falling ball.

Source: Mnih et al. 2014, "Recurrent Models of Visual Attention"; bsuite 0.3.6 `environments/catch.py`, step for step.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, UInt8

from shoal.canvas import Canvas, box
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real, cells
from shoal.envs.checks import check_range

SKY, GRID, BALL, PADDLE = (236, 242, 248), (214, 224, 234), (214, 69, 65), (45, 84, 130)


@struct
class CatchState(State):
    """Columns of ball and paddle. The row of the ball is the time."""

    ball: Int8[Array, ""]
    paddle: Int8[Array, ""]
    misses: Int[Array, ""]  # in all episodes so far


@experiment("catch", aliases={0: "Catch-bsuite"})
@struct
class Catch(Task):
    """A ball falls one row per step from a random column; catch it with the paddle in the last row.

    Action: Discrete(3); 0 moves the paddle one column left, 1 does not move it, 2 moves it right. Walls stop it.

    Observation: Box(`rows`, `columns`), bool: true in the cells of ball and paddle.

    Reward: 0; on the last step 1 if the ball is caught, else -1.
    Start: the ball is in a uniformly random column of the first row, the paddle in the middle of the last row.
    End: terminated when the ball reaches the last row, after `rows` - 1 steps.
    Differences from bsuite: the board is bool, not float32.
    """

    COUNTERS = ("misses",)

    rows: int = static(10)
    columns: int = static(5)

    def __post_init__(self) -> None:
        check_range(self, "rows", low=2, high=127, whole=True)
        check_range(self, "columns", low=1, high=127, whole=True)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # depends on the size
        """The number of steps of every episode."""
        return self.longest_episode

    @property
    def longest_episode(self) -> int:
        """The number of rows that the ball falls."""
        return self.rows - 1

    @property
    def observation_space(self) -> Box:
        """The board."""
        return Box(0, 1, (self.rows, self.columns), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """Left, do not move, right."""
        return Discrete(3)

    def init(self, key: Key) -> CatchState:
        """The first state: the ball in a random column."""
        ball = jax.random.randint(key, (), 0, self.columns).astype(jnp.int8)
        return CatchState(jnp.int32(0), ball, jnp.int8(self.columns // 2), jnp.int32(0))

    def transition(self, state: CatchState, action: Int[Array, ""], noise: None) -> Transition[CatchState]:
        """Move paddle and ball one step; then compute reward, termination and the counter."""
        del noise
        paddle = jnp.clip(state.paddle + (action - 1).astype(jnp.int8), 0, self.columns - 1)
        landed, caught = state.time == self.rows - 1, paddle == state.ball
        reward = landed.astype(jnp.float32) * jnp.where(caught, jnp.float32(1), jnp.float32(-1))
        misses = state.misses + (landed & ~caught).astype(jnp.int32)
        return state.replace(paddle=paddle, misses=misses), reward, landed, {}

    def observe(self, state: CatchState) -> Bool[Array, "rows columns"]:
        """The board: true in the cells of ball and paddle."""
        cell = cells(self.rows * self.columns)
        ball = state.time.astype(cell.dtype) * self.columns + state.ball.astype(cell.dtype)
        paddle = state.paddle.astype(cell.dtype) + (self.rows - 1) * self.columns
        return ((cell == ball) | (cell == paddle)).reshape(self.rows, self.columns)

    def bsuite_info(self, state: CatchState) -> dict[str, Float[Array, ""]]:
        """The regret: 2 for each missed ball."""
        return {"total_regret": 2.0 * as_real(state.misses)}

    def render(self, state: CatchState) -> UInt8[np.ndarray, "H W 3"]:
        """The board with a red ball and a blue paddle."""
        canvas = Canvas(40 * self.columns, 40 * self.rows, window=(0, self.rows, self.columns, 0), background=SKY)
        for column in range(1, self.columns):
            canvas.line([(column, 0), (column, self.rows)], GRID, 0.02)
        for row in range(1, self.rows):
            canvas.line([(0, row), (self.columns, row)], GRID, 0.02)
        paddle, ball = int(state.paddle), int(state.ball)
        canvas.polygon(box(paddle + 0.05, self.rows - 0.1, paddle + 0.95, self.rows - 0.35), PADDLE)
        canvas.circle((ball + 0.5, int(state.time) + 0.5), 0.35, BALL)
        return canvas.pixels()
