"""FourRooms: walk from one of four rooms to a goal, on slippery ground.

Source: Sutton, Precup and Singh 1999, section 2; github.com/howardh/gym-fourrooms, step for step.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, UInt8

from shoal.core.env import Env, Key, State
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range, concrete_cells
from shoal.envs.meta.picture import maze_picture

PLAN = (
    "#############",
    "#     #     #",
    "#     #     #",
    "#           #",
    "#     #     #",
    "#     #     #",
    "## ####     #",
    "#     ### ###",
    "#     #     #",
    "#     #     #",
    "#           #",
    "#     #     #",
    "#############",
)
WALLS = np.array([[cell == "#" for cell in row] for row in PLAN])
SIDE = len(PLAN)
CELLS = np.argwhere(~WALLS).astype(np.int32)  # where one can stand, in reading order
# The open cells of each row as bits, column 0 lowest: a few words to compare with instead of a table to look up.
OPEN_BITS = tuple(int(bits) for bits in (~WALLS @ (1 << np.arange(SIDE))))


@struct
class FourRoomsState(State):
    """Where the agent is and where it should go."""

    row: Int[Array, ""]  # 0 at the top
    column: Int[Array, ""]  # 0 at the left
    goal_row: Int[Array, ""]
    goal_column: Int[Array, ""]


@env("FourRooms-v0", aliases=("FourRooms-misc",))
@env("FourRooms-Image-v0", observation="image")
@env("FourRooms-Random-v0", random_goal=True, random_start=True)
@struct
class FourRooms(Env):
    """Reach a goal in a house of four rooms, where a third of the moves goes astray.

    Action: Discrete(4); 0 up, 1 right, 2 down, 3 left. A move into a wall does nothing. With probability
    4/3 `fail_prob` a uniformly random move is made in its place, so that `fail_prob` (1/3) is how often it is another.

    Observation: with `observation="vector"` a Box(4), int8: row and column of the agent, row and column of the goal,
    each from 1 to 11. With `"image"` (`FourRooms-Image-v0`) a Box(13, 13, 3), bool: walls, agent, goal, indexed by row
    and column.

    Reward: 1 on reaching the goal, else 0.
    Start: at (`start_row`, `start_column`), the goal at (`goal_row`, `goal_column`); or anywhere with `random_start`,
    `random_goal` or both (`FourRooms-Random-v0`), never on top of each other.
    End: terminated at the goal; truncated after `max_steps` (500).

    For tasks that you draw yourself give the goal's cell as a field; it may be traced, and is checked when it is not:

        def somewhere(key):
            return FourRooms(goal_row=jax.random.randint(key, (), 1, 6), goal_column=11)

        Randomize(FourRooms(), somewhere)

    Differences from gym-fourrooms: a time limit; start and goal are fixed unless asked for, as in gymnax; a random goal
    is drawn for every episode.
    """

    reset_every: ClassVar[int] = 60

    fail_prob: Number = 1 / 3
    goal_row: Number = 8
    goal_column: Number = 9
    start_row: Number = 4
    start_column: Number = 1
    max_steps: Number | None = 500
    random_goal: bool = static(False, choices=(False, True))
    random_start: bool = static(False, choices=(False, True))
    observation: str = static("vector", choices=("vector", "image"))

    def __post_init__(self) -> None:
        if self.observation not in ("vector", "image"):
            raise ValueError(f"observation={self.observation!r} is unknown. Choose 'vector' or 'image'.")
        most = "at most 3/4 of the moves can go another way (0 to 0.75)."
        check_range(self, "fail_prob", low=0, high=0.75, advice=most)
        goals = [] if self.random_goal else concrete_cells(self.goal_row, self.goal_column)
        starts = [] if self.random_start else concrete_cells(self.start_row, self.start_column)
        _check_open("goal", goals)
        _check_open("start", starts)
        if goals and starts:
            both = concrete_cells(self.goal_row, self.goal_column, self.start_row, self.start_column)
            same = [pair[:2] for pair in both if pair[:2] == pair[2:]]
            if same:
                raise ValueError(f"start and goal are both the cell {same[0]}: choose two different ones.")

    @property
    def observation_space(self) -> Box:
        """Four coordinates, or three layers."""
        if self.observation == "vector":
            return Box(1, SIDE - 2, (4,), np.int8)
        return Box(0, 1, (SIDE, SIDE, 3), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """Up, right, down, left."""
        return Discrete(4)

    def init(self, key: Key) -> FourRoomsState:
        """Agent and goal where the fields say, or anywhere."""
        k_goal, k_start = jax.random.split(key)
        goal = _cell(self.goal_row, self.goal_column)
        start = _cell(self.start_row, self.start_column)
        if self.random_goal:
            goal = _random_cell(k_goal, None if self.random_start else start)
        if self.random_start:
            start = _random_cell(k_start, goal)
        return FourRoomsState(jnp.int32(0), *start, *goal)

    def noise(self, key: Key) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """A number in [0, 1) that decides whether the move goes astray, and the move that would be made then."""
        bits = jax.random.bits(key, dtype=jnp.uint32)  # 24 for the one, two others for the other
        chance = (bits >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)
        return chance, (bits & np.uint32(3)).astype(jnp.int32)

    def transition(
        self, state: FourRoomsState, action: Int[Array, ""], noise: tuple[Float[Array, ""], Int[Array, ""]]
    ) -> tuple[FourRoomsState, Float[Array, ""], Bool[Array, ""], dict[str, Any]]:
        """Slip or not, then walk unless there is a wall."""
        chance, stray = noise
        move = jnp.where(chance < self.fail_prob * (4 / 3), stray, action)
        row = state.row + (move == 2).astype(jnp.int32) - (move == 0).astype(jnp.int32)
        column = state.column + (move == 1).astype(jnp.int32) - (move == 3).astype(jnp.int32)
        is_open = _is_open(row, column)
        row, column = jnp.where(is_open, row, state.row), jnp.where(is_open, column, state.column)
        arrived = (row == state.goal_row) & (column == state.goal_column)
        return state.replace(row=row, column=column), arrived.astype(jnp.float32), arrived, {}

    def observe(self, state: FourRoomsState) -> Int8[Array, "4"] | Bool[Array, "13 13 3"]:
        """Coordinates, or the house from above."""
        if self.observation == "vector":
            return jnp.stack([state.row, state.column, state.goal_row, state.goal_column]).astype(jnp.int8)
        # One comparison for each pixel of each layer: stacking layers would compute them apart.
        pixel = np.arange(SIDE * SIDE * 3, dtype=np.int32).reshape(SIDE, SIDE, 3)
        walls = np.stack([WALLS, np.zeros_like(WALLS), np.zeros_like(WALLS)], axis=-1)
        agent = (state.row * SIDE + state.column) * 3 + 1
        goal = (state.goal_row * SIDE + state.goal_column) * 3 + 2
        return walls | (pixel == agent) | (pixel == goal)

    def render(self, state: FourRoomsState) -> UInt8[np.ndarray, "364 364 3"]:
        """The house from above: a blue agent, a green goal."""
        agent = (int(state.row), int(state.column))
        return maze_picture(WALLS, agent, (int(state.goal_row), int(state.goal_column)))


def _is_open(row: Int[Array, ""], column: Int[Array, ""]) -> Bool[Array, ""]:
    bits = jnp.zeros_like(row)
    for number, of_row in enumerate(OPEN_BITS):
        if of_row:
            bits = jnp.where(row == number, jnp.int32(of_row), bits)
    return (bits >> column) & 1 != 0


def _cell(row: Number, column: Number) -> tuple[Int[Array, ""], Int[Array, ""]]:
    return jnp.asarray(row, jnp.int32), jnp.asarray(column, jnp.int32)


def _random_cell(
    key: Key, taken: tuple[Int[Array, ""], Int[Array, ""]] | None
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """A uniform open cell, other than the one taken."""
    if taken is None:
        index = jax.random.randint(key, (), 0, len(CELLS))
    else:
        places = CELLS[:, 0] * SIDE + CELLS[:, 1]
        before = jnp.sum(places < taken[0] * SIDE + taken[1])
        index = jax.random.randint(key, (), 0, len(CELLS) - 1)
        index = index + (index >= before).astype(index.dtype)
    row, column = jnp.asarray(CELLS)[index]
    return row, column


def _check_open(what: str, cells: list[tuple[float, ...]]) -> None:
    for row, column in cells:
        if not (0 <= row < SIDE and 0 <= column < SIDE and row == int(row) and column == int(column)):
            raise ValueError(
                f"{what}=({row}, {column}) lies outside of the house: rows and columns are whole numbers from 1 to 11."
            )
        if WALLS[int(row), int(column)]:
            raise ValueError(
                f"{what}=({row}, {column}) is a wall. Row {int(row)} is {PLAN[int(row)]!r}: choose a blank of it, "
                "counted from 0."
            )
