"""Taxi: pick up a passenger at one of four stands and drive them to another one.

Source: Dietterich 2000, "Hierarchical reinforcement learning with the MAXQ value function decomposition"; Gymnasium
1.4 `toy_text/taxi.py` (Taxi-v4), with equal tables.
"""

import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, UInt8

from shoal.canvas import BLACK, WHITE, Board, box
from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.envs.toy_text.tabular import Outcome, Outcomes, Tabular, TabularState, neighbors

SIZE = 5  # rows, and columns
STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))  # red, green, yellow, blue: (row, column)
WALLS = ((0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2))  # each to the right of the cell (row, column)
ABOARD = 4  # the value of `passenger` in the taxi; 0 to 3 are the stands
SOUTH, NORTH, EAST, WEST, PICK_UP, DROP_OFF = range(6)
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))  # south, north, east, west: (rows down, columns right)
BESIDE = ((EAST, WEST, NORTH, SOUTH), (WEST, EAST, SOUTH, NORTH))  # the moves to the left and to the right of each move
STEP, ILLEGAL, DELIVERY = range(3)  # indices into `rewards`
STAND_COLORS = ((205, 70, 60), (70, 150, 80), (205, 165, 40), (60, 100, 190))
STREET, CAB, WINDOW, COAT = (226, 226, 222), (250, 200, 30), (190, 225, 240), (130, 60, 140)


class TaxiNoise(NamedTuple):
    """The noise of one step; a part is None if the option that needs it is off."""

    outcome_noise: Float[Array, ""] | None  # uniform in [0, 1): chooses among the outcomes of a move in the rain
    new_destination: Int[Array, ""] | None  # 0, 1 or 2: which of the three other stands a passenger changes to


@struct
class TaxiState(TabularState):
    """The state in the table, and whether the passenger will change the destination when first driven."""

    is_fickle: Bool[Array, ""]


@env("Taxi-v4")
@struct
class Taxi(Tabular):
    """Drive to the passenger, pick them up, drive to their destination and drop them off, on a 5 x 5 grid with walls.

    Action: Discrete(6); 0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off. Walls and borders stop a move.
    `action_mask` is true for actions that change the state, for agents that use masks; `masked=False` turns it off.

    Observation: Discrete(500), uint16; `encode(row, column, passenger, destination)`, which `decode` inverts.
    Stands are 0 red, 1 green, 2 yellow, 3 blue; passenger 4 is in the taxi.

    Reward: `delivery_reward` (20) for dropping the passenger off at the destination; `illegal_reward` (-10) for picking
    up where no passenger waits, and for dropping off without a passenger or away from all stands; `step_reward` (-1)
    for every other step. The passenger can be dropped off at another stand too, and waits there.
    Start: the taxi in any cell, the passenger at one stand, the destination another stand; all 300 states are equally
    likely.
    End: terminated on delivery; truncated after `max_steps` (200).
    Noise: with `is_rainy`, a uniform number: a move that is not blocked goes in its direction with probability
    `rainy_probability`, and to each side of it with half of the remaining probability. With `fickle_passenger`, a new
    destination: with probability `fickle_probability` per episode, the passenger changes to it at the first move in the
    taxi.
    Differences from Gymnasium: the mask is the method `action_mask`, not in `info`; transition probabilities are not in
    `info`; `model()` returns them, without `fickle_passenger`, as Gymnasium's `P`.
    """

    reset_every: ClassVar[int] = 150
    action_names: ClassVar[tuple[str, ...]] = ("down", "up", "right", "left", "pick up", "drop off")

    is_rainy: bool = static(False, choices=(False, True))
    fickle_passenger: bool = static(False, choices=(False, True))
    masked: bool = static(True, choices=(False, True))
    rainy_probability: Number = 0.8  # probability that a move in the rain goes in its direction
    fickle_probability: Number = 0.3  # probability per episode that the passenger changes the destination
    step_reward: Number = -1.0
    illegal_reward: Number = -10.0
    delivery_reward: Number = 20.0
    max_steps: Number | None = 200

    def __post_init__(self) -> None:
        check_range(self, "rainy_probability", "fickle_probability", low=0, high=1)
        check_range(self, "step_reward", "illegal_reward", "delivery_reward")

    @property
    def outcomes(self) -> Outcomes:
        """The table. In the rain a move has three outcomes: as chosen, to its left, to its right."""
        return taxi_outcomes(self.is_rainy)

    @property
    def rewards(self) -> tuple[Number, ...]:
        """The rewards of a step, of an illegal action, and of a delivery."""
        return self.step_reward, self.illegal_reward, self.delivery_reward

    @property
    def probabilities(self) -> tuple[Number, ...]:
        """The probabilities of: as chosen, to the left, to the right; 1 without rain."""
        aside = (1.0 - self.rainy_probability) / 2.0
        return (self.rainy_probability, aside, aside) if self.is_rainy else (1.0,)

    def init(self, key: Key) -> TaxiState:
        """The first state: random cells of taxi, passenger and destination."""
        k_first, k_fickle = jax.random.split(key)
        fickle = jax.random.uniform(k_fickle) < self.fickle_probability if self.fickle_passenger else jnp.bool_(False)
        return TaxiState(jnp.int32(0), self.sample_start(k_first), fickle)

    def noise(self, key: Key) -> TaxiNoise | None:
        """The noise of a step; None without rain and fickle passenger."""
        if not (self.is_rainy or self.fickle_passenger):
            return None
        k_outcome, k_destination = jax.random.split(key)
        new_destination = jax.random.randint(k_destination, (), 0, len(STANDS) - 1) if self.fickle_passenger else None
        return TaxiNoise(self.outcome_noise(k_outcome), new_destination)

    def transition(self, state: TaxiState, action: Integer[Array, ""], noise: TaxiNoise | None) -> Outcome:
        """Look up the outcome in the table; then a fickle passenger may change the destination."""
        outcome_noise, new_destination = noise or TaxiNoise(None, None)
        index, reward, terminated = self.lookup(state.index, action, outcome_noise)
        if new_destination is None:
            return state.replace(index=index), reward, terminated, {}
        changes = state.is_fickle & _is_aboard(state.index) & (_cell(index) != _cell(state.index))
        index = jnp.where(changes, _with_other_destination(index, new_destination), index)
        return state.replace(index=index, is_fickle=state.is_fickle & ~changes), reward, terminated, {}

    def action_mask(self, state: TaxiState) -> Bool[Array, "6"] | None:
        """Which actions change the state, [6]; None with `masked=False`."""
        if not self.masked:
            return None
        bits = jnp.asarray(useful_actions()).at[state.index].get(mode="promise_in_bounds")
        return (bits >> jnp.arange(6, dtype=jnp.uint8)) & 1 == 1

    def render(self, state: TaxiState) -> UInt8[np.ndarray, "320 320 3"]:
        """The grid with walls, stands, a frame around the destination, the taxi and the passenger."""
        row, column, passenger, destination = decode(int(state.index))
        board = Board(SIZE, SIZE, ground=STREET)
        for color, letter, stand in zip(STAND_COLORS, "RGYB", STANDS, strict=True):
            board.tile(stand, color, 0.06)
            board.letter(stand, letter, WHITE)
        board.tile(STANDS[destination], BLACK, 0.02)
        board.tile(STANDS[destination], STAND_COLORS[destination], 0.1)
        board.flag(STANDS[destination], WHITE)
        for wall_row, wall_column in WALLS:
            board.canvas.line([(wall_column + 1, wall_row), (wall_column + 1, wall_row + 1)], BLACK, 0.08)
        if passenger != ABOARD:
            board.person(STANDS[passenger], COAT, 0.8)
        _draw_taxi(board, row, column)
        if passenger == ABOARD:
            board.person((row - 0.16, column), COAT, 0.6)
        return board.pixels()


def encode(row: Any, column: Any, passenger: Any, destination: Any) -> Any:
    """The index of a state in the table. Arguments are numbers or arrays."""
    return ((row * SIZE + column) * (ABOARD + 1) + passenger) * len(STANDS) + destination


def decode(index: Any) -> tuple[Any, Any, Any, Any]:
    """(row, column, passenger, destination) of the index of a state. It may be an array."""
    rest, destination = index // len(STANDS), index % len(STANDS)
    cell, passenger = rest // (ABOARD + 1), rest % (ABOARD + 1)
    return cell // SIZE, cell % SIZE, passenger, destination


@functools.cache
def taxi_outcomes(is_rainy: bool) -> Outcomes:
    """The table. It also holds states that do not occur, such as a passenger who waits at the destination."""
    index = np.arange(SIZE * SIZE * (ABOARD + 1) * len(STANDS))
    row, column, passenger, destination = decode(index)
    stand = _stand_at()[row, column]
    waiting, can_leave = passenger == stand, (passenger == ABOARD) & (stand >= 0)
    delivered = can_leave & (stand == destination)

    targets = _targets(is_rainy)[row * SIZE + column]  # the cells that moves lead to
    driven = encode(targets // SIZE, targets % SIZE, passenger[:, None, None], destination[:, None, None])
    picked_up = encode(row, column, np.where(waiting, ABOARD, passenger), destination)
    dropped_off = encode(row, column, np.where(can_leave, stand, passenger), destination)
    picked_or_dropped = np.stack([picked_up, dropped_off], axis=1)[..., None]
    next_state = np.concatenate([driven, np.repeat(picked_or_dropped, targets.shape[2], axis=2)], axis=1)

    reward = np.full(next_state.shape, STEP)
    reward[~waiting, PICK_UP] = ILLEGAL
    reward[~can_leave, DROP_OFF] = ILLEGAL
    reward[delivered, DROP_OFF] = DELIVERY
    terminated = np.zeros(next_state.shape, bool)
    terminated[delivered, DROP_OFF] = True
    return Outcomes(
        next_state=next_state,
        reward=reward,
        terminated=terminated,
        certain=np.tile((not is_rainy) | (np.arange(6) >= PICK_UP), (len(index), 1)),
        starts=index[(passenger != ABOARD) & (passenger != destination)],
    )


@functools.cache
def useful_actions() -> UInt8[np.ndarray, "500"]:
    """For each state an integer whose bit a is set if action a changes the state."""
    next_state = taxi_outcomes(is_rainy=False).next_state[..., 0]
    return np.packbits(next_state != np.arange(len(next_state))[:, None], axis=1, bitorder="little").ravel()


def _targets(is_rainy: bool) -> Int[np.ndarray, "25 4 K"]:
    """The cells that each move may lead to from each cell. A blocked taxi does not move to the side either."""
    target = neighbors(SIZE, SIZE, MOVES)
    for row, column in WALLS:
        left = row * SIZE + column
        target[left, EAST], target[left + 1, WEST] = left, left + 1
    if not is_rainy:
        return target[..., None]
    left, right = target[:, BESIDE[0]], target[:, BESIDE[1]]
    stays = target == np.arange(SIZE * SIZE)[:, None]
    return np.stack([target, np.where(stays, target, left), np.where(stays, target, right)], axis=-1)


def _stand_at() -> Int[np.ndarray, "5 5"]:
    stands = np.full((SIZE, SIZE), -1)
    stands[tuple(np.transpose(STANDS))] = np.arange(len(STANDS))
    return stands


def _draw_taxi(board: Board, row: int, column: int) -> None:
    x, y = column, row
    for wheel in (0.27, 0.73):
        board.canvas.circle((x + wheel, y + 0.78), 0.1, BLACK)
    board.canvas.polygon(box(x + 0.1, y + 0.76, x + 0.9, y + 0.48), CAB)
    roof = [(x + 0.24, y + 0.48), (x + 0.34, y + 0.28), (x + 0.66, y + 0.28), (x + 0.76, y + 0.48)]
    board.canvas.polygon(roof, CAB)
    board.canvas.polygon(box(x + 0.37, y + 0.46, x + 0.63, y + 0.33), WINDOW)
    for square in range(4):
        left = x + 0.18 + 0.16 * square
        board.canvas.polygon(box(left, y + 0.62, left + 0.08, y + 0.54), BLACK)


def _is_aboard(index: Array) -> Array:
    return decode(index)[2] == ABOARD


def _cell(index: Array) -> Array:
    return index // ((ABOARD + 1) * len(STANDS))


def _with_other_destination(index: Array, new_destination: Array) -> Array:
    destination = index % len(STANDS)
    other = new_destination.astype(index.dtype)
    return index - destination + other + (other >= destination).astype(index.dtype)
