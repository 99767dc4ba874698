"""Freeway: lead a chicken across eight lanes of traffic, as often as possible.

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
from shoal.envs.minatar.game import DOWN, NOTHING, SIDE, UP, ChannelStyle, Game, GameState, RowBits, one_cell
from shoal.envs.minatar.lanes import lanes_to_rows
from shoal.envs.minatar.nibbles import COUNT, ONES, Word, equals, flag_at, hide_unflagged, select

START, COLUMN = SIDE - 1, 4  # row where the chicken starts, and its column
LAST = SIDE - 1
SPEEDS = 5
WAYS = 2 * SPEEDS  # combinations of a speed and a direction
FRACTION = 28  # bits of a random fraction; the 4 bits above are room for a product with 10
LANES_PER_WORD = COUNT // 2  # lanes whose speed and direction come from one random word


@struct
class FreewayState(GameState):
    """The chicken, and one car in each of the eight lanes.

    The car in lane i (row i + 1) owns four bits of every word below; the docstring of the package
    (`envs/minatar/__init__.py`, part 2) explains this layout.
    """

    y: Int[Array, ""]  # row of the chicken
    move_timer: Int[Array, ""]  # steps until the chicken may move again
    cars: UInt32[Array, ""]  # column of each car
    timers: UInt32[Array, ""]  # steps until each car moves
    speeds: UInt32[Array, ""]  # 1 to 5: a car waits for so many steps between two moves
    go_right: UInt32[Array, ""]  # flags: whether the car goes right; otherwise it goes left


@env("MinAtar/Freeway-v0", minimal_actions=False)
@env("MinAtar/Freeway-v1", aliases=("Freeway-MinAtar",))
@struct
class Freeway(Game):
    """Lead a chicken across the road, from the last row to the first, as often as possible in 2,501 steps.

    Action: 0 nothing, 1 up, 2 down (MinAtar/Freeway-v1); v0 has all six actions: 0 nothing, 1 left, 2 up, 3 right,
    4 down, 5 fire, of which 1, 3 and 5 do nothing.

    Observation: Box(10, 10, 7), bool: row, column, channel. The channels are chicken, car, and speed1 to speed5. The
    channel of a car's speed is set in the cell behind the car.

    Reward: 1 each time the chicken reaches the first row.
    Start: the chicken in the last row, unable to move for `player_speed` steps; one car at the left end of each of the
    rows 1 to 8, with a random speed and direction.

    Each step, in this order:

    1. The chicken moves if its timer allows it; it can then move again after `player_speed` steps.
    2. If the chicken is in the first row, it earns the reward and returns to the last row, and all cars get new random
       speeds and directions.
    3. The cars move, each once in speed + 1 steps. A car that leaves the board enters again on the other side. A
       chicken in the cell of a car, before or after the car moves, returns to the last row.

    End: terminated on the step after `time_limit` steps. This is a termination and not a truncation, as in MinAtar.
    There is no other time limit unless `max_steps` is set.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one, also across the start of an episode. `ramping` has no effect: this game never becomes harder.

    Differences from MinAtar: none. (In MinAtar a car never moves if its random number is exactly 1/2, which has
    probability 2^-53.)
    """

    reset_every: ClassVar[int] = 2000
    channels: ClassVar = {
        "chicken": ChannelStyle((255, 226, 92)),
        "car": ChannelStyle((224, 224, 232)),
        "speed1": ChannelStyle((255, 84, 84), 0.5),
        "speed2": ChannelStyle((255, 150, 70), 0.5),
        "speed3": ChannelStyle((196, 190, 80), 0.5),
        "speed4": ChannelStyle((84, 190, 120), 0.5),
        "speed5": ChannelStyle((80, 140, 220), 0.5),
    }
    minimal: ClassVar = (NOTHING, UP, DOWN)

    player_speed: Number = 3  # the chicken can move once in so many steps
    time_limit: Number = 2500  # after so many steps, the next step ends the episode

    @property
    def longest_episode(self) -> int | None:
        """`time_limit` + 1 steps; None while the field is traced."""
        return int(np.max(self.time_limit)) + 1 if is_concrete(self.time_limit) else None

    def __post_init__(self) -> None:
        check_range(self, "player_speed", "time_limit", low=1, whole=True)

    def init(self, key: Key) -> FreewayState:
        """All cars at the left end, with random speeds and directions. `key` is consumed."""
        speeds, go_right = _speeds_and_directions(self.game_noise(key))
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

    def game_noise(self, key: Key) -> UInt32[Array, "2"]:
        """Random bits for new speeds and directions of all cars, used if the chicken crosses: four lanes each word."""
        return jax.random.bits(key, (2,), jnp.uint32)

    def play(
        self, state: FreewayState, action: Int[Array, ""], noise: UInt32[Array, "2"]
    ) -> tuple[FreewayState, Bool[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, whether the chicken crossed, terminated)."""
        moves = ((action == UP) | (action == DOWN)) & (state.move_timer == 0)
        y = state.y + jnp.where(moves, jnp.where(action == UP, -1, 1), 0)
        y = jnp.minimum(y, START)
        timer = jnp.where(moves, jnp.asarray(self.player_speed, jnp.int32), state.move_timer)

        crosses = y == 0
        speeds, go_right = _speeds_and_directions(noise)
        speeds = jnp.where(crosses, speeds, state.speeds)
        go_right = jnp.where(crosses, go_right, state.go_right)
        timers = jnp.where(crosses, speeds, state.timers)
        y = jnp.where(crosses, START, y)

        drive = equals(timers, 0)
        cars = _move_cars(state.cars, drive, go_right)
        # No car can be in the last row, so a chicken that was sent back there is not hit again in this step.
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

    def channel_rows(self, state: FreewayState) -> tuple[RowBits, ...]:
        """The row words of the channels chicken, car, and speed1 to speed5."""
        behind = _move_cars(state.cars, jnp.uint32(ONES), ~state.go_right)
        by_speed = [hide_unflagged(equals(state.speeds, k + 1), behind) for k in range(SPEEDS)]
        return (one_cell(jnp.int32(COLUMN), state.y), lanes_to_rows(state.cars), *map(lanes_to_rows, by_speed))


def _move_cars(cars: Word, drive: Word, go_right: Word) -> UInt32[Array, ""]:
    """The columns of the cars after those flagged in `drive` moved one cell, around the board."""
    right, left = drive & go_right, drive & ~go_right
    leave_right, leave_left = right & equals(cars, LAST), left & equals(cars, 0)
    inside = cars + (right ^ leave_right) - (left ^ leave_left)
    return inside ^ (leave_right | leave_left) * np.uint32(LAST)  # 9 becomes 0, 0 becomes 9


def _speeds_and_directions(noise: UInt32[Array, "2"]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """(speeds, flags of the cars that go right), from the first four decimal digits of each word read as a fraction.

    A digit d below 5 means speed d + 1 to the left, the others speed d - 4 to the right. All 10^4 combinations of four
    digits are equally likely, up to a difference of 2^-28 in probability.
    """
    rest, speeds, go_right = noise >> (32 - FRACTION), jnp.zeros(2, jnp.uint32), jnp.zeros(2, jnp.uint32)
    for lane in range(LANES_PER_WORD):
        rest = rest * np.uint32(WAYS)
        digit, rest = rest >> FRACTION, rest & np.uint32((1 << FRACTION) - 1)
        right = (digit >= SPEEDS).astype(jnp.uint32)
        speeds = speeds | digit - right * np.uint32(SPEEDS) + np.uint32(1) << 4 * lane
        go_right = go_right | right << 4 * lane
    return speeds[0] | speeds[1] << 16, go_right[0] | go_right[1] << 16
