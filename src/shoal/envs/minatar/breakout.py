"""Breakout: keep the ball in play with a paddle and knock out bricks.

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
from shoal.envs.minatar.game import FULL_ROW, LEFT, LINE, NOTHING, RIGHT, SIDE, Game, GameState, Look, Rows, at

LAST = SIDE - 1
FIRST_BRICK, BRICKS = 10, 30  # cells are numbered row by row
WALL = (1 << BRICKS) - 1
FIRST_ROW, BRICK_ROWS = 1, 3


@struct
class BreakoutState(GameState):
    """The paddle, the ball, where it came from, and the bricks that are left."""

    paddle: Int[Array, ""]  # its column; its row is the last
    x: Int[Array, ""]
    y: Int[Array, ""]
    goes_right: Bool[Array, ""]
    goes_down: Bool[Array, ""]
    last_x: Int[Array, ""]
    last_y: Int[Array, ""]
    in_brick: Bool[Array, ""]  # whether the last step met a brick; the next one then passes through
    bricks: UInt32[Array, ""]  # a bit for each, row by row


@env("MinAtar/Breakout-v0", minimal_actions=False)
@env("MinAtar/Breakout-v1", aliases=("Breakout-MinAtar",))
@struct
class Breakout(Game):
    """Bounce the ball off the paddle and into the wall of bricks.

    Action: 0 nothing, 1 left, 2 right (MinAtar/Breakout-v1); all six in v0, see `sticky_action_prob` below.

    Observation: Box(10, 10, 4), bool: row, column, and the channels paddle, ball, trail (where the ball was one step
    ago), brick.

    Reward: 1 for each brick.
    Start: the ball in row 3, in the left or right corner at random, going down and inwards; the paddle in column 4.
    A step: the paddle moves; then the ball moves one cell diagonally. Walls reflect it, and so does a brick, which is
    knocked out; after meeting a brick it flies through the next one. The paddle reflects a ball that comes down in its
    column upwards, and sends one that arrives from the side back where it came from. When no brick is left, three new
    rows appear as the ball reaches the last row.
    End: terminated when the ball passes the paddle. No time limit unless `max_steps` is set.
    Fields: `sticky_action_prob` is how likely the action executed last is executed instead of the one given, also over
    the start of a game; `ramping` changes nothing, this game never gets harder; `minimal_actions`.
    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 8
    channels: ClassVar = {
        "paddle": Look((102, 194, 255)),
        "ball": Look((255, 255, 255), 0.6),
        "trail": Look((140, 140, 130), 0.4),
        "brick": Look((214, 96, 70)),
    }
    minimal: ClassVar = (NOTHING, LEFT, RIGHT)

    def init(self, key: Key) -> BreakoutState:
        """A whole wall, and a ball in one of two corners. `key` is consumed."""
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

    def luck(self, key: Key) -> None:
        """Only the opening is drawn."""
        del key

    def play(
        self, state: BreakoutState, action: Int[Array, ""], luck: None
    ) -> tuple[BreakoutState, Bool[Array, ""], Bool[Array, ""]]:
        """Move the paddle, then the ball; what the ball meets first decides."""
        del luck
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

    def rows(self, state: BreakoutState) -> tuple[Rows, ...]:
        """Paddle, ball, trail, bricks."""
        has_bricks = (LINE >= FIRST_ROW) & (LINE < FIRST_ROW + BRICK_ROWS)
        place = np.where(has_bricks, SIDE * (LINE - FIRST_ROW), BRICKS).astype(np.uint32)
        return (
            at(state.paddle, jnp.int32(LAST)),
            at(state.x, state.y),
            at(state.last_x, state.last_y),
            state.bricks >> place & FULL_ROW,
        )
