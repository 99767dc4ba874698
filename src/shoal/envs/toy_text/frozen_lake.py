"""FrozenLake: cross a lake of slippery ice without falling into a hole.

Source: Gymnasium 1.4 `toy_text/frozen_lake.py`, with equal tables.
"""

import functools
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, UInt8

from shoal.canvas import Board
from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.envs.toy_text.lakes import Map, cells_of, read_map
from shoal.envs.toy_text.tabular import (
    SIDEWAYS,
    Outcome,
    Outcomes,
    Tabular,
    TabularState,
    neighbors,
)

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: (rows down, columns right)
NOTHING, GOAL, HOLE, FROZEN = range(4)  # indices into `rewards`
ICE, RIM, WATER, FLAG, COAT = (224, 240, 250), (150, 190, 215), (25, 60, 105), (215, 50, 50), (45, 125, 70)


@env("FrozenLake-v1", aliases=("FrozenLake-misc",))
@env("FrozenLake8x8-v1", map_name="8x8", max_steps=200)
@struct
class FrozenLake(Tabular):
    """Walk from the start to the goal over slippery ice with holes.

    Action: Discrete(4); 0 left, 1 down, 2 right, 3 up. With `is_slippery` the move goes in this direction with
    probability `success_rate` (1/3), and to each side of it with half of the remaining probability. Borders stop moves.

    Observation: Discrete(rows x columns); row x columns + column of the agent, in the smallest dtype.

    Reward: `goal_reward`, `hole_reward` or `frozen_reward` for the cell that is entered (Gymnasium's
    `reward_schedule`, in this order). A move that a border stops enters the same cell again.
    Start: on the cell S (a random one, if there are several).
    End: terminated on a hole or a goal; truncated after `max_steps` (100; 200 in FrozenLake8x8).
    Noise: with `is_slippery`, one uniform number.
    Maps: `desc` holds the rows, as ("SFFF", "FHFH", "FFFH", "HFFG") or as one string, "SFFF/FHFH/FFFH/HFFG": S start, F
    frozen, H hole, G goal. If it is empty, `map_name` is used. `generate_random_map` samples the same maps as
    Gymnasium's function.
    Differences from Gymnasium: a map without a start, or without a path to a goal, raises ValueError; transition
    probabilities are not in `info`; `model()` returns them. gymnax (FrozenLake-misc) requires exactly one S and one G;
    here there may be several.
    """

    reset_every: ClassVar[int] = 6
    action_names: ClassVar[tuple[str, ...]] = ("left", "down", "right", "up")

    desc: str | Map | None = static("", help="rows joined by /")  # the map; empty: map_name
    map_name: str | None = static("4x4", choices=("4x4", "8x8"))
    is_slippery: bool = static(True, choices=(False, True))
    success_rate: Number = 1 / 3  # probability that a move on slippery ice goes in its direction
    goal_reward: Number = 1.0
    hole_reward: Number = 0.0
    frozen_reward: Number = 0.0
    max_steps: Number | None = 100

    def __post_init__(self) -> None:
        read_map(self.desc, self.map_name)
        check_range(self, "success_rate", low=0, high=1)
        check_range(self, "goal_reward", "hole_reward", "frozen_reward")

    @property
    def lake(self) -> Map:
        """The rows of the map."""
        return read_map(self.desc, self.map_name)

    @property
    def outcomes(self) -> Outcomes:
        """The table. If slippery, a move has three outcomes: to its left, as chosen, to its right; at an end, one."""
        return lake_outcomes(self.lake, self.is_slippery)

    @property
    def rewards(self) -> tuple[Number, ...]:
        """The rewards of: staying at an end (0), the goal, a hole, a frozen cell."""
        return 0.0, self.goal_reward, self.hole_reward, self.frozen_reward

    @property
    def probabilities(self) -> tuple[Number, ...]:
        """The probabilities of: to the left of the move, as chosen, to its right; 1 if not slippery."""
        slip = (1.0 - self.success_rate) / 2.0
        return (slip, self.success_rate, slip) if self.is_slippery else (1.0,)

    def init(self, key: Key) -> TabularState:
        """The first state: on a cell S."""
        return TabularState(jnp.int32(0), self.sample_start(key))

    def noise(self, key: Key) -> Float[Array, ""] | None:
        """A uniform number that chooses among the outcomes; None if not slippery."""
        return self.outcome_noise(key)

    def transition(self, state: TabularState, action: Integer[Array, ""], noise: Float[Array, ""] | None) -> Outcome:
        """Look up next state, reward and termination in the table."""
        index, reward, terminated = self.lookup(state.index, action, noise)
        return state.replace(index=index), reward, terminated, {}

    def render(self, state: TabularState) -> UInt8[np.ndarray, "H W 3"]:
        """The lake with starts, holes, flags at goals, and the agent, which is red in a hole."""
        lake = self.lake
        board = Board(len(lake), len(lake[0]), ground=ICE)
        for hole in cells_of(lake, "H"):
            board.disk(hole, RIM, 0.42)
            board.disk(hole, WATER, 0.36)
        for start in cells_of(lake, "S"):
            board.letter(start, "S", RIM)
        for goal in cells_of(lake, "G"):
            board.flag(goal, FLAG)
        here = divmod(int(state.index), len(lake[0]))
        fell_in = here in cells_of(lake, "H")
        board.person(here, FLAG if fell_in else COAT, 0.7 if fell_in else 1.0)
        return board.pixels()


@functools.cache
def lake_outcomes(lake: Map, is_slippery: bool) -> Outcomes:
    """The table of a lake."""
    cells = np.array([list(row) for row in lake]).ravel()
    is_end = (cells == "G") | (cells == "H")
    landing = neighbors(len(lake), len(lake[0]), MOVES)
    landing[is_end] = np.flatnonzero(is_end)[:, None]
    landing = landing[:, SIDEWAYS] if is_slippery else landing[..., None]
    reward = np.select([cells == "G", cells == "H"], [GOAL, HOLE], FROZEN)[landing]
    reward[is_end] = NOTHING
    return Outcomes(
        next_state=landing,
        reward=reward,
        terminated=is_end[landing],
        certain=np.broadcast_to(is_end[:, None] | (not is_slippery), landing.shape[:2]),
        starts=np.flatnonzero(cells == "S"),
    )
