"""The coin game: two players on a 3 x 3 torus collect coins; taking a coin of the other's color costs the other.

Source: Lerer and Peysakhovich 2017, "Maintaining cooperation in complex social dilemmas using deep reinforcement
learning", in the version of Lu et al. 2022, "Model-Free Opponent Shaping"
(github.com/luchris429/Model-Free-Opponent-Shaping, `src/coin_game/coin_game_envs.py`), rule for rule.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.struct import Struct, struct

SIDE = 3
CELLS = SIDE * SIDE
MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], np.int32)  # right, left, down, up, as (row, column)


@struct
class Board(Struct):
    """The cells (row, column) of both players and of both coins."""

    red: Int[Array, "2"]
    blue: Int[Array, "2"]
    red_coin: Int[Array, "2"]
    blue_coin: Int[Array, "2"]


class Picked(NamedTuple):
    """Which player picked which coin in a move."""

    red_red: Bool[Array, ""]
    red_blue: Bool[Array, ""]  # the red player, the blue coin
    blue_red: Bool[Array, ""]
    blue_blue: Bool[Array, ""]


def first_board(cells: Int[Array, "4"]) -> Board:
    """The board with both players and both coins at given cells, numbered from 0 to 8 row by row.

    All cells are sampled independently, so that players and coins may share a cell.
    """
    return Board(*[_place(cells[i]) for i in range(4)])


def moved(
    board: Board, red: Int[Array, ""], blue: Int[Array, ""], coin_cells: Int[Array, "2"]
) -> tuple[Board, Float[Array, "2"], Picked]:
    """One move of both players at the same time: (board, rewards of red and blue, picked coins).

    A player that ends on a coin picks it and gets 1. If the coin has the other's color, the other gets -2. A coin that
    was picked appears again at its cell of `coin_cells` (red, blue), which may be below a player.
    """
    board = board.replace(red=(board.red + _move(red)) % SIDE, blue=(board.blue + _move(blue)) % SIDE)
    picked = Picked(
        _same(board.red, board.red_coin),
        _same(board.red, board.blue_coin),
        _same(board.blue, board.red_coin),
        _same(board.blue, board.blue_coin),
    )
    red_red, red_blue, blue_red, blue_blue = (flag.astype(jnp.float32) for flag in picked)
    rewards = jnp.stack([red_red + red_blue - 2 * blue_red, blue_red + blue_blue - 2 * red_blue])
    board = board.replace(
        red_coin=jnp.where(picked.red_red | picked.blue_red, _place(coin_cells[0]), board.red_coin),
        blue_coin=jnp.where(picked.red_blue | picked.blue_blue, _place(coin_cells[1]), board.blue_coin),
    )
    return board, rewards, picked


def planes(board: Board) -> Bool[Array, "3 3 4"]:
    """The board as an image with a channel for each: the red player, the blue player, the red coin, the blue coin."""
    row, column = jnp.arange(SIDE, dtype=jnp.int32)[:, None], jnp.arange(SIDE, dtype=jnp.int32)[None]
    things = (board.red, board.blue, board.red_coin, board.blue_coin)
    return jnp.stack([(row == at[0]) & (column == at[1]) for at in things], axis=-1)


def _place(cell: Int[Array, ""]) -> Int[Array, "2"]:
    return jnp.stack([cell // SIDE, cell % SIDE]).astype(jnp.int32)


def _move(action: Int[Array, ""]) -> Int[Array, "2"]:
    return jnp.asarray(MOVES)[action]


def _same(a: Int[Array, "2"], b: Int[Array, "2"]) -> Bool[Array, ""]:
    return jnp.all(a == b)
