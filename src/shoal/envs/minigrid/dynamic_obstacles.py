"""Dynamic-Obstacles: reach the goal among balls that move at random, without a collision.

Source: MiniGrid 3.2.0 `envs/dynamicobstacles.py`, step for step.
"""

import functools
import operator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt16, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.start import CORNER, RIGHT, check_start, random_pose
from shoal.grid.actions import FORWARD, LEFT, cell_at, cell_mask
from shoal.grid.cells import EMPTY, GOAL, WALL, cell, is_a
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, Judgement, SquareLevel, begin, in_front
from shoal.ops.loops import short_scan, short_sum

BLUE_BALL = cell("ball", "blue")
AROUND = 9  # cells of the square around a ball, numbered column by column; the ball is in cell 4


@struct
class Obstacles(GridState):
    """A grid, the agent in it, and the positions of the balls, in the order in which they move."""

    ball_x: Int[Array, "N"]
    ball_y: Int[Array, "N"]


@env("MiniGrid-Dynamic-Obstacles-5x5-v0", size=5, num_obstacles=2)
@env("MiniGrid-Dynamic-Obstacles-Random-5x5-v0", size=5, num_obstacles=2, random_start=True)
@env("MiniGrid-Dynamic-Obstacles-6x6-v0", size=6, num_obstacles=3)
@env("MiniGrid-Dynamic-Obstacles-Random-6x6-v0", size=6, num_obstacles=3, random_start=True)
@env("MiniGrid-Dynamic-Obstacles-8x8-v0", size=8)
@env("MiniGrid-Dynamic-Obstacles-16x16-v0", size=16, num_obstacles=8)
@struct
class DynamicObstacles(SquareLevel):
    """Reach the goal in the corner. Walking towards a ball or a wall costs 1 and ends the episode.

    Action: Discrete(3): left, right, forward. Compiled code cannot raise an error for any other action: it turns left.

    Each step, in this order:

    1. The cell in front of the agent decides whether there is a collision.
    2. One ball after another moves to a random free cell among the eight around it, or stays if none is free. Balls
       never move onto the agent.
    3. The agent acts. It may step onto a cell that a ball has just left.

    Start: the agent is in the upper left corner, facing right, or as `agent_start_pos` and `agent_start_dir` say; with
    `random_start` in a random cell except the goal. The balls are in random cells.
    Reward: -1 for a collision; the rest: see `Level`.
    End: terminated by a collision; the rest: see `Level`. Time limit: 4 size^2 steps. Observation: see `Level`.

    Difference from MiniGrid: MiniGrid samples at most 101 cells for a ball, so a ball with a single free cell stays in
    about 1 of 150,000 steps; here it always moves.
    """

    reset_every: ClassVar[int] = 3
    grid_changes: ClassVar[bool] = False  # the agent cannot change the grid; the balls move in `move_objects`
    task: ClassVar[str] = "get to the green goal square"
    num_actions: ClassVar[int] = 3

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")
    size: int = static(8, help="side of the grid in cells, walls included: at least 4")
    num_obstacles: int = static(
        4, help="number of balls; above size / 2 + 1 there are size // 2 instead, as in MiniGrid"
    )
    random_start: bool = static(
        False, choices=(False, True), help="whether the agent starts in a random cell, with a random direction"
    )
    agent_start_pos: tuple[int, int] = static(CORNER, help="column and row where the agent starts")
    agent_start_dir: int = static(RIGHT, help="direction of the agent at the start: 0 right, 1 down, 2 left, 3 up")

    def __post_init__(self) -> None:
        if self.size < 4:
            raise ValueError(
                f"size={self.size} leaves no room for agent, goal and a ball between the walls: at least 4."
            )
        if self.num_obstacles < 1:
            raise ValueError(f"num_obstacles={self.num_obstacles}: at least 1, or take MiniGrid-Empty.")
        free = (self.size - 2) ** 2 - 2
        if self.num_balls > free:
            raise ValueError(
                f"num_obstacles={self.num_obstacles} with size={self.size}: only {free} cells are left beside agent "
                "and goal."
            )
        check_start(self._room(), self.agent_start_pos, self.agent_start_dir, self.random_start)

    @property
    def time_limit(self) -> int:
        """4 size^2 steps."""
        return 4 * self.size**2

    @property
    def num_balls(self) -> int:
        """The number of balls."""
        return self.num_obstacles if self.num_obstacles <= self.size / 2 + 1 else self.size // 2

    def init(self, key: Key) -> Obstacles:
        """Place the agent, then the balls one after another."""
        k_agent, k_direction, k_balls = jax.random.split(key, 3)
        room = self._room()
        x, y, direction = map(jnp.int32, (*self.agent_start_pos, self.agent_start_dir))
        if self.random_start:
            x, y, direction = random_pose(k_agent, k_direction, room)
        # Number the free cells in the order of the grid, without the agent's cell; the goal would be the last one.
        inner = self.size - 2
        number = _sample_without_replacement(k_balls, self.num_balls, inner**2 - 2)
        number = number + (number >= (x - 1) * inner + y - 1).astype(jnp.int32)
        ball_x, ball_y = number // inner + 1, number % inner + 1
        grid = self._with_balls(jnp.asarray(room), ball_x, ball_y)
        return Obstacles(**begin(grid, x, y, direction), ball_x=ball_x, ball_y=ball_y)

    def noise(self, key: Key) -> UInt32[Array, "N"]:
        """Random bits for each ball, which choose the cell that it moves to."""
        return jax.random.bits(key, (self.num_balls,), jnp.uint32)

    def effective_action(self, action: Int[Array, ""]) -> Int[Array, ""]:
        """Any action except the three is executed as the first one, as in MiniGrid."""
        return jnp.where((action >= 0) & (action <= FORWARD), action, LEFT)

    def move_objects(self, state: Obstacles, noise: UInt32[Array, "N"]) -> Obstacles:
        """Move one ball after another to a free cell around it."""

        def move(balls, number_and_bits):
            ball_x, ball_y = balls
            number, bits = number_and_bits
            x, y = ball_x[number], ball_y[number]
            free = ~self._taken(state, ball_x, ball_y, x, y) & (1 << AROUND) - 1
            cell_number = _pick(free, bits)
            is_it = numbers == number
            return (
                jnp.where(is_it, x + cell_number // 3 - 1, ball_x),
                jnp.where(is_it, y + cell_number % 3 - 1, ball_y),
            ), None

        numbers = jnp.arange(self.num_balls, dtype=jnp.int32)
        (x, y), _ = short_scan(move, (state.ball_x, state.ball_y), (numbers, noise))
        grid = jnp.where(state.grid == BLUE_BALL, EMPTY, state.grid)
        return state.replace(grid=self._with_balls(grid, x, y), ball_x=x, ball_y=y)

    def judge(self, before: GridState, after: GridState, action: Int[Array, ""]) -> Judgement:
        """Walking towards a ball or a wall costs 1 and ends the episode, even if the ball moves away in this step."""
        front = cell_at(before.grid, *in_front(before), WALL)
        collides = (action == FORWARD) & (front != EMPTY) & ~is_a(front, "goal")
        return jnp.where(collides, jnp.float32(-1), 0), collides

    def _room(self) -> UInt16[np.ndarray, "S S"]:
        room = empty_room(*self.shape)
        room[-2, -2] = GOAL
        return room

    def _with_balls(self, grid: UInt16[Array, "W H"], x: Int[Array, "N"], y: Int[Array, "N"]) -> UInt16[Array, "W H"]:
        # One expression for each ball, not a reduction over balls: XLA compiles it to one pass over the grid.
        is_ball = functools.reduce(operator.or_, (cell_mask(self.shape, x[i], y[i]) for i in range(self.num_balls)))
        return jnp.where(is_ball, BLUE_BALL, grid)

    def _taken(
        self, state: GridState, ball_x: Int[Array, "N"], ball_y: Int[Array, "N"], x: Int[Array, ""], y: Int[Array, ""]
    ) -> Int[Array, ""]:
        """The cells around (x, y) that are not free, as nine bits. No two balls share a cell, so bits can be added."""
        last = self.size - 2
        columns = jnp.where(x == 1, 0b000000111, 0) | jnp.where(x == last, 0b111000000, 0)
        rows = jnp.where(y == 1, 0b001001001, 0) | jnp.where(y == last, 0b100100100, 0)
        agent, goal = _bit(state.x - x, state.y - y), _bit(last - x, last - y)
        return columns | rows | agent | goal | short_sum(_bit(ball_x - x, ball_y - y))


def _sample_without_replacement(key: Key, count: int, among: int) -> Int[Array, "N"]:
    """Sample `count` different integers from 0 to `among` - 1.

    The integers are the first `count` of a Fisher-Yates shuffle, which swaps entry k of a list with a random entry from
    k on. The list of all integers is not stored: the entry at an index is what the last earlier swap with that index
    put there, or the index itself if there was none.
    """
    order = np.arange(count, dtype=np.int32)
    indices = order + jax.random.randint(key, (count,), 0, among - order)

    def swap(moved, k):
        index = indices[k]
        is_same = (order < k) & (indices == index)
        latest = jnp.max(jnp.where(is_same, order, -1))
        number = jnp.where(latest >= 0, jnp.sum(jnp.where(order == latest, moved, 0), dtype=jnp.int32), index)
        # The current entry k moves to the index that was chosen.
        is_k = (order < k) & (indices == k)
        latest_k = jnp.max(jnp.where(is_k, order, -1))
        entry_k = jnp.where(latest_k >= 0, jnp.sum(jnp.where(order == latest_k, moved, 0), dtype=jnp.int32), k)
        return jnp.where(order == k, entry_k, moved), number

    return short_scan(swap, jnp.zeros(count, jnp.int32), order)[1]


def _bit(dx: Int[Array, "*n"], dy: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """The bit of the cell at (dx, dy) from the center of the nine cells; 0 if it is not one of them."""
    is_near = (abs(dx) <= 1) & (abs(dy) <= 1)
    return jnp.where(is_near, 1 << jnp.where(is_near, 3 * dx + dy + 4, 0), 0)


def _pick(free: Int[Array, ""], bits: UInt32[Array, ""]) -> Int[Array, ""]:
    """The index of a random set bit of `free`, uniformly; 4, the ball's own cell, if no bit is set."""
    count = jax.lax.population_count(free)
    rank = ((bits >> 8) * count.astype(jnp.uint32) >> 24).astype(jnp.int32)
    for lower in range(AROUND - 2):  # the ball's own cell is never free, so the rank is at most 7
        free = jnp.where(lower < rank, free & (free - 1), free)
    return jnp.where(free == 0, 4, jax.lax.population_count((free & -free) - 1))
