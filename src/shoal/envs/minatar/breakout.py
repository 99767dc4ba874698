"""Breakout: bounce a ball off a paddle and knock out bricks.

Source: `minatar` 1.0.15, `environments/breakout.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import struct
from shoal.envs.minatar.game import (
    FULL_ROW,
    INDICES,
    LEFT,
    NOTHING,
    RIGHT,
    SIDE,
    ChannelStyle,
    Game,
    GameState,
    RowBits,
    one_cell,
)

LAST = SIDE - 1
FIRST_BRICK, BRICKS = 10, 30  # the wall fills cells 10 to 39, counted row by row: rows 1 to 3
WALL = (1 << BRICKS) - 1  # the whole wall: one bit for each brick
FIRST_ROW, BRICK_ROWS = 1, 3


@struct
class BreakoutState(GameState):
    """The paddle, the ball, the cell that the ball came from, and the bricks that are left."""

    paddle: Int[Array, ""]  # column of the paddle, which is in the last row
    x: Int[Array, ""]  # column of the ball
    y: Int[Array, ""]  # row of the ball
    goes_right: Bool[Array, ""]
    goes_down: Bool[Array, ""]
    last_x: Int[Array, ""]  # column of the ball one step ago
    last_y: Int[Array, ""]  # row of the ball one step ago
    in_brick: Bool[Array, ""]  # whether the ball met a brick in the last step; if so, it passes through the next brick
    bricks: UInt32[Array, ""]  # bit i is the brick in cell i of the wall, counted row by row


@env("MinAtar/Breakout-v0", minimal_actions=False)
@env("MinAtar/Breakout-v1", aliases=("Breakout-MinAtar",))
@struct
class Breakout(Game):
    """Bounce the ball off the paddle and into the wall of bricks.

    Action: 0 nothing, 1 left, 2 right (MinAtar/Breakout-v1); v0 has all six actions: 0 nothing, 1 left, 2 up, 3 right,
    4 down, 5 fire, of which 2, 4 and 5 do nothing.

    Observation: Box(10, 10, 4), bool: row, column, channel. The channels are paddle, ball, trail (the cell where the
    ball was one step ago) and brick.

    Reward: 1 for each brick.
    Start: the ball in row 3, in the left or the right corner with probability 1/2 each, going down and away from the
    side wall; the paddle in column 4.

    Each step: the paddle moves; then the ball moves one cell diagonally. The side walls and the top reflect the ball. A
    brick reflects it too, and is removed; if the step before met a brick as well, the ball passes through this one. A
    ball that comes down in the paddle's column is reflected upwards; a ball that reaches the paddle from the side is
    sent back the way it came. If no brick is left when the ball reaches the last row, a new wall of three rows appears.

    End: terminated when the ball passes the paddle. There is no time limit unless `max_steps` is set.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one, also across the start of an episode. `ramping` has no effect: this game never becomes harder.

    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 8
    channels: ClassVar = {
        "paddle": ChannelStyle((102, 194, 255)),
        "ball": ChannelStyle((255, 255, 255), 0.6),
        "trail": ChannelStyle((140, 140, 130), 0.4),
        "brick": ChannelStyle((214, 96, 70)),
    }
    minimal: ClassVar = (NOTHING, LEFT, RIGHT)

    def init(self, key: Key) -> BreakoutState:
        """The whole wall, and the ball in the left or right corner of row 3. `key` is consumed."""
        from_left = jax.random.bernoulli(key)
        x, y = jnp.where(from_left, 0, LAST), jnp.int32(3)
        return BreakoutState(
            time=jnp.int32(0),
            last_action=jnp.int32(NOTHING),
            paddle=jnp.int32(4),
            x=x,
            y=y,
            goes_right=from_left,
            goes_down=jnp.bool_(True),
            last_x=x,
            last_y=y,
            in_brick=jnp.bool_(False),
            bricks=jnp.uint32(WALL),
        )

    def game_noise(self, key: Key) -> None:
        """None: apart from the first state and sticky actions, nothing is random."""
        del key

    def play(
        self, state: BreakoutState, action: Int[Array, ""], noise: None
    ) -> tuple[BreakoutState, Bool[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, whether a brick was removed, terminated)."""
        del noise
        paddle = jnp.where(action == LEFT, jnp.maximum(state.paddle - 1, 0), state.paddle)
        paddle = jnp.where(action == RIGHT, jnp.minimum(paddle + 1, LAST), paddle)

        x = state.x + jnp.where(state.goes_right, 1, -1)
        y = state.y + jnp.where(state.goes_down, 1, -1)
        hits_side, hits_top = (x < 0) | (x > LAST), y < 0
        x, y = jnp.clip(x, 0, LAST), jnp.maximum(y, 0)

        cell = y * SIDE + x - FIRST_BRICK
        has_brick = ~hits_top & (cell >= 0) & (cell < BRICKS)
        bit = jnp.where(has_brick, cell, BRICKS).astype(jnp.uint32)
        in_brick = (state.bricks >> bit & 1) != 0
        knocks = in_brick & ~state.in_brick
        bricks = jnp.where(knocks, state.bricks ^ (jnp.uint32(1) << bit), state.bricks)

        is_low = y == LAST
        bricks = jnp.where(is_low & (bricks == 0), jnp.uint32(WALL), bricks)
        from_above = is_low & (state.x == paddle)
        from_aside = is_low & ~from_above & (x == paddle)

        state = state.replace(
            paddle=paddle,
            x=x,
            y=jnp.where(knocks | from_above | from_aside, state.y, y),
            goes_right=state.goes_right ^ hits_side ^ from_aside,
            goes_down=state.goes_down ^ (hits_top | knocks | from_above | from_aside),
            last_x=state.x,
            last_y=state.y,
            in_brick=in_brick,
            bricks=bricks,
        )
        return state, knocks, is_low & ~from_above & ~from_aside

    def channel_rows(self, state: BreakoutState) -> tuple[RowBits, ...]:
        """The row words of the channels paddle, ball, trail and brick."""
        has_bricks = (INDICES >= FIRST_ROW) & (INDICES < FIRST_ROW + BRICK_ROWS)
        first_bit = np.where(has_bricks, SIDE * (INDICES - FIRST_ROW), BRICKS).astype(np.uint32)
        return (
            one_cell(state.paddle, jnp.int32(LAST)),
            one_cell(state.x, state.y),
            one_cell(state.last_x, state.last_y),
            state.bricks >> first_bit & FULL_ROW,
        )
