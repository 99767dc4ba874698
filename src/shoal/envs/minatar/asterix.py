"""Asterix: collect treasure and avoid enemies that cross the board.

Source: `minatar` 1.0.15, `environments/asterix.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Number, struct
from shoal.envs.checks import check_range
from shoal.envs.minatar.game import DOWN, LEFT, NOTHING, RIGHT, SIDE, UP, Game, GameState, Look, Rows, at, settled
from shoal.envs.minatar.lanes import in_lanes
from shoal.envs.minatar.nibbles import COUNT, ONES, equals, everywhere, flag_at, only, select

LAST = SIDE - 1
RANK_BITS = 16


@struct
class AsterixState(GameState):
    """The player, the things in the eight lanes (four bits or one flag each, see `nibbles`), and the timers."""

    x: Int[Array, ""]  # the player's
    y: Int[Array, ""]
    columns: UInt32[Array, ""]
    exist: UInt32[Array, ""]  # flags
    go_right: UInt32[Array, ""]  # flags
    gold: UInt32[Array, ""]  # flags: treasure; the others are enemies
    spawn_timer: Int[Array, ""]
    spawn_speed: Int[Array, ""]  # steps from one new thing to the next
    move_timer: Int[Array, ""]
    move_speed: Int[Array, ""]  # steps from one move of all things to the next
    ramp_timer: Int[Array, ""]
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/Asterix-v0", minimal_actions=False)
@env("MinAtar/Asterix-v1", aliases=("Asterix-MinAtar",))
@struct
class Asterix(Game):
    """Run into treasure and out of the way of enemies, both of which cross the board from side to side.

    Action: 0 nothing, 1 left, 2 up, 3 right, 4 down (MinAtar/Asterix-v1); all six in v0, see `sticky_action_prob`
    below.

    Observation: Box(10, 10, 4), bool: row, column, and the channels player, enemy, trail, gold. The trail is the cell
    behind each thing, as long as that is on the board.

    Reward: 1 for each treasure.
    Start: the player in row 5, column 5, nothing else.
    A step: every `spawn_speed` steps a thing appears, at either end of a random lane (rows 1 to 8) that has none,
    treasure with probability 1/3; nothing happens where all lanes are taken. The player moves, within rows 1 to 8. Then
    every `move_speed` steps all things move one cell; those that leave the board are gone. Before and after that the
    player takes the treasure, or meets the enemy, in its cell.
    Difficulty, with `ramping`: about every `ramp_interval` steps things appear one step sooner, and every other time
    they also move one step sooner, until both happen every step.
    End: terminated when the player meets an enemy. No time limit unless `max_steps` is set.
    Fields: `sticky_action_prob` is how likely the action executed last is executed instead of the one given, also over
    the start of a game; `minimal_actions`; steps at the start, each at least 1: `init_spawn_speed`,
    `init_move_interval`; `ramp_interval`.
    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 40
    channels: ClassVar = {
        "player": Look((102, 194, 255)),
        "enemy": Look((224, 82, 82)),
        "trail": Look((120, 120, 128), 0.35),
        "gold": Look((250, 206, 80)),
    }
    minimal: ClassVar = (NOTHING, LEFT, UP, RIGHT, DOWN)

    ramp_interval: Number = 100
    init_spawn_speed: Number = 10
    init_move_interval: Number = 5

    def __post_init__(self) -> None:
        check_range(self, "init_spawn_speed", "init_move_interval", "ramp_interval", low=1, whole=True)

    def init(self, key: Key) -> AsterixState:
        """An empty board: nothing is drawn."""
        del key
        zero, none = jnp.int32(0), jnp.uint32(0)
        spawn_speed = jnp.asarray(self.init_spawn_speed, jnp.int32)
        move_speed = jnp.asarray(self.init_move_interval, jnp.int32)
        return AsterixState(
            time=zero,
            last_action=jnp.int32(NOTHING),
            x=jnp.int32(5),
            y=jnp.int32(5),
            columns=none,
            exist=none,
            go_right=none,
            gold=none,
            spawn_timer=spawn_speed,
            spawn_speed=spawn_speed,
            move_timer=move_speed,
            move_speed=move_speed,
            ramp_timer=jnp.asarray(self.ramp_interval, jnp.int32),
            ramp_index=zero,
        )

    def luck(self, key: Key) -> UInt32[Array, "2"]:
        """Of the thing that may appear: one lot for direction and kind, one for the lane."""
        return jax.random.bits(key, (2,), jnp.uint32)

    def play(
        self, state: AsterixState, action: Int[Array, ""], luck: UInt32[Array, "2"]
    ) -> tuple[AsterixState, Int[Array, ""], Bool[Array, ""]]:
        """Something appears, the player moves, things move, the game gets harder."""
        state = settled(_appear(state, *drawn(luck)))
        x = state.x + jnp.where(action == RIGHT, 1, jnp.where(action == LEFT, -1, 0))
        y = state.y + jnp.where(action == DOWN, 1, jnp.where(action == UP, -1, 0))
        state = state.replace(x=jnp.clip(x, 0, LAST), y=jnp.clip(y, 1, COUNT))
        state, found_before, dies_before = _meet(state)
        state = _move(state)
        state, found_after, dies_after = _meet(state)
        state = state.replace(spawn_timer=state.spawn_timer - 1, move_timer=state.move_timer - 1)
        reward = found_before.astype(jnp.int32) + found_after.astype(jnp.int32)
        return self._harder(state), reward, dies_before | dies_after

    def rows(self, state: AsterixState) -> tuple[Rows, ...]:
        """Player, enemies, trails, gold."""
        # Behind what goes left may be column 10, which no cell has; behind what goes right, -1 does not fit.
        entering = state.go_right & equals(state.columns, 0)
        behind = state.columns + (ONES & ~state.go_right) - (state.go_right ^ entering)
        enemies = only(state.exist & ~state.gold, state.columns)
        trails = only(state.exist & ~entering, behind)
        gold = only(state.exist & state.gold, state.columns)
        return at(state.x, state.y), in_lanes(enemies), in_lanes(trails), in_lanes(gold)

    def _harder(self, state: AsterixState) -> AsterixState:
        can = jnp.asarray(self.ramping, bool) & ((state.spawn_speed > 1) | (state.move_speed > 1))
        waits = can & (state.ramp_timer >= 0)
        ramps = can & ~waits
        faster = ramps & (state.move_speed > 1) & (state.ramp_index % 2 == 1)
        sooner = ramps & (state.spawn_speed > 1)
        interval = jnp.asarray(self.ramp_interval, jnp.int32)
        return state.replace(
            move_speed=state.move_speed - faster.astype(jnp.int32),
            spawn_speed=state.spawn_speed - sooner.astype(jnp.int32),
            ramp_index=state.ramp_index + ramps.astype(jnp.int32),
            ramp_timer=jnp.where(ramps, interval, state.ramp_timer - waits.astype(jnp.int32)),
        )


def drawn(luck: UInt32[Array, "2"]) -> tuple[Bool[Array, ""], Bool[Array, ""], UInt32[Array, ""]]:
    """(whether it goes right, whether it is gold, the lot for its lane, of `RANK_BITS` bits)."""
    kind, lane = luck[0], luck[1]
    right = (kind & 1) != 0
    gold = (kind >> 8) < (1 << 24) // 3
    return right, gold, lane >> (32 - RANK_BITS)


def _appear(state: AsterixState, right: Bool[Array, ""], gold: Bool[Array, ""], lot: UInt32[Array, ""]) -> AsterixState:
    """A new thing in one of the free lanes, each as likely as any other."""
    is_time = state.spawn_timer == 0
    free = ~state.exist & ONES
    rank = lot * jax.lax.population_count(free) >> RANK_BITS
    for lower in range(COUNT - 1):
        free = jnp.where(lower < rank, free & free - 1, free)
    lane = jnp.where(is_time, free & (~free + 1), jnp.uint32(0))  # the lowest flag that is left, or none
    return state.replace(
        columns=select(lane, jnp.where(right, jnp.uint32(0), jnp.uint32(everywhere(LAST))), state.columns),
        exist=state.exist | lane,
        go_right=jnp.where(right, state.go_right | lane, state.go_right & ~lane),
        gold=jnp.where(gold, state.gold | lane, state.gold & ~lane),
        spawn_timer=jnp.where(is_time, state.spawn_speed, state.spawn_timer),
    )


def _meet(state: AsterixState) -> tuple[AsterixState, Bool[Array, ""], Bool[Array, ""]]:
    """What is in the player's cell: (state, whether treasure is found, whether an enemy is met)."""
    here = flag_at(state.y - 1) & state.exist & _equals_column(state.columns, state.x)
    found = here & state.gold
    return state.replace(exist=state.exist ^ found), found != 0, (here ^ found) != 0


def _equals_column(columns: UInt32[Array, ""], x: Int[Array, ""]) -> UInt32[Array, ""]:
    return equals(columns ^ x.astype(jnp.uint32) * ONES, 0)


def _move(state: AsterixState) -> AsterixState:
    """All things move one cell if it is time, and leave at the other end."""
    is_time = state.move_timer == 0
    moving = jnp.where(is_time, state.exist, jnp.uint32(0))
    right, left = moving & state.go_right, moving & ~state.go_right
    leave = right & equals(state.columns, LAST) | left & equals(state.columns, 0)
    return state.replace(
        columns=state.columns + (right & ~leave) - (left & ~leave),
        exist=state.exist ^ leave,
        move_timer=jnp.where(is_time, state.move_speed, state.move_timer),
    )
