"""What the five MinAtar games have in common: a board of ten by ten cells, six actions, of which some stick.

Source: Young and Tian 2019, "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning
Experiments"; `minatar` 1.0.15, `environment.py` and `gym.py`.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Bool, Float, Int, UInt, UInt8, UInt32

from shoal.canvas import Canvas, box
from shoal.core.env import Env, Key, State
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, hyper, static, struct

SIDE = 10  # cells
LINE = np.arange(SIDE, dtype=np.int32)  # numbers of rows, or of columns
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)  # MinAtar's numbers of the actions
ACTION_BITS = 3
WORD = np.dtype("uint16")
FULL_ROW = np.uint32((1 << SIDE) - 1)

# One channel of the board: a word for each row, whose bit x is set where something is in column x.
Rows = UInt32[Array, "10"]

CELL_PIXELS = 24
BOARD_COLOR, LINE_COLOR = (24, 26, 34), (48, 52, 66)


class Look(NamedTuple):
    """How a channel is painted: squares of a color, `size` of a cell to a side. Small ones lie on top of large ones."""

    color: tuple[int, int, int]
    size: float = 0.84


@struct
class GameState(State):
    """What the state of every game has."""

    last_action: Int[Array, ""]  # executed last, in MinAtar's numbers; the game before this one may have done it


@struct
class Game(Env):
    """A MinAtar game. Subclasses write `init`, `luck`, `play`, `rows`; the rest is here.

    Action: the names of `minimal` in this order where `minimal_actions` is set (ids that end in -v1), otherwise
    (-v0) all of 0 nothing, 1 left, 2 up, 3 right, 4 down, 5 fire; those that a game has no use for do nothing.

    Sticky actions: with probability `sticky_action_prob` the action executed last is executed once more instead of the
    one given. As in MinAtar it outlives the end of a game: the first action of the next may be the last one of this.
    """

    channels: ClassVar[dict[str, Look]]  # by MinAtar's names, in its order
    minimal: ClassVar[tuple[int, ...]]  # the actions of which this game has use

    sticky_action_prob: Number = hyper(0.1, valid=(0.0, 1.0))
    ramping: Number = True  # whether the game gets harder as it goes on, where it can
    minimal_actions: bool = static(True, choices=(False, True))
    max_steps: Number | None = None

    @abc.abstractmethod
    def init(self, key: Key) -> GameState:
        """The opening of a game; its `last_action` is NOTHING."""

    @abc.abstractmethod
    def luck(self, key: Key) -> Any:
        """What chance decides in a step, besides whether the action sticks; None where it decides nothing."""

    @abc.abstractmethod
    def play(
        self, state: Any, action: Int[Array, ""], luck: Any
    ) -> tuple[Any, Int[Array, ""] | Float[Array, ""], Bool[Array, ""]]:
        """One frame, with an action in MinAtar's numbers: (state, reward, terminated)."""

    @abc.abstractmethod
    def rows(self, state: Any) -> tuple[Rows, ...]:
        """Where on the board things are, for each channel."""

    def noise(self, key: Key) -> tuple[Float[Array, ""], Any]:
        """A uniform number that decides whether the action sticks, and the game's own luck."""
        k_sticky, k_luck = jax.random.split(key)
        return jax.random.uniform(k_sticky), self.luck(k_luck)

    def transition(
        self, state: Any, action: Int[Array, ""], noise: tuple[Float[Array, ""], Any]
    ) -> tuple[Any, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Play the action given, or the last one again."""
        chance, luck = noise
        executed = jnp.where(chance < self.sticky_action_prob, state.last_action, self._meant(action))
        played = self.play(state.replace(last_action=executed), executed, luck)
        state, reward, terminated = settled(played)
        return state, reward.astype(jnp.float32), terminated, {}

    def observe(self, state: Any) -> Bool[Array, "10 10 C"]:
        """MinAtar's `state()`: row, column, channel."""
        return unpacked(self.rows(state))

    def carry_over(self, ended: Any, fresh: Any) -> Any:
        """The last action, as MinAtar keeps it from game to game."""
        return fresh.replace(last_action=ended.last_action)

    def render(self, state: Any) -> UInt8[np.ndarray, "H W 3"]:
        """The board from above, a color for each channel. Where things overlap, the smaller one is in front."""
        pixels = SIDE * CELL_PIXELS
        canvas = Canvas(pixels, pixels, window=(0, SIDE, SIDE, 0), background=BOARD_COLOR)
        for line in range(1, SIDE):
            canvas.line([(line, 0), (line, SIDE)], LINE_COLOR, 0)
            canvas.line([(0, line), (SIDE, line)], LINE_COLOR, 0)
        layers = zip(np.moveaxis(np.asarray(self.observe(state)), -1, 0), self.channels.values(), strict=True)
        for cells, look in sorted(reversed([*layers]), key=lambda layer: -layer[1].size):
            for y, x in np.argwhere(cells).tolist():
                left, top, side = x + (1 - look.size) / 2, y + (1 - look.size) / 2, look.size
                canvas.polygon(box(left, top + side, left + side, top), look.color)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """Whether something is in a cell, for each channel."""
        return Box(0, 1, (SIDE, SIDE, len(self.channels)), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """All six actions, or those that matter here."""
        return Discrete(len(self._actions))

    @property
    def _actions(self) -> tuple[int, ...]:
        return self.minimal if self.minimal_actions else (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

    def _meant(self, action: Int[Array, ""]) -> Int[Array, ""]:
        # A table in one word: a shift is cheaper than a lookup. In compiled code any other action does nothing.
        table = sum(meant << ACTION_BITS * i for i, meant in enumerate(self._actions))
        known = (action >= 0) & (action < len(self._actions))
        return jnp.where(known, table >> ACTION_BITS * jnp.where(known, action, 0) & (1 << ACTION_BITS) - 1, NOTHING)


def settled(values: Any) -> Any:
    """The same values, computed once: XLA would compute what many others follow from again for each of them."""
    return jax.lax.optimization_barrier(values)


def at(x: Int[Array, ""], y: Int[Array, ""]) -> Rows:
    """One cell; none for one that is not on the board."""
    bit = jnp.uint32(1) << jnp.where((x >= 0) & (x < SIDE), x, SIDE).astype(jnp.uint32)
    return jnp.where(y == LINE, bit & FULL_ROW, jnp.uint32(0))


def unpacked(rows: tuple[Rows, ...]) -> Bool[Array, "10 10 C"]:
    """The observation that has these rows for channels.

    Each cell tests one bit, the same one on all boards: a loop without branches, where a stack of maps would branch in
    every cell.
    """
    words = boards_last(jnp.stack([row.astype(WORD) for row in rows], axis=-1))
    column = (1 << LINE).astype(WORD)
    return (words[:, None, :] & column[None, :, None]) != 0


@jax.custom_batching.custom_vmap
def boards_last(words: UInt[Array, "10 C"]) -> UInt[Array, "10 C"]:
    """The same words; in a batch they are written to memory with the boards as the last axis.

    The loop over cells then reads them as fast as it can, whether it writes board by board or cell by cell. Left to
    itself XLA computes them for each cell again, or settles for an order in which it loads them one by one.
    """
    return words


@boards_last.def_vmap
def _boards_last(size: int, is_batched: list, words: UInt[Array, "E 10 C"]) -> tuple[UInt[Array, "E 10 C"], bool]:
    del size, is_batched  # called only where its one argument has the axis
    return settled(with_layout_constraint(words, Layout(major_to_minor=(1, 2, 0)))), True
