"""MetaMaze: find a goal that is not observed, again and again. The maze is the same for every task.

Source: Miconi, Clune and Stanley 2018, "Differentiable plasticity", section 4.4, and Miconi et al. 2019,
"Backpropamine"; github.com/uber-research/backpropamine `simplemaze/maze.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bounds import highest, lowest
from shoal.envs.checks import check_both_or_none, check_range, concrete_cells
from shoal.envs.meta.clock import elapsed
from shoal.envs.meta.picture import maze_picture


@struct
class MetaMazeState(State):
    """The cells of agent and goal, and the last action and reward."""

    row: Int[Array, ""]  # 0 is the outer wall at the top
    column: Int[Array, ""]  # 0 is the outer wall at the left
    goal_row: Int[Array, ""]
    goal_column: Int[Array, ""]
    action: Int[Array, ""]  # the last action; 0 at the start
    reward: Float[Array, ""]  # the last reward; 0 at the start


@env("MetaMaze-v0", aliases=("MetaMaze-misc",))
@struct
class MetaMaze(Env):
    """Find a goal that is not observed, remember its cell, and reach it again as often as possible.

    The maze has `maze_size` x `maze_size` cells (9) within an outer wall, and a pillar wherever row and column are both
    even (the outer wall is row 0 and column 0), except in the middle, which is always free.

    Action: Discrete(4); 0 up, 1 right, 2 down, 3 left. A move into a wall does nothing.

    Observation: Box(`view_size`^2 + 6), float32

    | part          | quantity                                                     |
    |---------------|--------------------------------------------------------------|
    | `view_size`^2 | the cells around the agent, row by row: 1 for a wall, else 0 |
    | 1             | the time as a fraction of `max_steps`, 0 to 1                |
    | 1             | the last reward; 0 at the start                              |
    | 4             | the last action, one-hot; action 0 at the start              |

    Reward: `goal_reward` (10) on reaching the goal, minus `wall_penalty` (0) for a move into a wall.
    Start: the agent in the middle, the goal in a random other free cell. When the agent reaches the goal, it is moved
    to a random free cell other than the goal, and the episode continues.
    End: never terminated; truncated after `max_steps` (200).
    To choose the task, set `goal_row` and `goal_column`, from 1 to `maze_size`. They may be traced.

    Differences from simplemaze: actions are numbered clockwise (there: up, down, left, right); the observation leaves
    out two entries that never change (a bias of 1, and one that is never set). Its size of 11 includes the outer wall.
    """

    reset_every: ClassVar[int] = 200

    goal_reward: Number = 10.0
    wall_penalty: Number = 0.0
    goal_row: Number | None = None
    goal_column: Number | None = None
    max_steps: Number | None = 200
    maze_size: int = static(9)
    view_size: int = static(3)

    def __post_init__(self) -> None:
        for name in ("maze_size", "view_size"):
            size = getattr(self, name)
            if size < 3 or size % 2 == 0:
                raise ValueError(f"MetaMaze.{name}={size} has no middle: give an odd number of cells, 3 or more.")
        check_range(self, "goal_reward", "wall_penalty")
        check_both_or_none(self, "goal_row", "goal_column")
        for row, column in concrete_cells(self.goal_row, self.goal_column):
            self._check_goal(row, column)

    @property
    def observation_space(self) -> Box:
        """The walls nearby, the time, the last reward and the last action."""
        rewards = [0.0, lowest(self.goal_reward), highest(self.goal_reward)]
        rewards += [-highest(self.wall_penalty), -lowest(self.wall_penalty)]
        view = self.view_size**2
        low = (0.0,) * view + (0.0, min(rewards)) + (0.0,) * 4
        high = (1.0,) * view + (1.0, max(rewards)) + (1.0,) * 4
        return Box(low, high, (view + 6,))

    @property
    def action_space(self) -> Discrete:
        """Up, right, down, left."""
        return Discrete(4)

    @property
    def num_cells(self) -> int:
        """The number of free cells."""
        pillars = (self.maze_size // 2) ** 2
        return self.maze_size**2 - pillars + int(self._middle_was_pillar)

    def init(self, key: Key) -> MetaMazeState:
        """The first state: the agent in the middle, the goal in a random other free cell, unless fields set it."""
        middle = jnp.int32(self._middle)
        if self.goal_row is None:
            index = jax.random.randint(key, (), 0, self.num_cells - 1, jnp.int32)
            goal = self._cell(_skipping(index, self._index(middle, middle)))
        else:
            goal = (jnp.asarray(self.goal_row, jnp.int32), jnp.asarray(self.goal_column, jnp.int32))
        return MetaMazeState(jnp.int32(0), middle, middle, *goal, action=jnp.int32(0), reward=jnp.float32(0))

    def noise(self, key: Key) -> Int[Array, ""]:
        """Where the agent is moved if it reaches the goal: the index of a free cell, counted without the goal.

        Free cells are counted row by row; a middle with even row and column is the last one.
        """
        others = self.num_cells - 1
        index = (jax.random.uniform(key, dtype=jnp.float32) * others).astype(jnp.int32)
        return jnp.minimum(index, others - 1)  # a number just below 1 times `others` may be rounded up to `others`

    def transition(
        self, state: MetaMazeState, action: Int[Array, ""], noise: Int[Array, ""]
    ) -> Transition[MetaMazeState]:
        """Move unless a wall is there; at the goal, give the reward and move the agent to another cell."""
        row = state.row + (action == 2).astype(jnp.int32) - (action == 0).astype(jnp.int32)
        column = state.column + (action == 1).astype(jnp.int32) - (action == 3).astype(jnp.int32)
        bumps = self._is_wall(row, column)
        row, column = jnp.where(bumps, state.row, row), jnp.where(bumps, state.column, column)
        at_goal = (row == state.goal_row) & (column == state.goal_column)
        reward = jnp.where(at_goal, self.goal_reward, 0.0) - jnp.where(bumps, self.wall_penalty, 0.0)
        reward = reward.astype(jnp.float32)
        other_row, other_column = self._cell(_skipping(noise, self._index(state.goal_row, state.goal_column)))
        state = state.replace(
            row=jnp.where(at_goal, other_row, row),
            column=jnp.where(at_goal, other_column, column),
            action=action,
            reward=reward,
        )
        return state, reward, jnp.bool_(False), {}

    def observe(self, state: MetaMazeState) -> Float[Array, "n"]:
        """The walls nearby, the time, the last reward and the last action."""
        # One expression for all entries, which selects the part for each: concatenating the parts costs twice as much.
        size = self.view_size**2
        entry = np.arange(size + 6, dtype=np.int32)
        in_view = entry < size
        row = state.row + np.where(in_view, entry // self.view_size - self.view_size // 2, 0).astype(np.int32)
        column = state.column + np.where(in_view, entry % self.view_size - self.view_size // 2, 0).astype(np.int32)
        bits = jnp.where(in_view, self._is_wall(row, column), entry - (size + 2) == state.action)
        numbers = jnp.where(entry == size, elapsed(state.time, self.max_steps), state.reward)
        return jnp.where((entry == size) | (entry == size + 1), numbers, bits.astype(jnp.float32))

    def render(self, state: MetaMazeState) -> UInt8[np.ndarray, "_ _ 3"]:
        """The maze, with a blue agent, the cells that it observes, and the green goal, which is not observed."""
        rows, columns = np.indices((self.maze_size + 2,) * 2, np.int32)
        walls = np.asarray(self._is_wall(jnp.asarray(rows), jnp.asarray(columns)))
        agent = (int(state.row), int(state.column))
        observed = np.maximum(abs(rows - agent[0]), abs(columns - agent[1])) <= self.view_size // 2
        return maze_picture(walls, agent, (int(state.goal_row), int(state.goal_column)), observed)

    @property
    def _middle(self) -> int:
        return (self.maze_size + 1) // 2

    @property
    def _middle_was_pillar(self) -> bool:
        return self._middle % 2 == 0

    def _is_wall(self, row: Int[Array, "..."], column: Int[Array, "..."]) -> Bool[Array, "..."]:
        outside = (row < 1) | (row > self.maze_size) | (column < 1) | (column > self.maze_size)
        pillar = (row | column) & 1 == 0
        return outside | (pillar & ~((row == self._middle) & (column == self._middle)))

    # Free cells are counted row by row. All cells of an odd row are free, and every second cell of an even row. Two
    # such rows are a band. The index is computed, not looked up in a table, because every step needs it.

    def _cell(self, index: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        size, half = self.maze_size, self._middle
        band, offset = jax.lax.div(index, jnp.int32(size + half)), jax.lax.rem(index, jnp.int32(size + half))
        in_odd_row = offset < size
        row = 2 * band + jnp.where(in_odd_row, 1, 2)
        column = jnp.where(in_odd_row, offset + 1, 2 * (offset - size) + 1)
        if not self._middle_was_pillar:
            return row, column
        last = index == self.num_cells - 1
        return jnp.where(last, self._middle, row), jnp.where(last, self._middle, column)

    def _index(self, row: Int[Array, ""], column: Int[Array, ""]) -> Int[Array, ""]:
        size, half = self.maze_size, self._middle
        band = (row - 1) >> 1
        offset = jnp.where(row & 1 == 1, column - 1, size + ((column - 1) >> 1))
        index = band * (size + half) + offset
        if not self._middle_was_pillar:
            return index
        return jnp.where((row == half) & (column == half), self.num_cells - 1, index)

    def _check_goal(self, row: float, column: float) -> None:
        cell = f"the goal ({row}, {column}) of a maze of {self.maze_size} x {self.maze_size} cells"
        if not all(1 <= x <= self.maze_size and x == int(x) for x in (row, column)):
            raise ValueError(f"{cell} lies outside: rows and columns are whole numbers from 1 to {self.maze_size}.")
        if (row, column) == (self._middle, self._middle):
            raise ValueError(f"{cell} is the middle, where the agent starts: choose another cell.")
        if row % 2 == 0 and column % 2 == 0:
            raise ValueError(f"{cell} is a pillar: at least one of row and column must be odd.")


def _skipping(index: Int[Array, ""], left_out: Int[Array, ""]) -> Int[Array, ""]:
    """`index`, counted without `left_out`: plus 1 from `left_out` on."""
    return index + (index >= left_out).astype(index.dtype)
