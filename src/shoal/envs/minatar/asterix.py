"""Asterix: collect treasure and avoid enemies; both cross the board from side to side.

Source: `minatar` 1.0.15, `environments/asterix.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.form import computed_once
from shoal.core.registry import env
from shoal.core.struct import Number, struct
from shoal.envs.checks import check_range
from shoal.envs.minatar.game import (
    DOWN,
    LEFT,
    NOTHING,
    RIGHT,
    SIDE,
    UP,
    ChannelStyle,
    Game,
    GameState,
    RowBits,
    one_cell,
)
from shoal.envs.minatar.lanes import lanes_to_rows
from shoal.envs.minatar.nibbles import COUNT, ONES, equals, flag_at, hide_unflagged, repeated, select

LAST = SIDE - 1
LANE_BITS = 16  # random bits that choose a lane


@struct
class AsterixState(GameState):
    """The player, the objects in the eight lanes, and the timers.

    Each lane (rows 1 to 8) holds at most one object. Lane i owns four bits of `columns` and one flag of each flag word;
    the docstring of the package (`envs/minatar/__init__.py`, part 2) explains this layout.
    """

    x: Int[Array, ""]  # column of the player
    y: Int[Array, ""]  # row of the player
    columns: UInt32[Array, ""]  # column of each lane's object
    exist: UInt32[Array, ""]  # flags: whether the lane holds an object
    go_right: UInt32[Array, ""]  # flags: whether it moves right; otherwise it moves left
    gold: UInt32[Array, ""]  # flags: whether it is treasure; otherwise it is an enemy
    spawn_timer: Int[Array, ""]  # steps until the next object appears
    spawn_speed: Int[Array, ""]  # steps between two appearances
    move_timer: Int[Array, ""]  # steps until all objects move
    move_speed: Int[Array, ""]  # steps between two moves
    ramp_timer: Int[Array, ""]  # steps until the game becomes harder
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/Asterix-v0", minimal_actions=False)
@env("MinAtar/Asterix-v1", aliases=("Asterix-MinAtar",))
@struct
class Asterix(Game):
    """Collect treasure and avoid enemies; both cross the board from side to side.

    Action: 0 nothing, 1 left, 2 up, 3 right, 4 down (MinAtar/Asterix-v1); v0 has 5 fire too, which does nothing.

    Observation: Box(10, 10, 4), bool: row, column, channel. The channels are player, enemy, trail and gold. The trail
    is the cell behind each enemy or treasure, if that cell is on the board.

    Reward: 1 for each treasure that the player collects.
    Start: the player in row 5, column 5; no other object.

    Each step, in this order:

    1. Every `spawn_speed` steps an object appears at the left or right end of a random lane (rows 1 to 8) among those
       without an object. It is treasure with probability 1/3. Nothing appears if all lanes are occupied.
    2. The player moves, within rows 1 to 8. It collects the treasure in its cell, or meets the enemy in it.
    3. Every `move_speed` steps all objects move one cell; objects that leave the board disappear. Then the player again
       collects the treasure in its cell, or meets the enemy in it.

    Difficulty: with `ramping`, about every `ramp_interval` steps `spawn_speed` becomes shorter by one step, and every
    second time `move_speed` becomes shorter by one step too, until both are 1.

    End: terminated when the player meets an enemy. There is no time limit unless `max_steps` is set.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one, also across the start of an episode.

    Differences from MinAtar: none.
    """

    reset_every: ClassVar[int] = 40
    channels: ClassVar = {
        "player": ChannelStyle((102, 194, 255)),
        "enemy": ChannelStyle((224, 82, 82)),
        "trail": ChannelStyle((120, 120, 128), 0.35),
        "gold": ChannelStyle((250, 206, 80)),
    }
    minimal: ClassVar = (NOTHING, LEFT, UP, RIGHT, DOWN)

    ramp_interval: Number = 100  # steps from one increase of the difficulty to the next, about
    init_spawn_speed: Number = 10  # steps between two appearances, at the start of an episode
    init_move_interval: Number = 5  # steps between two moves of all objects, at the start of an episode

    def __post_init__(self) -> None:
        check_range(self, "init_spawn_speed", "init_move_interval", "ramp_interval", low=1, whole=True)

    def init(self, key: Key) -> AsterixState:
        """The player on an empty board. No random number is used."""
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

    def game_noise(self, key: Key) -> UInt32[Array, "2"]:
        """Random bits for the object that may appear: word 0 for its direction and kind, word 1 for its lane."""
        return jax.random.bits(key, (2,), jnp.uint32)

    def play(
        self, state: AsterixState, action: Int[Array, ""], noise: UInt32[Array, "2"]
    ) -> tuple[AsterixState, Int[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, reward, terminated)."""
        state = computed_once(_spawn(state, *object_from_bits(noise)))
        state = _move_player(state, action)
        state, found_before, dies_before = _meet_objects(state)
        state = _move_objects(state)
        state, found_after, dies_after = _meet_objects(state)
        state = state.replace(spawn_timer=state.spawn_timer - 1, move_timer=state.move_timer - 1)
        reward = found_before.astype(jnp.int32) + found_after.astype(jnp.int32)
        return self._increase_difficulty(state), reward, dies_before | dies_after

    def channel_rows(self, state: AsterixState) -> tuple[RowBits, ...]:
        """The row words of the channels player, enemy, trail and gold."""
        # The trail of an object that goes left may be in column 10, which is not drawn. The trail of an object that
        # goes right and has just entered would be in column -1, which does not fit into four bits: it is left out.
        entering = state.go_right & equals(state.columns, 0)
        behind = state.columns + (ONES & ~state.go_right) - (state.go_right ^ entering)
        enemies = hide_unflagged(state.exist & ~state.gold, state.columns)
        trails = hide_unflagged(state.exist & ~entering, behind)
        gold = hide_unflagged(state.exist & state.gold, state.columns)
        return one_cell(state.x, state.y), lanes_to_rows(enemies), lanes_to_rows(trails), lanes_to_rows(gold)

    def _increase_difficulty(self, state: AsterixState) -> AsterixState:
        can_ramp = jnp.asarray(self.ramping, bool) & ((state.spawn_speed > 1) | (state.move_speed > 1))
        waits = can_ramp & (state.ramp_timer >= 0)
        ramps = can_ramp & ~waits
        moves_faster = ramps & (state.move_speed > 1) & (state.ramp_index % 2 == 1)
        spawns_faster = ramps & (state.spawn_speed > 1)
        interval = jnp.asarray(self.ramp_interval, jnp.int32)
        return state.replace(
            move_speed=state.move_speed - moves_faster.astype(jnp.int32),
            spawn_speed=state.spawn_speed - spawns_faster.astype(jnp.int32),
            ramp_index=state.ramp_index + ramps.astype(jnp.int32),
            ramp_timer=jnp.where(ramps, interval, state.ramp_timer - waits.astype(jnp.int32)),
        )


def object_from_bits(noise: UInt32[Array, "2"]) -> tuple[Bool[Array, ""], Bool[Array, ""], UInt32[Array, ""]]:
    """(whether the new object goes right, whether it is treasure, `LANE_BITS` random bits that choose its lane)."""
    kind, lane = noise[0], noise[1]
    right = (kind & 1) != 0
    gold = (kind >> 8) < (1 << 24) // 3
    return right, gold, lane >> (32 - LANE_BITS)


def _spawn(
    state: AsterixState, right: Bool[Array, ""], gold: Bool[Array, ""], lane_bits: UInt32[Array, ""]
) -> AsterixState:
    """If it is time, add a new object in one of the free lanes, each with the same probability."""
    is_time = state.spawn_timer == 0
    free = ~state.exist & ONES
    rank = lane_bits * jax.lax.population_count(free) >> LANE_BITS  # 0 to (number of free lanes) - 1
    for lower in range(COUNT - 1):
        free = jnp.where(lower < rank, free & free - 1, free)  # removes the lowest flag, `rank` times
    lane = jnp.where(is_time, free & (~free + 1), jnp.uint32(0))  # the lowest flag that is left, or none
    return state.replace(
        columns=select(lane, jnp.where(right, jnp.uint32(0), jnp.uint32(repeated(LAST))), state.columns),
        exist=state.exist | lane,
        go_right=jnp.where(right, state.go_right | lane, state.go_right & ~lane),
        gold=jnp.where(gold, state.gold | lane, state.gold & ~lane),
        spawn_timer=jnp.where(is_time, state.spawn_speed, state.spawn_timer),
    )


def _move_player(state: AsterixState, action: Int[Array, ""]) -> AsterixState:
    x = state.x + jnp.where(action == RIGHT, 1, jnp.where(action == LEFT, -1, 0))
    y = state.y + jnp.where(action == DOWN, 1, jnp.where(action == UP, -1, 0))
    return state.replace(x=jnp.clip(x, 0, LAST), y=jnp.clip(y, 1, COUNT))


def _meet_objects(state: AsterixState) -> tuple[AsterixState, Bool[Array, ""], Bool[Array, ""]]:
    """Collect what is in the player's cell: (state, whether it was treasure, whether it was an enemy)."""
    here = flag_at(state.y - 1) & state.exist & _in_column(state.columns, state.x)
    found = here & state.gold
    return state.replace(exist=state.exist ^ found), found != 0, (here ^ found) != 0


def _in_column(columns: UInt32[Array, ""], x: Int[Array, ""]) -> UInt32[Array, ""]:
    """Flags of the lanes whose number in `columns` is `x`."""
    return equals(columns ^ x.astype(jnp.uint32) * ONES, 0)


def _move_objects(state: AsterixState) -> AsterixState:
    """If it is time, move all objects by one cell; those that leave the board disappear."""
    is_time = state.move_timer == 0
    moving = jnp.where(is_time, state.exist, jnp.uint32(0))
    right, left = moving & state.go_right, moving & ~state.go_right
    leave = right & equals(state.columns, LAST) | left & equals(state.columns, 0)
    return state.replace(
        columns=state.columns + (right & ~leave) - (left & ~leave),
        exist=state.exist ^ leave,
        move_timer=jnp.where(is_time, state.move_speed, state.move_timer),
    )
