"""The base class of the five MinAtar games: a board of ten by ten cells, six actions, and sticky actions.

The docstring of the package (`envs/minatar/__init__.py`) explains, with drawings, how a board is stored in bits.

Source: Young and Tian 2019, "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning
Experiments"; `minatar` 1.0.15, `environment.py` and `gym.py`.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jax.lax import optimization_barrier
from jaxtyping import Array, Bool, Float, Int, UInt, UInt8, UInt32

from shoal.canvas import Canvas, box
from shoal.core.env import Env, Key, State, Transition
from shoal.core.form import computed_once, current
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, hyper, static, struct

SIDE = 10  # rows, and columns, of the board
INDICES = np.arange(SIDE, dtype=np.int32)  # of the rows, or of the columns
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)  # MinAtar's numbers of the actions
ACTION_BITS = 3
ROW_DTYPE = np.dtype("uint16")
FULL_ROW = np.uint32((1 << SIDE) - 1)

# One channel of the board: a word for each row, whose bit x is set if something is in column x.
RowBits = UInt32[Array, "10"]

CELL_PIXELS = 24
BOARD_COLOR, LINE_COLOR = (24, 26, 34), (48, 52, 66)


class ChannelStyle(NamedTuple):
    """How a channel is drawn: squares of `color` whose side is `size` of a cell. Small squares cover large ones."""

    color: tuple[int, int, int]
    size: float = 0.84


@struct
class GameState(State):
    """The fields that the environment states of all games have."""

    last_action: Int[Array, ""]  # the action executed last, in MinAtar's numbers; possibly of the previous episode


@struct
class Game(Env):
    """A MinAtar game. Subclasses define `init`, `game_noise`, `play` and `channel_rows`; this class defines the rest.

    Action: with `minimal_actions` (ids that end in -v1) the actions listed in `minimal`, numbered from 0 in that order;
    otherwise (ids that end in -v0) 0 nothing, 1 left, 2 up, 3 right, 4 down, 5 fire. An action that a game does not use
    does nothing.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one. As in MinAtar, the previous action is kept across episodes: the first action of an episode may be replaced by
    the last action of the episode before it.
    """

    channels: ClassVar[dict[str, ChannelStyle]]  # the channels by MinAtar's names, in MinAtar's order
    minimal: ClassVar[tuple[int, ...]]  # the actions that this game uses, in MinAtar's numbers

    sticky_action_prob: Number = hyper(
        0.1, valid=(0.0, 1.0), help="probability that the previous action is executed again instead of the chosen one"
    )
    ramping: Number = True  # whether the game becomes harder during an episode; no effect in Breakout and Freeway
    minimal_actions: bool = static(
        True, choices=(False, True), help="whether only the actions that the game uses are offered"
    )
    max_steps: Number | None = None  # steps after which an episode is truncated; None: no time limit

    @abc.abstractmethod
    def init(self, key: Key) -> GameState:
        """The first state of an episode; its `last_action` is NOTHING."""

    @abc.abstractmethod
    def game_noise(self, key: Key) -> Any:
        """Sample the random numbers of one step, except the one for sticky actions; None if the game uses none."""

    @abc.abstractmethod
    def play(
        self, state: Any, action: Int[Array, ""], noise: Any
    ) -> tuple[Any, Int[Array, ""] | Float[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, reward, terminated). `action` is in MinAtar's numbers."""

    @abc.abstractmethod
    def channel_rows(self, state: Any) -> tuple[RowBits, ...]:
        """The board as bits: ten words for each channel, in the order of `channels`."""

    def noise(self, key: Key) -> tuple[Float[Array, ""], Any]:
        """Sample (the uniform number that decides whether the previous action is repeated, the game's own noise)."""
        k_sticky, k_game = jax.random.split(key)
        return jax.random.uniform(k_sticky), self.game_noise(k_game)

    def transition(self, state: Any, action: Int[Array, ""], noise: tuple[Float[Array, ""], Any]) -> Transition[Any]:
        """Play one step with the chosen action, or with the previous one: (next state, reward, terminated, {})."""
        uniform, game_noise = noise
        executed = jnp.where(uniform < self.sticky_action_prob, state.last_action, self._to_minatar(action))
        played = self.play(state.replace(last_action=executed), executed, game_noise)
        # The barrier keeps XLA from computing the state again for each value that depends on it.
        state, reward, terminated = computed_once(played)
        return state, reward.astype(jnp.float32), terminated, {}

    def observe(self, state: Any) -> Bool[Array, "10 10 C"]:
        """The board [row, column, channel], equal to MinAtar's `state()`."""
        return to_cells(self.channel_rows(state))

    def carry_over(self, ended: Any, fresh: Any) -> Any:
        """Keep the last action of the episode that ended, as MinAtar does."""
        return fresh.replace(last_action=ended.last_action)

    def render(self, state: Any) -> UInt8[np.ndarray, "H W 3"]:
        """The board with one color for each channel. Where objects overlap, the smaller one is drawn on top."""
        pixels = SIDE * CELL_PIXELS
        canvas = Canvas(pixels, pixels, window=(0, SIDE, SIDE, 0), background=BOARD_COLOR)
        for line in range(1, SIDE):
            canvas.line([(line, 0), (line, SIDE)], LINE_COLOR, 0)
            canvas.line([(0, line), (SIDE, line)], LINE_COLOR, 0)
        layers = zip(np.moveaxis(np.asarray(self.observe(state)), -1, 0), self.channels.values(), strict=True)
        for cells, style in sorted(reversed([*layers]), key=lambda layer: -layer[1].size):
            for y, x in np.argwhere(cells).tolist():
                left, top, side = x + (1 - style.size) / 2, y + (1 - style.size) / 2, style.size
                canvas.polygon(box(left, top + side, left + side, top), style.color)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """Bool [row, column, channel]: whether something of this channel is in the cell."""
        return Box(0, 1, (SIDE, SIDE, len(self.channels)), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """All six actions, or with `minimal_actions` those that the game uses."""
        return Discrete(len(self._actions))

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]  # it depends on a field
        return tuple(("nothing", "left", "up", "right", "down", "fire")[action] for action in self._actions)

    @property
    def _actions(self) -> tuple[int, ...]:
        return self.minimal if self.minimal_actions else (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

    def _to_minatar(self, action: Int[Array, ""]) -> Int[Array, ""]:
        # MinAtar's number of an action. The table is one word of 3 bits for each action: a shift is cheaper than a
        # lookup. Compiled code cannot raise an error for an action outside the action space: such an action does
        # nothing.
        table = sum(number << ACTION_BITS * i for i, number in enumerate(self._actions))
        exists = (action >= 0) & (action < len(self._actions))
        return jnp.where(exists, table >> ACTION_BITS * jnp.where(exists, action, 0) & (1 << ACTION_BITS) - 1, NOTHING)


def one_cell(x: Int[Array, ""], y: Int[Array, ""]) -> RowBits:
    """The board on which only the cell in column `x`, row `y` is set; no cell if that is outside the board."""
    bit = jnp.uint32(1) << jnp.where((x >= 0) & (x < SIDE), x, SIDE).astype(jnp.uint32)
    return jnp.where(y == INDICES, bit & FULL_ROW, jnp.uint32(0))


def to_cells(channel_rows: tuple[RowBits, ...]) -> Bool[Array, "10 10 C"]:
    """The observation [row, column, channel] from the row words of each channel.

    Each cell tests one bit, the same bit on all boards of a batch, so XLA compiles one loop without branches. Stacking
    one array of cells for each channel would compile to a branch in every cell.
    """
    words = boards_last(jnp.stack([rows.astype(ROW_DTYPE) for rows in channel_rows], axis=-1))
    column = (1 << INDICES).astype(ROW_DTYPE)
    return (words[:, None, :] & column[None, :, None]) != 0


@jax.custom_batching.custom_vmap
def boards_last(words: UInt[Array, "10 C"]) -> UInt[Array, "10 C"]:
    """The same words; under `vmap` they are stored in memory with the batch of boards as the last axis.

    The loop over cells then reads neighboring memory, whether it writes board by board or cell by cell. Without this,
    XLA computes the words again for each cell, or chooses an order in memory in which they are loaded one by one. In a
    form without barriers they stay as they are.
    """
    return words


@boards_last.def_vmap
def _boards_last(size: int, is_batched: list, words: UInt[Array, "E 10 C"]) -> tuple[UInt[Array, "E 10 C"], bool]:
    del size, is_batched  # `vmap` calls this only if the one argument is batched
    if not current().computed_once:
        return words, True
    return optimization_barrier(with_layout_constraint(words, Layout(major_to_minor=(1, 2, 0)))), True
