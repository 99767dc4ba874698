"""Taxi: fetch a passenger from one of four stands and bring them to another.

Source: Dietterich 2000, "Hierarchical reinforcement learning with the MAXQ value function decomposition"; Gymnasium
1.4 `toy_text/taxi.py` (Taxi-v4), table for table.
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
ABOARD = 4  # the passenger is at one of the four stands, or in the taxi
SOUTH, NORTH, EAST, WEST, PICK_UP, DROP_OFF = range(6)
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))  # south, north, east, west: (rows down, columns right)
BESIDE = ((EAST, WEST, NORTH, SOUTH), (WEST, EAST, SOUTH, NORTH))  # to the left of each move, and to the right
STEP, ILLEGAL, DELIVERY = range(3)  # which reward
STAND_COLORS = ((205, 70, 60), (70, 150, 80), (205, 165, 40), (60, 100, 190))
STREET, CAB, WINDOW, COAT = (226, 226, 222), (250, 200, 30), (190, 225, 240), (130, 60, 140)


class TaxiNoise(NamedTuple):
    """What chance decides in a step; None where it decides nothing."""

    drift: Float[Array, ""] | None  # uniform: where the rain takes the taxi
    whim: Int[Array, ""] | None  # which of the three other stands the passenger may want to go to instead


@struct
class TaxiState(TabularState):
    """Which state of the table, and whether the passenger will think again at the first ride."""

    is_fickle: Bool[Array, ""]


@env("Taxi-v4")
@struct
class Taxi(Tabular):
    """Drive to the passenger, pick them up, drive to their destination and drop them off, on a 5 x 5 grid with walls.

    Action: Discrete(6); 0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off. Walls and borders stop a move.
    `action_mask` tells which actions change anything; it is for agents that heed masks, and off with `masked=False`.

    Observation: Discrete(500), uint16; `encode(row, column, passenger, destination)`, which `decode` takes apart.
    Stands are 0 red, 1 green, 2 yellow, 3 blue; passenger 4 is aboard.

    Reward: `step_reward` for each step; `illegal_reward` instead for picking up where no passenger waits, or dropping
    off with none aboard or away from all stands; `delivery_reward` instead for dropping off at the destination. At
    another stand the passenger can get off too, and waits there.
    Start: taxi anywhere, passenger at one stand, destination another, all 300 equally likely.
    End: terminated on delivery; truncated after `max_steps` (200).
    Noise: with `is_rainy`, a uniform number: a move that is not blocked goes where it should with probability
    `rainy_probability`, and to either side of that with half of what is left. With `fickle_passenger`, another
    destination: in an episode with probability `fickle_probability` the passenger changes to it when first driven.
    Differences from Gymnasium: the mask is a hook, not in `info`; the probability of what happened is in `model()`,
    which leaves fickleness out, as Gymnasium's `P` does.
    """

    reset_every: ClassVar[int] = 150

    is_rainy: bool = static(False, choices=(False, True))
    fickle_passenger: bool = static(False, choices=(False, True))
    masked: bool = static(True, choices=(False, True))
    rainy_probability: Number = 0.8  # how likely a move in the rain goes where it should
    fickle_probability: Number = 0.3  # how likely a fickle passenger changes the destination
    step_reward: Number = -1.0
    illegal_reward: Number = -10.0
    delivery_reward: Number = 20.0
    max_steps: Number | None = 200

    def __post_init__(self) -> None:
        check_range(self, "rainy_probability", "fickle_probability", low=0, high=1)
        check_range(self, "step_reward", "illegal_reward", "delivery_reward")

    @property
    def outcomes(self) -> Outcomes:
        """The wanted move, that to its left, that to its right."""
        return taxi_outcomes(self.is_rainy)

    @property
    def rewards(self) -> tuple[Number, ...]:
        """Of a step, of an illegal one, of a delivery."""
        return self.step_reward, self.illegal_reward, self.delivery_reward

    @property
    def probabilities(self) -> tuple[Number, ...]:
        """Of a move as wanted, to the left, to the right."""
        aside = (1.0 - self.rainy_probability) / 2.0
        return (self.rainy_probability, aside, aside) if self.is_rainy else (1.0,)

    def init(self, key: Key) -> TaxiState:
        """A taxi, a passenger, a destination."""
        k_first, k_fickle = jax.random.split(key)
        fickle = jax.random.uniform(k_fickle) < self.fickle_probability if self.fickle_passenger else jnp.bool_(False)
        return TaxiState(jnp.int32(0), self.first(k_first), fickle)

    def noise(self, key: Key) -> TaxiNoise | None:
        """The rain and the whim."""
        if not (self.is_rainy or self.fickle_passenger):
            return None
        k_drift, k_whim = jax.random.split(key)
        whim = jax.random.randint(k_whim, (), 0, len(STANDS) - 1) if self.fickle_passenger else None
        return TaxiNoise(self.luck(k_drift), whim)

    def transition(self, state: TaxiState, action: Integer[Array, ""], noise: TaxiNoise | None) -> Outcome:
        """Drive, pick up or drop off; then the passenger may think again."""
        drift, whim = noise or TaxiNoise(None, None)
        index, reward, terminated = self.follow(state.index, action, drift)
        if whim is None:
            return state.replace(index=index), reward, terminated, {}
        changes = state.is_fickle & _is_aboard(state.index) & (_cell(index) != _cell(state.index))
        index = jnp.where(changes, _with_other_destination(index, whim), index)
        return state.replace(index=index, is_fickle=state.is_fickle & ~changes), reward, terminated, {}

    def action_mask(self, state: TaxiState) -> Bool[Array, "6"] | None:
        """Which actions change anything."""
        if not self.masked:
            return None
        bits = jnp.asarray(useful_actions()).at[state.index].get(mode="promise_in_bounds")
        return (bits >> jnp.arange(6, dtype=jnp.uint8)) & 1 == 1

    def render(self, state: TaxiState) -> UInt8[np.ndarray, "320 320 3"]:
        """Streets, walls, stands, the destination framed, the passenger waiting or in the taxi."""
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
    """The state of the table: of numbers, or of arrays."""
    return ((row * SIZE + column) * (ABOARD + 1) + passenger) * len(STANDS) + destination


def decode(index: Any) -> tuple[Any, Any, Any, Any]:
    """(row, column, passenger, destination) of a state of the table, or of an array of them."""
    rest, destination = index // len(STANDS), index % len(STANDS)
    cell, passenger = rest // (ABOARD + 1), rest % (ABOARD + 1)
    return cell // SIZE, cell % SIZE, passenger, destination


@functools.cache
def taxi_outcomes(is_rainy: bool) -> Outcomes:
    """The table; it has rows also for states that never occur, such as a passenger who is where they want to be."""
    index = np.arange(SIZE * SIZE * (ABOARD + 1) * len(STANDS))
    row, column, passenger, destination = decode(index)
    stand = _stand_at()[row, column]
    waiting, can_leave = passenger == stand, (passenger == ABOARD) & (stand >= 0)
    delivered = can_leave & (stand == destination)

    drives = _drives(is_rainy)[row * SIZE + column]  # the cells that moves lead to
    driven = encode(drives // SIZE, drives % SIZE, passenger[:, None, None], destination[:, None, None])
    picked_up = encode(row, column, np.where(waiting, ABOARD, passenger), destination)
    dropped_off = encode(row, column, np.where(can_leave, stand, passenger), destination)
    served = np.stack([picked_up, dropped_off], axis=1)[..., None]
    next_state = np.concatenate([driven, np.repeat(served, drives.shape[2], axis=2)], axis=1)

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
    """A bit for each action, set in the states where it changes anything."""
    wanted = taxi_outcomes(is_rainy=False).next_state[..., 0]
    return np.packbits(wanted != np.arange(len(wanted))[:, None], axis=1, bitorder="little").ravel()


def _drives(is_rainy: bool) -> Int[np.ndarray, "25 4 K"]:
    """Where each move may lead from each cell. A taxi that is blocked does not drift to the side either."""
    wanted = neighbors(SIZE, SIZE, MOVES)
    for row, column in WALLS:
        left = row * SIZE + column
        wanted[left, EAST], wanted[left + 1, WEST] = left, left + 1
    if not is_rainy:
        return wanted[..., None]
    left, right = wanted[:, BESIDE[0]], wanted[:, BESIDE[1]]
    stays = wanted == np.arange(SIZE * SIZE)[:, None]
    return np.stack([wanted, np.where(stays, wanted, left), np.where(stays, wanted, right)], axis=-1)


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


def _with_other_destination(index: Array, whim: Array) -> Array:
    destination = index % len(STANDS)
    other = whim.astype(index.dtype)
    return index - destination + other + (other >= destination).astype(index.dtype)
