"""Seaquest: shoot enemies, collect divers, and surface for air in time.

The enemies are in `seaquest_enemies.py`; how they are stored in bits is explained in the docstring of the package
(`envs/minatar/__init__.py`, part 3). Source: `minatar` 1.0.15, `environments/seaquest.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.form import computed_once
from shoal.core.registry import env
from shoal.core.struct import Struct, struct
from shoal.envs.minatar.game import (
    DOWN,
    FIRE,
    INDICES,
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
from shoal.envs.minatar.seaquest_enemies import (
    Enemies,
    EnemyMove,
    enemy_rows,
    fire_guns,
    first_hit,
    in_cell,
    move_bullets,
    no_enemies,
    spawn_enemy,
    swim,
    swims_into,
    tree_where,
)
from shoal.envs.minatar.slots import SlotMask

LAST, DEEPEST = SIDE - 1, SIDE - 2  # the last row or column; the lowest row that the submarine can reach
OXYGEN, OXYGEN_PER_CELL = 200, 20  # a full tank, and the units that one cell of the gauge shows
CREW = 6  # divers that fit into the submarine
SPAWN_SPEED, MOVE_SPEED = 20, 5  # steps between two new enemies, and between two moves of an enemy, at the start
FASTEST = 2  # the smallest `move_speed`
SHOT_COOL_DOWN = 5
DIVER_INTERVAL = 30
# A diver appears every 30 steps, and divers move every 6 steps, so all divers move in the same steps: those in which
# the timer of the next diver has one of these values. Here they are bits of one word.
DIVERS_MOVE = sum(1 << timer for timer in (25, 19, 13, 7, 1))


@struct
class Diver(Struct):
    """One diver. Room for two is enough: a diver swims for 60 steps, and one appears every 30 steps."""

    x: Int[Array, ""]
    y: Int[Array, ""]  # -1: there is no diver
    goes_right: Bool[Array, ""]


@struct
class Shot(Struct):
    """One bullet of the player. Room for two is enough: it flies for at most 9 steps, and 5 lie between two shots."""

    x: Int[Array, ""]
    y: Int[Array, ""]  # -1: there is no shot
    goes_right: Bool[Array, ""]


@struct
class SeaquestState(GameState):
    """The player's submarine and its shots, divers, enemies, and the timers."""

    x: Int[Array, ""]  # column of the submarine's front
    y: Int[Array, ""]  # row of the submarine
    faces_right: Bool[Array, ""]
    oxygen: Int[Array, ""]
    crew: Int[Array, ""]  # divers on board; may be negative, as in MinAtar
    at_surface: Bool[Array, ""]  # whether the submarine has surfaced and not gone down since
    shots: tuple[Shot, Shot]  # the newer one first
    divers: tuple[Diver, Diver]  # the newer one first
    enemies: Enemies
    shot_timer: Int[Array, ""]  # steps until the player may fire again
    spawn_timer: Int[Array, ""]  # steps until the next enemy appears
    spawn_speed: Int[Array, ""]  # steps between two new enemies
    diver_timer: Int[Array, ""]  # steps until the next diver appears
    move_speed: Int[Array, ""]  # steps that an enemy waits between two moves
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/Seaquest-v0", minimal_actions=False)
@env("MinAtar/Seaquest-v1", aliases=("Seaquest-MinAtar",))
@struct
class Seaquest(Game):
    """Command a submarine of two cells: shoot enemies, collect divers, and surface before the oxygen is used up.

    Action: 0 nothing, 1 left, 2 up, 3 right, 4 down, 5 fire.

    Observation: Box(10, 10, 10), bool: row, column, channel. The channels are sub_front, sub_back, friendly_bullet,
    trail (the cell behind each enemy and diver), enemy_bullet, enemy_fish, enemy_sub, oxygen_guage, diver_guage
    (spelled as in MinAtar) and diver.

    Reward: 1 for each enemy that is shot; on surfacing with 6 divers, 1 for each cell of the oxygen gauge.
    Start: the submarine at the surface, in column 5, facing left, with 200 units of oxygen.

    Each step, in this order:

    1. Every `spawn_speed` steps an enemy appears at the left or right end of a random row (1 to 8), a submarine with
       probability 1/3, else a fish. It does not appear if an enemy in that row goes the other way. Every 30 steps a
       diver appears.
    2. The player moves, or fires; it can fire once in 5 steps.
    3. The player's shots move, then the divers, then the enemies and their bullets. An enemy submarine fires once in 11
       steps. An enemy in the cell of a shot is hit. A diver in the cell of the submarine's front comes on board.
    4. Under water one unit of oxygen is used. Surfacing costs one diver and refills the oxygen. With 6 divers on board,
       all of them are delivered.

    Difficulty: with `ramping`, on each surfacing `spawn_speed` becomes shorter by one step, down to 1, and on every
    second surfacing the enemies move sooner by one step, down to once in 3 steps.

    End: terminated when an enemy or its bullet meets the front of the submarine, when the oxygen is used up, or on
    surfacing without a diver. There is no time limit unless `max_steps` is set.

    Sticky actions: with probability `sticky_action_prob` the previous action is executed again instead of the chosen
    one, also across the start of an episode. `minimal_actions` has no effect: the game uses all six actions.

    Differences from MinAtar: none. As in MinAtar, delivering 6 divers leaves -1 divers on board. Surfacing with a
    negative number is allowed and lowers it by one each time. New divers raise it; surfacing with exactly 0 ends the
    episode.
    """

    reset_every: ClassVar[int] = 14
    channels: ClassVar = {
        "sub_front": ChannelStyle((102, 194, 255)),
        "sub_back": ChannelStyle((58, 120, 178)),
        "friendly_bullet": ChannelStyle((255, 255, 255), 0.4),
        "trail": ChannelStyle((110, 116, 134), 0.3),
        "enemy_bullet": ChannelStyle((255, 120, 96), 0.4),
        "enemy_fish": ChannelStyle((230, 140, 70)),
        "enemy_sub": ChannelStyle((206, 70, 84)),
        "oxygen_guage": ChannelStyle((150, 226, 240), 0.7),
        "diver_guage": ChannelStyle((246, 214, 96), 0.45),
        "diver": ChannelStyle((246, 214, 96), 0.7),
    }
    minimal: ClassVar = (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

    def init(self, key: Key) -> SeaquestState:
        """The submarine at the surface, without enemies and divers. No random number is used."""
        del key
        no_shot = Shot(jnp.int32(0), jnp.int32(-1), jnp.bool_(False))
        no_diver = Diver(jnp.int32(0), jnp.int32(-1), jnp.bool_(False))
        counts = {"x": 5, "y": 0, "oxygen": OXYGEN, "crew": 0, "shot_timer": 0, "spawn_timer": SPAWN_SPEED}
        more = {"spawn_speed": SPAWN_SPEED, "diver_timer": DIVER_INTERVAL, "move_speed": MOVE_SPEED, "ramp_index": 0}
        return SeaquestState(
            time=jnp.int32(0),
            last_action=jnp.int32(NOTHING),
            faces_right=jnp.bool_(False),
            at_surface=jnp.bool_(True),
            shots=(no_shot, no_shot),
            divers=(no_diver, no_diver),
            enemies=no_enemies(),
            **{name: jnp.int32(number) for name, number in {**counts, **more}.items()},
        )

    def game_noise(self, key: Key) -> UInt32[Array, ""]:
        """Random bits for the enemy and the diver that may appear: see `enemy_from_bits` and `diver_from_bits`."""
        return jax.random.bits(key, (), jnp.uint32)

    def play(
        self, state: SeaquestState, action: Int[Array, ""], noise: UInt32[Array, ""]
    ) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
        """Play one step: (next state, reward, terminated).

        The barriers keep XLA from computing a value again for each of the many values that depend on it.
        """
        state = _spawn(state, noise)
        state = computed_once(_move_or_fire(state, action))
        state, hit_by_moving_shots = computed_once(_move_shots(state))
        state = _move_divers(state)
        state, hit_by_moving_enemies, is_player_hit = _move_enemies(state)
        state = _count_down(state)
        has_no_oxygen = state.oxygen <= 0
        state, delivered, has_no_diver = self._use_oxygen_or_surface(state)
        reward = hit_by_moving_shots + hit_by_moving_enemies + delivered
        return state, reward, is_player_hit | has_no_oxygen | has_no_diver

    def channel_rows(self, state: SeaquestState) -> tuple[RowBits, ...]:
        """The row words of each channel, in the order of `channels`."""
        shots, divers = state.shots, state.divers
        trail, bullets, fish, subs = enemy_rows(state.enemies)
        trails = [one_cell(d.x + jnp.where(d.goes_right, -1, 1), d.y) for d in divers]
        back = state.x + jnp.where(state.faces_right, -1, 1)
        # Both gauges are in the last row: oxygen from column 0 to the right, divers from column 8 to the left.
        full_cells = jax.lax.div(jnp.maximum(state.oxygen, 0), jnp.int32(OXYGEN_PER_CELL)).astype(jnp.uint32)
        oxygen = (jnp.uint32(1) << full_cells) - 1
        crew = (jnp.uint32(1) << LAST) - (jnp.uint32(1) << (LAST - jnp.maximum(state.crew, 0)).astype(jnp.uint32))
        return (
            one_cell(state.x, state.y),
            one_cell(back, state.y),
            one_cell(shots[0].x, shots[0].y) | one_cell(shots[1].x, shots[1].y),
            trail | trails[0] | trails[1],
            bullets,
            fish,
            subs,
            jnp.where(INDICES == LAST, oxygen, jnp.uint32(0)),
            jnp.where(INDICES == LAST, crew, jnp.uint32(0)),
            one_cell(divers[0].x, divers[0].y) | one_cell(divers[1].x, divers[1].y),
        )

    def _use_oxygen_or_surface(self, state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
        """Use oxygen under water, or refill it at the surface: (state, reward, whether it surfaced without a diver)."""
        is_under_water = state.y > 0
        arrives = ~is_under_water & ~state.at_surface
        has_no_diver = arrives & (state.crew == 0)
        surfaces = arrives & ~has_no_diver
        delivers = surfaces & (state.crew == CREW)
        reward = jnp.where(delivers, jax.lax.div(state.oxygen, jnp.int32(OXYGEN_PER_CELL)), 0)
        ramps = surfaces & jnp.asarray(self.ramping, bool) & ((state.spawn_speed > 1) | (state.move_speed > FASTEST))
        moves_faster = ramps & (state.move_speed > FASTEST) & ((state.ramp_index & 1) == 1)
        spawns_faster = ramps & (state.spawn_speed > 1)
        state = state.replace(
            oxygen=jnp.where(surfaces, OXYGEN, state.oxygen - is_under_water.astype(jnp.int32)),
            crew=jnp.where(delivers, 0, state.crew) - surfaces.astype(jnp.int32),
            at_surface=jnp.where(is_under_water, False, state.at_surface | surfaces),
            move_speed=state.move_speed - moves_faster.astype(jnp.int32),
            spawn_speed=state.spawn_speed - spawns_faster.astype(jnp.int32),
            ramp_index=state.ramp_index + ramps.astype(jnp.int32),
        )
        return state, reward, has_no_diver


def diver_from_bits(noise: UInt32[Array, ""]) -> tuple[Bool[Array, ""], Int[Array, ""]]:
    """(whether the new diver goes right, its row less 1) from bits 4 to 7."""
    return (noise >> 4 & 1) != 0, (noise >> 5 & 7).astype(jnp.int32)


def _spawn(state: SeaquestState, noise: UInt32[Array, ""]) -> SeaquestState:
    """Add the enemy and the diver for which it is time."""
    is_time = state.spawn_timer == 0
    enemies = spawn_enemy(state.enemies, is_time, state.move_speed, noise)
    diver_appears = state.diver_timer == 0
    right, row = diver_from_bits(noise)
    new = Diver(jnp.where(right, 0, LAST), row + 1, right)
    divers = tree_where(diver_appears, (new, state.divers[0]), state.divers)
    return state.replace(
        enemies=enemies,
        divers=divers,
        spawn_timer=jnp.where(is_time, state.spawn_speed, state.spawn_timer),
        diver_timer=jnp.where(diver_appears, DIVER_INTERVAL, state.diver_timer),
    )


def _move_or_fire(state: SeaquestState, action: Int[Array, ""]) -> SeaquestState:
    left, right = action == LEFT, action == RIGHT
    fires = (action == FIRE) & (state.shot_timer == 0)
    shot = Shot(state.x, state.y, state.faces_right)
    x = state.x + jnp.where(right, 1, jnp.where(left, -1, 0))
    y = state.y + jnp.where(action == DOWN, 1, jnp.where(action == UP, -1, 0))
    return state.replace(
        x=jnp.clip(x, 0, LAST),
        y=jnp.clip(y, 0, DEEPEST),
        faces_right=(state.faces_right | right) & ~left,
        shots=tree_where(fires, (shot, state.shots[0]), state.shots),
        shot_timer=jnp.where(fires, SHOT_COOL_DOWN, state.shot_timer),
    )


def _move_shots(state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""]]:
    """Move the player's shots by one cell; each hits at most one enemy in its cell: (state, reward).

    Two shots are never in the same cell: a shot moves as fast as the player, so a shot in the other direction cannot
    catch up with the first one.
    """
    enemies, shots, reward = state.enemies, [], jnp.int32(0)
    for shot in state.shots:
        x = shot.x + jnp.where(shot.goes_right, 1, -1)
        flies = (shot.y >= 0) & (x >= 0) & (x <= LAST)
        candidates = computed_once(jnp.where(flies, in_cell(enemies, enemies.x, x, shot.y), jnp.uint32(0)))
        fish, subs = first_hit(enemies, candidates)
        hits = (fish | subs) != 0
        enemies = enemies.replace(fish=enemies.fish ^ fish, subs=enemies.subs ^ subs)
        shots.append(shot.replace(x=x, y=jnp.where(flies & ~hits, shot.y, -1)))
        reward = reward + hits.astype(jnp.int32)
    return state.replace(enemies=enemies, shots=tuple(shots)), reward


def _move_divers(state: SeaquestState) -> SeaquestState:
    """Move the divers. Those in the player's cell, before or after they move, come on board; the newer one first."""
    moves = (jnp.uint32(DIVERS_MOVE) >> state.diver_timer.astype(jnp.uint32) & 1) != 0
    crew, divers = state.crew, []
    for diver in state.divers:
        can_board = (crew < CREW) & (diver.y == state.y)
        boards_before = can_board & (diver.x == state.x)
        x = diver.x + jnp.where(moves, jnp.where(diver.goes_right, 1, -1), 0)
        boards = boards_before | (can_board & (x == state.x))
        leaves = (x < 0) | (x > LAST)
        crew = crew + boards.astype(jnp.int32)
        divers.append(diver.replace(x=x, y=jnp.where(boards | leaves, -1, diver.y)))
    return state.replace(crew=crew, divers=tuple(divers))


def _move_enemies(state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
    """Move enemies and bullets: (state, reward for enemies that swim into a shot, whether the player is hit).

    The player is hit by an enemy or a bullet in the cell of its front, before or after that enemy or bullet moves.
    """
    enemies = state.enemies
    all_enemies = enemies.fish | enemies.subs
    # Enemies in the cell of the submarine's front before they move, and after; then the same for bullets.
    touching = all_enemies & in_cell(enemies, enemies.x, state.x, state.y)
    move = swim(enemies, all_enemies, state.move_speed)
    ramming = move.arrived & in_cell(enemies, move.x, state.x, state.y)
    shots, gone, reward = _swim_into_shots(state, move, ramming)

    gun, bullets, bullet_x = fire_guns(enemies, move)
    striking = bullets & in_cell(enemies, bullet_x, state.x, state.y)
    bullets, bullet_x = move_bullets(enemies, bullets, bullet_x)
    striking = striking | bullets & in_cell(enemies, bullet_x, state.x, state.y)

    enemies = enemies.replace(
        fish=enemies.fish & ~gone,
        subs=enemies.subs & ~gone,
        x=move.x,
        timer=move.timer,
        gun=gun,
        bullets=bullets,
        bullet_x=bullet_x,
    )
    return state.replace(enemies=enemies, shots=shots), reward, (touching | ramming | striking) != 0


def _swim_into_shots(
    state: SeaquestState, move: EnemyMove, ramming: SlotMask
) -> tuple[tuple[Shot, ...], SlotMask, Int[Array, ""]]:
    """Enemies that moved into the cell of a shot are hit, one by each shot: (shots, enemies that are gone, reward).

    Those that ram the player are not hit. A submarine that is hit may still fire in this step.
    """
    gone, shots, reward = move.left_board, [], jnp.int32(0)
    for shot in state.shots:
        candidates = move.arrived & ~ramming & ~gone & in_cell(state.enemies, move.x, shot.x, shot.y)
        hit = swims_into(state.enemies, candidates)
        gone = gone | hit
        shots.append(shot.replace(y=jnp.where(hit != 0, -1, shot.y)))
        reward = reward + (hit != 0).astype(jnp.int32)
    return tuple(shots), gone, reward


def _count_down(state: SeaquestState) -> SeaquestState:
    return state.replace(
        spawn_timer=jnp.maximum(state.spawn_timer - 1, 0),
        diver_timer=jnp.maximum(state.diver_timer - 1, 0),
        shot_timer=jnp.maximum(state.shot_timer - 1, 0),
    )
