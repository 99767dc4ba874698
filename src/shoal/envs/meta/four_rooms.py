"""FourRooms: walk through four rooms to a goal, with random moves.

Source: Sutton, Precup and Singh 1999, section 2; github.com/howardh/gym-fourrooms, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, UInt8

from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range, concrete_cells
from shoal.envs.meta.picture import maze_picture

MAP = (
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
WALLS = np.array([[cell == "#" for cell in row] for row in MAP])
SIDE = len(MAP)
CELLS = np.argwhere(~WALLS).astype(np.int32)  # [104, 2]: (row, column) of the open cells, row by row
# The open cells of each row as an integer: bit c is set if column c is open. A step compares with these 13 constants
# instead of reading a table.
OPEN_BITS = tuple(int(bits) for bits in (~WALLS @ (1 << np.arange(SIDE))))


@struct
class FourRoomsState(State):
    """The cells of the agent and of the goal."""

    row: Int[Array, ""]  # 0 at the top
    column: Int[Array, ""]  # 0 at the left
    goal_row: Int[Array, ""]
    goal_column: Int[Array, ""]


@env("FourRooms-v0", aliases=("FourRooms-misc",))
@env("FourRooms-Image-v0", observation="image")
@env("FourRooms-Random-v0", random_goal=True, random_start=True)
@struct
class FourRooms(Env):
    """Walk to a goal in a house of four rooms. A third of the moves go in a random other direction.

    Action: Discrete(4); 0 up, 1 right, 2 down, 3 left. A move into a wall does nothing. With probability
    4/3 `fail_prob` a uniformly random move replaces it, so that the move differs from the action with probability
    `fail_prob` (1/3).

    Observation: with `observation="vector"` a Box(4), int8: row and column of the agent, row and column of the goal,
    each from 1 to 11. With `"image"` (`FourRooms-Image-v0`) a Box(13, 13, 3), bool: walls, agent, goal, indexed by row
    and column.

    Reward: 1 on reaching the goal, else 0.
    Start: the agent at (`start_row`, `start_column`), the goal at (`goal_row`, `goal_column`). With `random_start` or
    `random_goal` (`FourRooms-Random-v0` has both) that cell is uniformly random. The two cells always differ.
    End: terminated at the goal; truncated after `max_steps` (500).

    To sample tasks yourself, set the goal's cell as fields. They may be traced; concrete values are checked:

        def sample(key):
            return FourRooms(goal_row=jax.random.randint(key, (), 1, 6), goal_column=11)

        Randomize(FourRooms(), sample)

    Differences from gym-fourrooms: a time limit; start and goal are fixed by default, as in gymnax; a random goal is
    sampled for every episode.
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
        most = "give 0 to 0.75: at most 3/4 of the moves can differ from the action."
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
        """Four coordinates, or an image with three channels."""
        if self.observation == "vector":
            return Box(1, SIDE - 2, (4,), np.int8)
        return Box(0, 1, (SIDE, SIDE, 3), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """Up, right, down, left."""
        return Discrete(4)

    def init(self, key: Key) -> FourRoomsState:
        """The first state: agent and goal at the cells of the fields, or at random cells."""
        k_goal, k_start = jax.random.split(key)
        goal = _cell(self.goal_row, self.goal_column)
        start = _cell(self.start_row, self.start_column)
        if self.random_goal:
            goal = _random_cell(k_goal, None if self.random_start else start)
        if self.random_start:
            start = _random_cell(k_start, goal)
        return FourRoomsState(jnp.int32(0), *start, *goal)

    def noise(self, key: Key) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """(A uniform number in [0, 1) that decides whether a random move replaces the action, that random move)."""
        bits = jax.random.bits(key, dtype=jnp.uint32)  # 24 bits for the number, two other bits for the move
        uniform = (bits >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)
        return uniform, (bits & np.uint32(3)).astype(jnp.int32)

    def transition(
        self, state: FourRoomsState, action: Int[Array, ""], noise: tuple[Float[Array, ""], Int[Array, ""]]
    ) -> Transition[FourRoomsState]:
        """Replace the action or not, move unless a wall is there; then compute reward and termination."""
        uniform, random_move = noise
        move = jnp.where(uniform < self.fail_prob * (4 / 3), random_move, action)
        row = state.row + (move == 2).astype(jnp.int32) - (move == 0).astype(jnp.int32)
        column = state.column + (move == 1).astype(jnp.int32) - (move == 3).astype(jnp.int32)
        is_open = _is_open(row, column)
        row, column = jnp.where(is_open, row, state.row), jnp.where(is_open, column, state.column)
        at_goal = (row == state.goal_row) & (column == state.goal_column)
        return state.replace(row=row, column=column), at_goal.astype(jnp.float32), at_goal, {}

    def observe(self, state: FourRoomsState) -> Int8[Array, "4"] | Bool[Array, "13 13 3"]:
        """Coordinates of agent and goal, or an image of the house."""
        if self.observation == "vector":
            return jnp.stack([state.row, state.column, state.goal_row, state.goal_column]).astype(jnp.int8)
        # One comparison for all pixels of all channels: stacking channels would compute each one separately.
        pixel = np.arange(SIDE * SIDE * 3, dtype=np.int32).reshape(SIDE, SIDE, 3)
        walls = np.stack([WALLS, np.zeros_like(WALLS), np.zeros_like(WALLS)], axis=-1)
        agent = (state.row * SIDE + state.column) * 3 + 1
        goal = (state.goal_row * SIDE + state.goal_column) * 3 + 2
        return walls | (pixel == agent) | (pixel == goal)

    def render(self, state: FourRoomsState) -> UInt8[np.ndarray, "364 364 3"]:
        """The house, with a blue agent and a green goal."""
        agent = (int(state.row), int(state.column))
        return maze_picture(WALLS, agent, (int(state.goal_row), int(state.goal_column)))


def _is_open(row: Int[Array, ""], column: Int[Array, ""]) -> Bool[Array, ""]:
    bits = jnp.zeros_like(row)
    for index, open_bits in enumerate(OPEN_BITS):
        if open_bits:
            bits = jnp.where(row == index, jnp.int32(open_bits), bits)
    return (bits >> column) & 1 != 0


def _cell(row: Number, column: Number) -> tuple[Int[Array, ""], Int[Array, ""]]:
    return jnp.asarray(row, jnp.int32), jnp.asarray(column, jnp.int32)


def _random_cell(
    key: Key, taken: tuple[Int[Array, ""], Int[Array, ""]] | None
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """A uniformly random open cell, different from `taken`."""
    if taken is None:
        index = jax.random.randint(key, (), 0, len(CELLS))
    else:
        indices = CELLS[:, 0] * SIDE + CELLS[:, 1]
        before = jnp.sum(indices < taken[0] * SIDE + taken[1])
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
                f"{what}=({row}, {column}) is a wall. Row {int(row)} is {MAP[int(row)]!r}: choose an open cell, "
                "shown as a blank (columns count from 0)."
            )
