"""SpaceInvaders: shoot down waves of aliens before they land.

Source: `minatar` 1.0.15, `environments/space_invaders.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Number, struct
from shoal.envs.checks import check_range
from shoal.envs.minatar.game import (
    FIRE,
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
WIDTH, HEIGHT = 6, 4  # columns and rows of a wave of aliens
WAVE = (1 << WIDTH * HEIGHT) - 1  # a whole wave: one bit for each alien, row by row
ROW = (1 << WIDTH) - 1  # the bits of the wave's first row
COLUMN = sum(1 << WIDTH * row for row in range(HEIGHT))  # the bits of the wave's first column
WAVE_LEFT, WAVE_TOP = 2, 0
SHOT_COOL_DOWN = 5
BOMB_INTERVAL = 10
FASTEST = 6  # a new wave has at least so many steps between moves
MARGIN = 6  # columns of the wave that may be left of the board, once all aliens in them were shot


@struct
class SpaceInvadersState(GameState):
    """The cannon, two shots, one bomb, and the aliens: which ones of the wave are alive, and where the wave is.

    Room for two shots is enough: a shot fired in step t is gone in step t + 9, and the cannon fires at most once in
    five steps. Room for one bomb is enough: it falls one row in each step, so it is gone when the next one is dropped
    ten steps later.
    """

    x: Int[Array, ""]  # column of the cannon
    shot_timer: Int[Array, ""]  # steps until the cannon may fire again
    shot_x: Int[Array, ""]  # the newer shot
    shot_y: Int[Array, ""]  # -1: there is no such shot
    older_x: Int[Array, ""]  # the older shot
    older_y: Int[Array, ""]  # -1: there is no such shot
    bomb_x: Int[Array, ""]
    bomb_y: Int[Array, ""]  # 10: there is no bomb
    bomb_timer: Int[Array, ""]  # steps until the next bomb
    aliens: UInt32[Array, ""]  # bit 6 r + c: whether the alien in row r, column c of the wave is alive
    left: Int[Array, ""]  # column of the board where the wave's column 0 is; may be negative if that column is empty
    top: Int[Array, ""]  # row of the board where the wave's row 0 is
    go_right: Bool[Array, ""]
    move_timer: Int[Array, ""]  # steps until the aliens move
    move_interval: Int[Array, ""]  # steps between two moves; as many as there are aliens, once these are fewer
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/SpaceInvaders-v0", minimal_actions=False)
@env("MinAtar/SpaceInvaders-v1", aliases=("SpaceInvaders-MinAtar",))
@struct
class SpaceInvaders(Game):
    """Shoot aliens, avoid their bombs, and let no alien land.

    Action: 0 nothing, 1 left, 2 right, 3 fire (MinAtar/SpaceInvaders-v1); v0 has all six actions: 0 nothing, 1 left,
    2 up, 3 right, 4 down, 5 fire, of which 2 and 4 do nothing.

    Observation: Box(10, 10, 6), bool: row, column, channel. The channels are cannon, alien, alien_left, alien_right,
    friendly_bullet and enemy_bullet. While the aliens go left, alien_left shows them again; while they go right,
    alien_right does.

    Reward: 1 for each alien that is shot.
    Start: the cannon in column 5 of the last row; 24 aliens in rows 0 to 3, columns 2 to 7, going left.

    Each step, in this order:

    1. The cannon moves, or fires; it can fire once in 5 steps.
    2. Shots rise by one row, and the bomb falls by one row.
    3. Every `enemy_move_interval` steps the aliens move by one column; once there are fewer aliens than that, every as
       many steps as there are aliens. If one of them is at the edge of the board, they turn and move down by one row
       instead.
    4. Every 10 steps an alien drops a bomb: the lowest one in the column of aliens nearest to the cannon.
    5. An alien and a shot in the same cell disappear. If no alien is left, the next wave appears.

    Difficulty: with `ramping`, each new wave has one step less between two moves, down to 6 steps.

    End: terminated when a bomb or an alien reaches the cannon's cell, or when the aliens turn while one of them is in
    the last row. There is no time limit unless `max_steps` is set.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one, also across the start of an episode.

    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 25
    channels: ClassVar = {
        "cannon": ChannelStyle((102, 194, 255)),
        "alien": ChannelStyle((120, 200, 110)),
        "alien_left": ChannelStyle((46, 120, 60), 0.3),
        "alien_right": ChannelStyle((214, 240, 140), 0.3),
        "friendly_bullet": ChannelStyle((255, 255, 255), 0.4),
        "enemy_bullet": ChannelStyle((240, 96, 96), 0.5),
    }
    minimal: ClassVar = (NOTHING, LEFT, RIGHT, FIRE)

    enemy_move_interval: Number = 12  # steps between two moves of the first wave

    def __post_init__(self) -> None:
        check_range(self, "enemy_move_interval", low=1, whole=True)

    def init(self, key: Key) -> SpaceInvadersState:
        """The cannon and the first wave. No random number is used."""
        del key
        interval = jnp.asarray(self.enemy_move_interval, jnp.int32)
        numbers = {"x": 5, "shot_timer": 0, "bomb_timer": BOMB_INTERVAL, "left": WAVE_LEFT, "top": WAVE_TOP}
        none = {"shot_x": 0, "shot_y": -1, "older_x": 0, "older_y": -1, "bomb_x": 0, "bomb_y": SIDE, "ramp_index": 0}
        return SpaceInvadersState(
            time=jnp.int32(0),
            last_action=jnp.int32(NOTHING),
            aliens=jnp.uint32(WAVE),
            go_right=jnp.bool_(False),
            move_timer=interval,
            move_interval=interval,
            **{name: jnp.int32(number) for name, number in {**numbers, **none}.items()},
        )

    def game_noise(self, key: Key) -> None:
        """None: apart from sticky actions, nothing is random."""
        del key

    def play(
        self, state: SpaceInvadersState, action: Int[Array, ""], noise: None
    ) -> tuple[SpaceInvadersState, Int[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, number of aliens shot, terminated)."""
        del noise
        state = _move_or_fire(state, action)
        state = _move_bomb(_move_shots(state))
        is_bombed = (state.bomb_y == LAST) & (state.bomb_x == state.x)
        is_rammed = _alien_at(state, state.x, jnp.int32(LAST))
        state, have_landed = _move_aliens(state)
        is_rammed = is_rammed | _alien_at(state, state.x, jnp.int32(LAST))
        state = _drop_bomb(state)
        state, hits = _hit_aliens(state)
        state = state.replace(
            shot_timer=jnp.maximum(state.shot_timer - 1, 0),
            move_timer=state.move_timer - 1,
            bomb_timer=state.bomb_timer - 1,
        )
        return self._next_wave(state), hits, is_bombed | is_rammed | have_landed

    def channel_rows(self, state: SpaceInvadersState) -> tuple[RowBits, ...]:
        """The row words of the channels cannon, alien, alien_left, alien_right, friendly_bullet and enemy_bullet."""
        aliens, none = _rows_of_aliens(state), jnp.uint32(0)
        return (
            one_cell(state.x, jnp.int32(LAST)),
            aliens,
            jnp.where(state.go_right, none, aliens),
            jnp.where(state.go_right, aliens, none),
            one_cell(state.shot_x, state.shot_y) | one_cell(state.older_x, state.older_y),
            one_cell(state.bomb_x, state.bomb_y),
        )

    def _next_wave(self, state: SpaceInvadersState) -> SpaceInvadersState:
        cleared = state.aliens == 0
        harder = (cleared & (state.move_interval > FASTEST) & jnp.asarray(self.ramping, bool)).astype(jnp.int32)
        return state.replace(
            aliens=jnp.where(cleared, jnp.uint32(WAVE), state.aliens),
            left=jnp.where(cleared, WAVE_LEFT, state.left),
            top=jnp.where(cleared, WAVE_TOP, state.top),
            move_interval=state.move_interval - harder,
            ramp_index=state.ramp_index + harder,
        )


def _move_or_fire(state: SpaceInvadersState, action: Int[Array, ""]) -> SpaceInvadersState:
    fires = (action == FIRE) & (state.shot_timer == 0)
    x = state.x + jnp.where(action == RIGHT, 1, jnp.where(action == LEFT, -1, 0))
    return state.replace(
        x=jnp.clip(x, 0, LAST),
        shot_timer=jnp.where(fires, SHOT_COOL_DOWN, state.shot_timer),
        shot_x=jnp.where(fires, state.x, state.shot_x),
        shot_y=jnp.where(fires, LAST, state.shot_y),
        older_x=jnp.where(fires, state.shot_x, state.older_x),
        older_y=jnp.where(fires, state.shot_y, state.older_y),
    )


def _move_shots(state: SpaceInvadersState) -> SpaceInvadersState:
    return state.replace(shot_y=jnp.maximum(state.shot_y - 1, -1), older_y=jnp.maximum(state.older_y - 1, -1))


def _move_bomb(state: SpaceInvadersState) -> SpaceInvadersState:
    return state.replace(bomb_y=jnp.minimum(state.bomb_y + 1, SIDE))


def _bit(state: SpaceInvadersState, x: Int[Array, ""], y: Int[Array, ""]) -> UInt32[Array, ""]:
    """The bit in `aliens` of the alien that would be in this cell; bit 24, which is never set, if there is none."""
    column, row = x - state.left, y - state.top
    row = jnp.where(row < 0, row + SIDE, row)  # an alien that moves below the last row appears in row 0, as in MinAtar
    inside = (column >= 0) & (column < WIDTH) & (row < HEIGHT) & (y >= 0)
    return jnp.where(inside, row * WIDTH + column, WIDTH * HEIGHT).astype(jnp.uint32)


def _alien_at(state: SpaceInvadersState, x: Int[Array, ""], y: Int[Array, ""]) -> Bool[Array, ""]:
    return (state.aliens >> _bit(state, x, y) & 1) != 0


def _rows_of_aliens(state: SpaceInvadersState) -> RowBits:
    """The board with the aliens: row by row, six bits of `aliens` shifted to the wave's column."""
    row = INDICES - state.top
    row = jnp.where(row < 0, row + SIDE, row)
    first_bit = jnp.where(row < HEIGHT, WIDTH * row, WIDTH * HEIGHT).astype(jnp.uint32)
    return (state.aliens >> first_bit & ROW) << (state.left + MARGIN).astype(jnp.uint32) >> MARGIN & FULL_ROW


def _columns_with_aliens(state: SpaceInvadersState) -> UInt32[Array, ""]:
    """One bit for each column of the board: whether it has aliens. Column 0 of the board is bit `MARGIN`."""
    aliens = state.aliens
    columns = (aliens | aliens >> WIDTH | aliens >> 2 * WIDTH | aliens >> 3 * WIDTH) & ROW
    return columns << (state.left + MARGIN).astype(jnp.uint32)


def _move_aliens(state: SpaceInvadersState) -> tuple[SpaceInvadersState, Bool[Array, ""]]:
    """If it is time, move all aliens: (state, whether they turned while one was in the last row)."""
    is_time = state.move_timer == 0
    count = jax.lax.population_count(state.aliens).astype(jnp.int32)
    columns = _columns_with_aliens(state)
    edge = jnp.where(state.go_right, jnp.uint32(1 << MARGIN + LAST), jnp.uint32(1 << MARGIN))
    turn = is_time & ((columns & edge) != 0)
    lowest = LAST - state.top  # the row of the wave that is in the last row of the board
    shift = jnp.where(lowest < HEIGHT, lowest * WIDTH, 31).astype(jnp.uint32)
    is_low = (state.aliens >> shift & ROW) != 0
    dx = jnp.where(is_time & ~turn, jnp.where(state.go_right, 1, -1), 0)
    state = state.replace(
        left=state.left + dx,
        top=state.top + turn.astype(jnp.int32),
        go_right=state.go_right ^ turn,
        move_timer=jnp.where(is_time, jnp.minimum(count, state.move_interval), state.move_timer),
    )
    return state, turn & is_low


def _drop_bomb(state: SpaceInvadersState) -> SpaceInvadersState:
    """If it is time, the lowest alien of the column nearest to the cannon drops a bomb; of two, the left column."""
    is_time = state.bomb_timer == 0
    columns, cannon = _columns_with_aliens(state), state.x + MARGIN
    right_of_cannon = jnp.uint32(2) << cannon.astype(jnp.uint32)
    on_the_left, on_the_right = columns & (right_of_cannon - 1), columns & ~(right_of_cannon - 1)
    left = 31 - jax.lax.clz(on_the_left).astype(jnp.int32)  # -1 if there is none
    right = jax.lax.population_count((on_the_right & (~on_the_right + 1)) - 1).astype(jnp.int32)  # 32 if there is none
    x = jnp.where((left >= 0) & (cannon - left <= right - cannon), left, right) - MARGIN
    column = state.aliens >> (x - state.left).astype(jnp.uint32) & COLUMN
    rows = [state.top + row for row in range(HEIGHT)]
    rows = [jnp.where(row < SIDE, row, row - SIDE) for row in rows]
    is_alive = [(column >> WIDTH * row & 1) != 0 for row in range(HEIGHT)]
    y = jnp.int32(0)
    for row, alive in zip(rows, is_alive, strict=True):
        y = jnp.where(alive, jnp.maximum(y, row), y)
    return state.replace(
        bomb_x=jnp.where(is_time, x, state.bomb_x),
        bomb_y=jnp.where(is_time, y, state.bomb_y),
        bomb_timer=jnp.where(is_time, BOMB_INTERVAL, state.bomb_timer),
    )


def _hit_aliens(state: SpaceInvadersState) -> tuple[SpaceInvadersState, Int[Array, ""]]:
    """Remove each shot and alien that are in the same cell: (state, number of aliens)."""
    one = jnp.uint32(1)
    newer = state.aliens & one << _bit(state, state.shot_x, state.shot_y)
    older = state.aliens & one << _bit(state, state.older_x, state.older_y)
    state = state.replace(
        aliens=state.aliens & ~(newer | older),
        shot_y=jnp.where(newer != 0, -1, state.shot_y),
        older_y=jnp.where(older != 0, -1, state.older_y),
    )
    return state, (newer != 0).astype(jnp.int32) + (older != 0).astype(jnp.int32)
