"""Freeway: cross eight lanes of traffic, again and again.

Source: `minatar` 1.0.15, `environments/freeway.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Number, is_concrete, struct
from shoal.envs.checks import check_range
from shoal.envs.minatar.game import DOWN, NOTHING, SIDE, UP, Game, GameState, Look, Rows, at
from shoal.envs.minatar.lanes import in_lanes
from shoal.envs.minatar.nibbles import COUNT, ONES, Word, equals, flag_at, only, select

START, COLUMN = SIDE - 1, 4  # of the chicken
LAST = SIDE - 1
SPEEDS = 5
WAYS = 2 * SPEEDS  # a speed, to the left or to the right
FRACTION = 28  # bits of a fraction that leave room for a factor of up to 16
LANES_PER_LOT = COUNT // 2


@struct
class FreewayState(GameState):
    """The chicken, and of the eight cars, each in its own lane, four bits in every word (see `nibbles`)."""

    y: Int[Array, ""]  # the chicken's row
    move_timer: Int[Array, ""]  # steps until it may move again
    cars: UInt32[Array, ""]  # columns
    timers: UInt32[Array, ""]  # steps until each moves
    speeds: UInt32[Array, ""]  # a car moves after so many steps of rest, 1 to 5
    go_right: UInt32[Array, ""]  # flags


@env("MinAtar/Freeway-v0", minimal_actions=False)
@env("MinAtar/Freeway-v1", aliases=("Freeway-MinAtar",))
@struct
class Freeway(Game):
    """Lead a chicken across the road, from the last row to the first, as often as possible in 2,501 steps.

    Action: 0 nothing, 1 up, 2 down (MinAtar/Freeway-v1); all six in v0, see `sticky_action_prob` below.

    Observation: Box(10, 10, 7), bool: row, column, and the channels chicken, car, speed1 to speed5. A car's speed
    channel is set in the cell behind it.

    Reward: 1 for each crossing.
    Start: the chicken in the last row, not allowed to move for `player_speed` steps; a car at the left end of each of
    the rows 1 to 8, with a random speed and direction.
    A step: the chicken moves if it may, and then not again for `player_speed` steps in all. In the first row it is
    paid, and goes back to the last; all cars draw new speeds and directions. Then the cars move, each once in speed + 1
    steps, around the board. A chicken that one meets, before or after it moves, goes back to the last row.
    End: terminated on the step after `time_limit` steps, as MinAtar does, which does not call it a truncation. No other
    time limit unless `max_steps` is set.
    Fields: `sticky_action_prob` is how likely the action executed last is executed instead of the one given, also over
    the start of a game; `ramping` changes nothing, this game never gets harder; `minimal_actions`.
    Differences from MinAtar: none. (A car there stands still for ever when a random number is exactly 1/2, which
    happens once in 2^53.)
    """

    reset_every: ClassVar[int] = 2000
    channels: ClassVar = {
        "chicken": Look((255, 226, 92)),
        "car": Look((224, 224, 232)),
        "speed1": Look((255, 84, 84), 0.5),
        "speed2": Look((255, 150, 70), 0.5),
        "speed3": Look((196, 190, 80), 0.5),
        "speed4": Look((84, 190, 120), 0.5),
        "speed5": Look((80, 140, 220), 0.5),
    }
    minimal: ClassVar = (NOTHING, UP, DOWN)

    player_speed: Number = 3  # the chicken moves once in so many steps
    time_limit: Number = 2500  # steps, after which the next one ends the game

    @property
    def longest_episode(self) -> int | None:
        """One step more than `time_limit`."""
        return int(np.max(self.time_limit)) + 1 if is_concrete(self.time_limit) else None

    def __post_init__(self) -> None:
        check_range(self, "player_speed", "time_limit", low=1, whole=True)

    def init(self, key: Key) -> FreewayState:
        """Cars at the left end, on their ways. `key` is consumed."""
        speeds, go_right = _ways(self.luck(key))
        return FreewayState(
            time=jnp.int32(0),
            last_action=jnp.int32(NOTHING),
            y=jnp.int32(START),
            move_timer=jnp.asarray(self.player_speed, jnp.int32),
            cars=jnp.uint32(0),
            timers=speeds,
            speeds=speeds,
            go_right=go_right,
        )

    def luck(self, key: Key) -> UInt32[Array, "2"]:
        """New ways for all cars, should the chicken cross: four lanes a lot."""
        return jax.random.bits(key, (2,), jnp.uint32)

    def play(
        self, state: FreewayState, action: Int[Array, ""], luck: UInt32[Array, "2"]
    ) -> tuple[FreewayState, Bool[Array, ""], Bool[Array, ""]]:
        """The chicken, then the cars."""
        moves = ((action == UP) | (action == DOWN)) & (state.move_timer == 0)
        y = state.y + jnp.where(moves, jnp.where(action == UP, -1, 1), 0)
        y = jnp.minimum(y, START)
        timer = jnp.where(moves, jnp.asarray(self.player_speed, jnp.int32), state.move_timer)

        crosses = y == 0
        speeds, go_right = _ways(luck)
        speeds = jnp.where(crosses, speeds, state.speeds)
        go_right = jnp.where(crosses, go_right, state.go_right)
        timers = jnp.where(crosses, speeds, state.timers)
        y = jnp.where(crosses, START, y)

        drive = equals(timers, 0)
        cars = _driven(state.cars, drive, go_right)
        # Lanes are apart, so no car meets a chicken that another one sent back.
        meets = flag_at(y - 1) & (equals(state.cars, COLUMN) | equals(cars, COLUMN))
        state = state.replace(
            y=jnp.where(meets != 0, START, y),
            move_timer=jnp.maximum(timer - 1, 0),
            cars=cars,
            timers=select(drive, speeds, timers - (ONES & ~drive)),
            speeds=speeds,
            go_right=go_right,
        )
        return state, crosses, state.time > self.time_limit

    def rows(self, state: FreewayState) -> tuple[Rows, ...]:
        """Chicken, cars, and what is behind them by speed."""
        behind = _driven(state.cars, jnp.uint32(ONES), ~state.go_right)
        by_speed = [only(equals(state.speeds, k + 1), behind) for k in range(SPEEDS)]
        return (at(jnp.int32(COLUMN), state.y), in_lanes(state.cars), *map(in_lanes, by_speed))


def _driven(cars: Word, drive: Word, go_right: Word) -> UInt32[Array, ""]:
    """The columns after those flagged in `drive` moved one cell, around the board."""
    right, left = drive & go_right, drive & ~go_right
    leave_right, leave_left = right & equals(cars, LAST), left & equals(cars, 0)
    inside = cars + (right ^ leave_right) - (left ^ leave_left)
    return inside ^ (leave_right | leave_left) * np.uint32(LAST)  # 9 becomes 0, 0 becomes 9


def _ways(lots: UInt32[Array, "2"]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """(speeds, flags of those to the right): the first four decimal digits of each lot, read as a fraction.

    A digit below 5 is a speed to the left, less one; the others go to the right. Digits are uniform up to 2^-28 times
    the number of combinations, 10^4.
    """
    rest, speeds, go_right = lots >> (32 - FRACTION), jnp.zeros(2, jnp.uint32), jnp.zeros(2, jnp.uint32)
    for lane in range(LANES_PER_LOT):
        rest = rest * np.uint32(WAYS)
        digit, rest = rest >> FRACTION, rest & np.uint32((1 << FRACTION) - 1)
        right = (digit >= SPEEDS).astype(jnp.uint32)
        speeds = speeds | digit - right * np.uint32(SPEEDS) + np.uint32(1) << 4 * lane
        go_right = go_right | right << 4 * lane
    return speeds[0] | speeds[1] << 16, go_right[0] | go_right[1] << 16
