"""SpaceInvaders: shoot down wave after wave of aliens before they land.

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
from shoal.envs.minatar.game import FIRE, FULL_ROW, LEFT, LINE, NOTHING, RIGHT, SIDE, Game, GameState, Look, Rows, at

LAST = SIDE - 1
WIDTH, HEIGHT = 6, 4  # of a wave
WAVE = (1 << WIDTH * HEIGHT) - 1  # a bit for each alien, row by row
ROW = (1 << WIDTH) - 1
COLUMN = sum(1 << WIDTH * row for row in range(HEIGHT))
WAVE_LEFT, WAVE_TOP = 2, 0
SHOT_COOL_DOWN = 5
BOMB_INTERVAL = 10
FASTEST = 6  # the shortest interval between moves that a new wave may have
MARGIN = 6  # how far columns without aliens may stick out on the left


@struct
class SpaceInvadersState(GameState):
    """The cannon, two shots, a bomb, and the aliens: which of the wave live, and where the wave is.

    Two shots are enough: one that leaves in step t is gone in step t + 9, and there is one in five steps. One bomb is:
    falling a row a step, it is gone when the next one falls ten steps later.
    """

    x: Int[Array, ""]  # the cannon's
    shot_timer: Int[Array, ""]  # steps until it may fire again
    shot_x: Int[Array, ""]
    shot_y: Int[Array, ""]  # -1: there is none
    older_x: Int[Array, ""]  # the shot before
    older_y: Int[Array, ""]
    bomb_x: Int[Array, ""]
    bomb_y: Int[Array, ""]  # 10: there is none
    bomb_timer: Int[Array, ""]  # steps until the next one
    aliens: UInt32[Array, ""]  # those of the wave that live, a bit for each
    left: Int[Array, ""]  # column of the wave's first; may lie off the board when all in it are dead
    top: Int[Array, ""]  # row of the wave's first
    go_right: Bool[Array, ""]
    move_timer: Int[Array, ""]
    move_interval: Int[Array, ""]  # steps between moves, while there are as many aliens
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/SpaceInvaders-v0", minimal_actions=False)
@env("MinAtar/SpaceInvaders-v1", aliases=("SpaceInvaders-MinAtar",))
@struct
class SpaceInvaders(Game):
    """Shoot aliens, evade their bombs, and let none land.

    Action: 0 nothing, 1 left, 2 right, 3 fire (MinAtar/SpaceInvaders-v1); all six in v0, see `sticky_action_prob`
    below.

    Observation: Box(10, 10, 6), bool: row, column, and the channels cannon, alien, alien_left, alien_right (the aliens
    again, in the one of the two that says where they are heading), friendly_bullet, enemy_bullet.

    Reward: 1 for each alien.
    Start: the cannon in column 5 of the last row; 24 aliens in rows 0 to 3, columns 2 to 7, heading left.
    A step: the cannon moves or fires, at most once in 5 steps; shots rise and the bomb falls by a row. Every
    `enemy_move_interval` steps, or as many as there are aliens if that is fewer, the aliens move by a column; where one
    is at the edge they turn and move down instead. Every 10 steps the alien nearest to the cannon, by column, drops a
    bomb. Then shots hit. When none is left, the next wave appears.
    Difficulty, with `ramping`: each wave moves one step sooner than the last, down to every 6 steps.
    End: terminated when a bomb or an alien hits the cannon, or when the aliens turn while one is in the last row. No
    time limit unless `max_steps` is set.
    Fields: `sticky_action_prob` is how likely the action executed last is executed instead of the one given, also over
    the start of a game; `minimal_actions`; `enemy_move_interval`, of the first wave.
    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 25
    channels: ClassVar = {
        "cannon": Look((102, 194, 255)),
        "alien": Look((120, 200, 110)),
        "alien_left": Look((46, 120, 60), 0.3),
        "alien_right": Look((214, 240, 140), 0.3),
        "friendly_bullet": Look((255, 255, 255), 0.4),
        "enemy_bullet": Look((240, 96, 96), 0.5),
    }
    minimal: ClassVar = (NOTHING, LEFT, RIGHT, FIRE)

    enemy_move_interval: Number = 12

    def __post_init__(self) -> None:
        check_range(self, "enemy_move_interval", low=1, whole=True)

    def init(self, key: Key) -> SpaceInvadersState:
        """The first wave: nothing is drawn."""
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

    def luck(self, key: Key) -> None:
        """Nothing is left to chance."""
        del key

    def play(
        self, state: SpaceInvadersState, action: Int[Array, ""], luck: None
    ) -> tuple[SpaceInvadersState, Int[Array, ""], Bool[Array, ""]]:
        """Cannon, shots and bomb, aliens, hits, the next wave."""
        del luck
        state = _rise(_act(state, action))
        state = state.replace(bomb_y=jnp.minimum(state.bomb_y + 1, SIDE))
        is_bombed = (state.bomb_y == LAST) & (state.bomb_x == state.x)
        is_rammed = _alien_at(state, state.x, jnp.int32(LAST))
        state, have_landed = _march(state)
        is_rammed = is_rammed | _alien_at(state, state.x, jnp.int32(LAST))
        state, hits = _hit(_drop(state))
        state = state.replace(
            shot_timer=jnp.maximum(state.shot_timer - 1, 0),
            move_timer=state.move_timer - 1,
            bomb_timer=state.bomb_timer - 1,
        )
        return self._next_wave(state), hits, is_bombed | is_rammed | have_landed

    def rows(self, state: SpaceInvadersState) -> tuple[Rows, ...]:
        """Cannon, aliens, aliens that head left, aliens that head right, shots, the bomb."""
        aliens, none = _rows_of_aliens(state), jnp.uint32(0)
        return (
            at(state.x, jnp.int32(LAST)),
            aliens,
            jnp.where(state.go_right, none, aliens),
            jnp.where(state.go_right, aliens, none),
            at(state.shot_x, state.shot_y) | at(state.older_x, state.older_y),
            at(state.bomb_x, state.bomb_y),
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


def _act(state: SpaceInvadersState, action: Int[Array, ""]) -> SpaceInvadersState:
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


def _rise(state: SpaceInvadersState) -> SpaceInvadersState:
    return state.replace(shot_y=jnp.maximum(state.shot_y - 1, -1), older_y=jnp.maximum(state.older_y - 1, -1))


def _bit(state: SpaceInvadersState, x: Int[Array, ""], y: Int[Array, ""]) -> UInt32[Array, ""]:
    """The number of the alien that would be in a cell; one that no wave has where none can be."""
    column, row = x - state.left, y - state.top
    row = jnp.where(row < 0, row + SIDE, row)  # aliens that land while turning come in again at the top
    inside = (column >= 0) & (column < WIDTH) & (row < HEIGHT) & (y >= 0)
    return jnp.where(inside, row * WIDTH + column, WIDTH * HEIGHT).astype(jnp.uint32)


def _alien_at(state: SpaceInvadersState, x: Int[Array, ""], y: Int[Array, ""]) -> Bool[Array, ""]:
    return (state.aliens >> _bit(state, x, y) & 1) != 0


def _rows_of_aliens(state: SpaceInvadersState) -> Rows:
    row = LINE - state.top
    row = jnp.where(row < 0, row + SIDE, row)
    place = jnp.where(row < HEIGHT, WIDTH * row, WIDTH * HEIGHT).astype(jnp.uint32)
    return (state.aliens >> place & ROW) << (state.left + MARGIN).astype(jnp.uint32) >> MARGIN & FULL_ROW


def _on_screen(state: SpaceInvadersState) -> UInt32[Array, ""]:
    """The columns that have aliens, bit by bit; column 0 is bit `MARGIN`."""
    aliens = state.aliens
    columns = (aliens | aliens >> WIDTH | aliens >> 2 * WIDTH | aliens >> 3 * WIDTH) & ROW
    return columns << (state.left + MARGIN).astype(jnp.uint32)


def _march(state: SpaceInvadersState) -> tuple[SpaceInvadersState, Bool[Array, ""]]:
    """All aliens move if it is time: (state, whether they turned with one in the last row)."""
    is_time = state.move_timer == 0
    count = jax.lax.population_count(state.aliens).astype(jnp.int32)
    columns = _on_screen(state)
    edge = jnp.where(state.go_right, jnp.uint32(1 << MARGIN + LAST), jnp.uint32(1 << MARGIN))
    turn = is_time & ((columns & edge) != 0)
    lowest = LAST - state.top  # the row of the wave that is in the last one of the board
    shift = jnp.where(lowest < HEIGHT, lowest * WIDTH, 31).astype(jnp.uint32)
    is_low = (state.aliens >> shift & ROW) != 0
    aside = jnp.where(is_time & ~turn, jnp.where(state.go_right, 1, -1), 0)
    state = state.replace(
        left=state.left + aside,
        top=state.top + turn.astype(jnp.int32),
        go_right=state.go_right ^ turn,
        move_timer=jnp.where(is_time, jnp.minimum(count, state.move_interval), state.move_timer),
    )
    return state, turn & is_low


def _drop(state: SpaceInvadersState) -> SpaceInvadersState:
    """The lowest alien of the column nearest to the cannon drops a bomb if it is time; of two as near, the left one."""
    is_time = state.bomb_timer == 0
    columns, here = _on_screen(state), state.x + MARGIN
    beside = jnp.uint32(2) << here.astype(jnp.uint32)
    on_the_left, on_the_right = columns & (beside - 1), columns & ~(beside - 1)
    left = 31 - jax.lax.clz(on_the_left).astype(jnp.int32)  # -1 where there is none
    right = jax.lax.population_count((on_the_right & (~on_the_right + 1)) - 1).astype(jnp.int32)  # 32
    x = jnp.where((left >= 0) & (here - left <= right - here), left, right) - MARGIN
    column = state.aliens >> (x - state.left).astype(jnp.uint32) & COLUMN
    rows = [state.top + row for row in range(HEIGHT)]
    rows = [jnp.where(row < SIDE, row, row - SIDE) for row in rows]
    lives = [(column >> WIDTH * row & 1) != 0 for row in range(HEIGHT)]
    y = jnp.int32(0)
    for row, alive in zip(rows, lives, strict=True):
        y = jnp.where(alive, jnp.maximum(y, row), y)
    return state.replace(
        bomb_x=jnp.where(is_time, x, state.bomb_x),
        bomb_y=jnp.where(is_time, y, state.bomb_y),
        bomb_timer=jnp.where(is_time, BOMB_INTERVAL, state.bomb_timer),
    )


def _hit(state: SpaceInvadersState) -> tuple[SpaceInvadersState, Int[Array, ""]]:
    """Shots and aliens in the same cell are gone: (state, how many aliens)."""
    one = jnp.uint32(1)
    target = state.aliens & one << _bit(state, state.shot_x, state.shot_y)
    older = state.aliens & one << _bit(state, state.older_x, state.older_y)
    state = state.replace(
        aliens=state.aliens & ~(target | older),
        shot_y=jnp.where(target != 0, -1, state.shot_y),
        older_y=jnp.where(older != 0, -1, state.older_y),
    )
    return state, (target != 0).astype(jnp.int32) + (older != 0).astype(jnp.int32)
