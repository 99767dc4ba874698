"""CliffWalking: walk to the goal along a cliff, or on a longer, safer way.

Source: Sutton and Barto, example 6.6; Gymnasium 1.4 `toy_text/cliffwalking.py`, with equal tables.
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
from shoal.envs.toy_text.tabular import SIDEWAYS, Outcome, Outcomes, Tabular, TabularState, neighbors

ROWS, COLUMNS = 4, 12
START, GOAL = 36, 47  # the corners of the last row; the cliff is between them
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: (rows down, columns right)
STEP, FALL = range(2)  # indices into `rewards`
MEADOW, ABYSS, EDGE, FLAG, COAT = (196, 222, 160), (70, 62, 58), (140, 110, 80), (215, 50, 50), (40, 90, 160)


@env("CliffWalking-v1")
@env("CliffWalkingSlippery-v1", is_slippery=True)
@struct
class CliffWalking(Tabular):
    """Walk from one corner to the other of a 4 x 12 grid, with a cliff between them along the last row.

    Action: Discrete(4); 0 up, 1 right, 2 down, 3 left. With `is_slippery` the move goes in this direction or to
    either side of it, with probability 1/3 each. Borders stop a move.

    Observation: Discrete(48), uint8; row x 12 + column of the agent. The cells of the cliff are never observed.

    Reward: `step_reward` (-1) for each step, `cliff_reward` (-100) for a step onto the cliff.
    Start: in cell 36, the first of the last row. A step onto the cliff leads back there; the episode continues.
    End: terminated in cell 47, the last cell. By default there is no time limit; a random policy needs about 6,500
    steps.
    Noise: with `is_slippery`, one uniform number.
    Differences from Gymnasium: transition probabilities are not in `info`; `model()` returns them.
    """

    reset_every: ClassVar[int] = 5000
    action_names: ClassVar[tuple[str, ...]] = ("up", "right", "down", "left")

    is_slippery: bool = static(False, choices=(False, True))
    step_reward: Number = -1.0
    cliff_reward: Number = -100.0
    max_steps: Number | None = None

    def __post_init__(self) -> None:
        check_range(self, "step_reward", "cliff_reward")

    @property
    def outcomes(self) -> Outcomes:
        """The table. With `is_slippery` each move has three outcomes: to its left, as chosen, to its right."""
        return cliff_outcomes(self.is_slippery)

    @property
    def rewards(self) -> tuple[Number, ...]:
        """The rewards of a step and of a fall."""
        return self.step_reward, self.cliff_reward

    @property
    def probabilities(self) -> tuple[Number, ...]:
        """1/3 for each outcome, or 1 if not slippery."""
        return (1 / 3, 1 / 3, 1 / 3) if self.is_slippery else (1.0,)

    def init(self, key: Key) -> TabularState:
        """The first state: at the start."""
        return TabularState(jnp.int32(0), self.sample_start(key))

    def noise(self, key: Key) -> Float[Array, ""] | None:
        """A uniform number that chooses among the outcomes; None if not slippery."""
        return self.outcome_noise(key)

    def transition(self, state: TabularState, action: Integer[Array, ""], noise: Float[Array, ""] | None) -> Outcome:
        """Look up next state, reward and termination in the table."""
        index, reward, terminated = self.lookup(state.index, action, noise)
        return state.replace(index=index), reward, terminated, {}

    def render(self, state: TabularState) -> UInt8[np.ndarray, "256 768 3"]:
        """The grid with the cliff, the start, the goal and the agent."""
        board = Board(ROWS, COLUMNS, ground=MEADOW)
        for index in range(START + 1, GOAL):
            board.tile(divmod(index, COLUMNS), ABYSS)
        board.canvas.line([(1, ROWS - 1), (COLUMNS - 1, ROWS - 1)], EDGE, 0.08)
        board.letter(divmod(START, COLUMNS), "S")
        board.flag(divmod(GOAL, COLUMNS), FLAG)
        board.person(divmod(int(state.index), COLUMNS), COAT)
        return board.pixels()


@functools.cache
def cliff_outcomes(is_slippery: bool) -> Outcomes:
    """The table. The agent never steps from cliff or goal; their rows are those of ordinary cells."""
    landing = neighbors(ROWS, COLUMNS, MOVES)
    landing = landing[:, SIDEWAYS] if is_slippery else landing[..., None]
    falls = (landing > START) & (landing < GOAL)
    return Outcomes(
        next_state=np.where(falls, START, landing),
        reward=np.where(falls, FALL, STEP),
        terminated=landing == GOAL,
        certain=np.full(landing.shape[:2], not is_slippery),
        starts=np.array([START]),
    )
