"""Seaquest: pick up divers and shoot what swims, and come up for air in time.

Source: `minatar` 1.0.15, `environments/seaquest.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import Struct, struct
from shoal.envs.minatar.game import (
    DOWN,
    FIRE,
    LEFT,
    LINE,
    NOTHING,
    RIGHT,
    SIDE,
    UP,
    Game,
    GameState,
    Look,
    Rows,
    at,
    settled,
)
from shoal.envs.minatar.slots import (
    Numbers,
    Set,
    numbers,
    oldest,
    pushed,
    pushed_number,
    stepped,
    where_equal,
    written,
    youngest,
)

LAST, DEEPEST = SIDE - 1, SIDE - 2
OXYGEN, BREATH = 200, 20  # all of it, and what one cell of the gauge stands for
CREW = 6  # divers that fit into the submarine
SPAWN_SPEED, MOVE_SPEED = 20, 5  # of enemies, at the start
FASTEST = 2
SHOT_COOL_DOWN = 5
GUN_INTERVAL = 10
DIVER_INTERVAL = 30
# Divers come every 30 steps and move every 6, so they move together: while this many steps are left to the next one.
DIVERS_MOVE = sum(1 << left for left in (25, 19, 13, 7, 1))


@struct
class Enemies(Struct):
    """Fish and submarines, and the bullets of these, which share the slot (see `slots`).

    32 slots are enough. Nothing appears more often than once a step, and then, when the game is hardest, what appears
    in step t has left the board by step t + 29, so that 30 are in play at most; while the game is easier things are
    slower, but also much rarer. A submarine's bullet is gone before the next one, and before it would itself have left.
    """

    fish: Set
    subs: Set
    go_right: Set
    x: Numbers
    row: Numbers  # 0 to 7, for the rows 1 to 8 of the board
    timer: Numbers  # steps until it moves
    gun: Numbers  # steps until it fires
    bullets: Set
    bullet_x: Numbers


@struct
class Diver(Struct):
    """One diver. They need two places: one swims for 60 steps, and one comes every 30."""

    x: Int[Array, ""]
    y: Int[Array, ""]  # -1: there is none
    goes_right: Bool[Array, ""]


@struct
class Shot(Struct):
    """One of the player's bullets. They need two places: one flies for 9 steps at most, and there is one in 5."""

    x: Int[Array, ""]
    y: Int[Array, ""]  # -1: there is none
    goes_right: Bool[Array, ""]


@struct
class SeaquestState(GameState):
    """The player's submarine, what it shot, who swims around, and the timers."""

    x: Int[Array, ""]  # of its front
    y: Int[Array, ""]
    faces_right: Bool[Array, ""]
    oxygen: Int[Array, ""]
    crew: Int[Array, ""]  # divers aboard; MinAtar counts on below zero
    at_surface: Bool[Array, ""]  # whether it came up already, and has not gone down since
    shots: tuple[Shot, Shot]  # the younger one first
    divers: tuple[Diver, Diver]  # the younger one first
    enemies: Enemies
    shot_timer: Int[Array, ""]
    spawn_timer: Int[Array, ""]
    spawn_speed: Int[Array, ""]
    diver_timer: Int[Array, ""]  # steps until the next one comes
    move_speed: Int[Array, ""]
    ramp_index: Int[Array, ""]  # how often the game became harder


@env("MinAtar/Seaquest-v0", minimal_actions=False)
@env("MinAtar/Seaquest-v1", aliases=("Seaquest-MinAtar",))
@struct
class Seaquest(Game):
    """Command a submarine of two cells. Shoot enemies, collect divers, surface before the oxygen is used up.

    Action: 0 nothing, 1 left, 2 up, 3 right, 4 down, 5 fire.

    Observation: Box(10, 10, 10), bool: row, column, and the channels sub_front, sub_back, friendly_bullet, trail (the
    cell behind each enemy and diver), enemy_bullet, enemy_fish, enemy_sub, oxygen_guage, diver_guage (spelled as in
    MinAtar), diver.

    Reward: 1 for each enemy shot; on surfacing with 6 divers, 1 for each cell of the oxygen gauge.
    Start: at the surface, in column 5, facing left, with all oxygen.
    A step: an enemy appears every `spawn_speed` steps at either end of a random row (1 to 8), one in three is a
    submarine, unless another in that row heads the other way; a diver every 30 steps. The player moves or fires, at
    most once in 5 steps. Shots, divers, enemy submarines, their bullets (one in 11 steps each) and fish move, in this
    order. Under water a unit of oxygen is used. Coming up costs a diver and refills the oxygen; with 6 divers all are
    delivered.
    Difficulty, with `ramping`: each surfacing makes enemies appear one step sooner, down to every step, and every
    other one makes them move one step sooner, down to every third.
    End: terminated when an enemy or its bullet meets the front of the submarine, when the oxygen is used up, or on
    surfacing without a diver. No time limit unless `max_steps` is set.
    Fields: `sticky_action_prob` is how likely the action executed last is executed instead of the one given, also over
    the start of a game; `minimal_actions` changes nothing, all six are of use.
    Differences from MinAtar: none. As there, delivering 6 divers leaves a crew of -1, with which one may surface, and
    each time it sinks by one; what reaches 0 again may not.
    """

    reset_every: ClassVar[int] = 14
    channels: ClassVar = {
        "sub_front": Look((102, 194, 255)),
        "sub_back": Look((58, 120, 178)),
        "friendly_bullet": Look((255, 255, 255), 0.4),
        "trail": Look((110, 116, 134), 0.3),
        "enemy_bullet": Look((255, 120, 96), 0.4),
        "enemy_fish": Look((230, 140, 70)),
        "enemy_sub": Look((206, 70, 84)),
        "oxygen_guage": Look((150, 226, 240), 0.7),
        "diver_guage": Look((246, 214, 96), 0.45),
        "diver": Look((246, 214, 96), 0.7),
    }
    minimal: ClassVar = (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

    def init(self, key: Key) -> SeaquestState:
        """At the surface, in empty water: nothing is drawn."""
        del key
        none = jnp.uint32(0)
        nobody = Enemies(none, none, none, numbers(4), numbers(3), numbers(3), numbers(4), none, numbers(4))
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
            enemies=nobody,
            **{name: jnp.int32(number) for name, number in {**counts, **more}.items()},
        )

    def luck(self, key: Key) -> UInt32[Array, ""]:
        """Of the enemy and the diver that may appear: see `drawn_enemy` and `drawn_diver`."""
        return jax.random.bits(key, (), jnp.uint32)

    def play(
        self, state: SeaquestState, action: Int[Array, ""], luck: UInt32[Array, ""]
    ) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
        """Who appears, the player, shots, divers, enemies, and whether there is air."""
        state = settled(_act(_appear(state, luck), action))
        state, shot_first = settled(_shots_fly(state))
        state = _divers_swim(state)
        state, shot_then, is_hit = _enemies_come(state)
        state = state.replace(
            spawn_timer=jnp.maximum(state.spawn_timer - 1, 0),
            diver_timer=jnp.maximum(state.diver_timer - 1, 0),
            shot_timer=jnp.maximum(state.shot_timer - 1, 0),
        )
        is_out = state.oxygen <= 0
        state, delivered, is_alone = self._breathe(state)
        return state, shot_first + shot_then + delivered, is_hit | is_out | is_alone

    def rows(self, state: SeaquestState) -> tuple[Rows, ...]:
        """The submarine's front and back, shots, trails, bullets, fish, submarines, oxygen, crew, divers."""
        enemies, shots, divers = state.enemies, state.shots, state.divers
        everyone, is_deep = enemies.fish | enemies.subs, (LINE > 0) & (LINE < LAST)
        by_row = jnp.where(is_deep, where_equal(enemies.row, LINE - 1), jnp.uint32(0))
        columns = [where_equal(enemies.x, x) for x in range(-1, SIDE + 1)]  # -1 and 10 have none
        behind = [columns[x + 2] & enemies.go_right | columns[x] & ~enemies.go_right for x in range(SIDE)]
        bullets = [where_equal(enemies.bullet_x, x) & enemies.bullets for x in range(SIDE)]
        fish, subs = ([column & kind for column in columns[1:-1]] for kind in (enemies.fish, enemies.subs))
        sets = settled(([those & everyone for those in behind], bullets, fish, subs))
        trail, bullets, fish, subs = (_rows_of(by_row, by_column) for by_column in sets)

        trails = [at(d.x + jnp.where(d.goes_right, -1, 1), d.y) for d in divers]
        back = state.x + jnp.where(state.faces_right, -1, 1)
        # Gauges: so many cells from the left; and so many to the left of the last one.
        air = (jnp.uint32(1) << jax.lax.div(jnp.maximum(state.oxygen, 0), jnp.int32(BREATH)).astype(jnp.uint32)) - 1
        crew = (jnp.uint32(1) << LAST) - (jnp.uint32(1) << (LAST - jnp.maximum(state.crew, 0)).astype(jnp.uint32))
        return (
            at(state.x, state.y),
            at(back, state.y),
            at(shots[0].x, shots[0].y) | at(shots[1].x, shots[1].y),
            trail | trails[0] | trails[1],
            bullets,
            fish,
            subs,
            jnp.where(LINE == LAST, air, jnp.uint32(0)),
            jnp.where(LINE == LAST, crew, jnp.uint32(0)),
            at(divers[0].x, divers[0].y) | at(divers[1].x, divers[1].y),
        )

    def _breathe(self, state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
        """Use oxygen, or come up: (state, reward, whether it came up without a diver)."""
        is_under = state.y > 0
        comes_up = ~is_under & ~state.at_surface
        is_alone = comes_up & (state.crew == 0)
        surfaces = comes_up & ~is_alone
        delivers = surfaces & (state.crew == CREW)
        reward = jnp.where(delivers, jax.lax.div(state.oxygen, jnp.int32(BREATH)), 0)
        can = surfaces & jnp.asarray(self.ramping, bool) & ((state.spawn_speed > 1) | (state.move_speed > FASTEST))
        faster = can & (state.move_speed > FASTEST) & ((state.ramp_index & 1) == 1)
        sooner = can & (state.spawn_speed > 1)
        state = state.replace(
            oxygen=jnp.where(surfaces, OXYGEN, state.oxygen - is_under.astype(jnp.int32)),
            crew=jnp.where(delivers, 0, state.crew) - surfaces.astype(jnp.int32),
            at_surface=jnp.where(is_under, False, state.at_surface | surfaces),
            move_speed=state.move_speed - faster.astype(jnp.int32),
            spawn_speed=state.spawn_speed - sooner.astype(jnp.int32),
            ramp_index=state.ramp_index + can.astype(jnp.int32),
        )
        return state, reward, is_alone


def _rows_of(by_row: UInt32[Array, "10"], by_column: list[Set]) -> Rows:
    """Where a row and a column have something in common."""
    rows = jnp.zeros(SIDE, jnp.uint32)
    for x, those in enumerate(by_column):
        rows = rows | jnp.where((by_row & those) != 0, jnp.uint32(1 << x), jnp.uint32(0))
    return rows


def drawn_enemy(luck: UInt32[Array, ""]) -> tuple[Bool[Array, ""], Bool[Array, ""], Int[Array, ""]]:
    """(whether it goes right, whether it is a submarine, its row less one)."""
    return (luck & 1) != 0, luck >> 8 < (1 << 24) // 3, (luck >> 1 & 7).astype(jnp.int32)


def drawn_diver(luck: UInt32[Array, ""]) -> tuple[Bool[Array, ""], Int[Array, ""]]:
    """(whether it goes right, its row less one)."""
    return (luck >> 4 & 1) != 0, (luck >> 5 & 7).astype(jnp.int32)


def _appear(state: SeaquestState, luck: UInt32[Array, ""]) -> SeaquestState:
    is_time = state.spawn_timer == 0
    enemies = _with_enemy(state.enemies, is_time, state.move_speed, luck)
    diver_comes = state.diver_timer == 0
    right, row = drawn_diver(luck)
    new = Diver(jnp.where(right, 0, LAST), row + 1, right)
    divers = _choose(diver_comes, (new, state.divers[0]), state.divers)
    return state.replace(
        enemies=enemies,
        divers=divers,
        spawn_timer=jnp.where(is_time, state.spawn_speed, state.spawn_timer),
        diver_timer=jnp.where(diver_comes, DIVER_INTERVAL, state.diver_timer),
    )


def _with_enemy(
    enemies: Enemies, is_time: Bool[Array, ""], move_speed: Int[Array, ""], luck: UInt32[Array, ""]
) -> Enemies:
    right, is_sub, row = drawn_enemy(luck)
    heads_other_way = jnp.where(right, ~enemies.go_right, enemies.go_right)
    in_the_way = (enemies.fish | enemies.subs) & where_equal(enemies.row, row) & heads_other_way
    pushes = settled(is_time & (in_the_way == 0))
    new = Enemies(
        fish=pushed(enemies.fish, ~is_sub),
        subs=pushed(enemies.subs, is_sub),
        go_right=pushed(enemies.go_right, right),
        x=pushed_number(enemies.x, jnp.where(right, 0, LAST)),
        row=pushed_number(enemies.row, row),
        timer=pushed_number(enemies.timer, move_speed),
        gun=pushed_number(enemies.gun, jnp.int32(GUN_INTERVAL)),
        bullets=pushed(enemies.bullets, jnp.bool_(False)),
        bullet_x=pushed_number(enemies.bullet_x, jnp.int32(0)),
    )
    return _choose(pushes, new, enemies)


def _choose(flag: Bool[Array, ""], yes, no):
    return jax.tree.map(lambda y, n: jnp.where(flag, y, n), yes, no)


def _act(state: SeaquestState, action: Int[Array, ""]) -> SeaquestState:
    left, right = action == LEFT, action == RIGHT
    fires = (action == FIRE) & (state.shot_timer == 0)
    shot = Shot(state.x, state.y, state.faces_right)
    x = state.x + jnp.where(right, 1, jnp.where(left, -1, 0))
    y = state.y + jnp.where(action == DOWN, 1, jnp.where(action == UP, -1, 0))
    return state.replace(
        x=jnp.clip(x, 0, LAST),
        y=jnp.clip(y, 0, DEEPEST),
        faces_right=(state.faces_right | right) & ~left,
        shots=_choose(fires, (shot, state.shots[0]), state.shots),
        shot_timer=jnp.where(fires, SHOT_COOL_DOWN, state.shot_timer),
    )


def _in_cell(enemies: Enemies, columns: Numbers, x: Int[Array, ""], y: Int[Array, ""]) -> Set:
    is_row = (y > 0) & (y < LAST)
    return jnp.where(is_row, where_equal(columns, x) & where_equal(enemies.row, y - 1), jnp.uint32(0))


def _shots_fly(state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""]]:
    """Shots move a cell; each hits the oldest fish in its cell, or else the oldest submarine: (state, reward).

    Two shots never share a cell: both fly as fast as the player, so one that faces the other way is never behind it.
    """
    enemies, shots, reward = state.enemies, [], jnp.int32(0)
    for shot in state.shots:
        x = shot.x + jnp.where(shot.goes_right, 1, -1)
        flies = (shot.y >= 0) & (x >= 0) & (x <= LAST)
        here = settled(jnp.where(flies, _in_cell(enemies, enemies.x, x, shot.y), jnp.uint32(0)))
        fish, subs = oldest(here & enemies.fish), oldest(here & enemies.subs)
        subs = jnp.where(fish != 0, jnp.uint32(0), subs)
        fish, subs = settled((fish, subs))
        hits = (fish | subs) != 0
        enemies = enemies.replace(fish=enemies.fish ^ fish, subs=enemies.subs ^ subs)
        shots.append(shot.replace(x=x, y=jnp.where(flies & ~hits, shot.y, -1)))
        reward = reward + hits.astype(jnp.int32)
    return state.replace(enemies=enemies, shots=tuple(shots)), reward


def _divers_swim(state: SeaquestState) -> SeaquestState:
    """The player takes divers in its cell aboard, before and after they move; the younger one first."""
    moves = (jnp.uint32(DIVERS_MOVE) >> state.diver_timer.astype(jnp.uint32) & 1) != 0
    crew, divers = state.crew, []
    for diver in state.divers:
        is_boarding = (crew < CREW) & (diver.y == state.y)
        boards_first = is_boarding & (diver.x == state.x)
        x = diver.x + jnp.where(moves, jnp.where(diver.goes_right, 1, -1), 0)
        boards = boards_first | (is_boarding & (x == state.x))
        leaves = (x < 0) | (x > LAST)
        crew = crew + boards.astype(jnp.int32)
        divers.append(diver.replace(x=x, y=jnp.where(boards | leaves, -1, diver.y)))
    return state.replace(crew=crew, divers=tuple(divers))


def _enemies_come(state: SeaquestState) -> tuple[SeaquestState, Int[Array, ""], Bool[Array, ""]]:
    """Enemies and their bullets move: (state, reward for those that swim into a shot, whether the player is hit)."""
    enemies = state.enemies
    everyone = enemies.fish | enemies.subs
    meets = everyone & _in_cell(enemies, enemies.x, state.x, state.y)

    moves = everyone & where_equal(enemies.timer, 0)
    right = moves & enemies.go_right
    left = moves ^ right
    leaves = right & where_equal(enemies.x, LAST) | left & where_equal(enemies.x, 0)
    everyone, moves, right, left, leaves = settled((everyone, moves, right, left, leaves))
    x = settled(stepped(enemies.x, right ^ (right & leaves), left ^ (left & leaves)))
    timer = written(stepped(enemies.timer, jnp.uint32(0), everyone ^ moves), moves, state.move_speed)
    arrives = moves ^ leaves
    runs_into = arrives & _in_cell(enemies, x, state.x, state.y)

    # Those that swim into a shot: submarines first, of several the youngest. They may still fire.
    gone, shots, reward = leaves, [], jnp.int32(0)
    for shot in state.shots:
        here = arrives & ~runs_into & ~gone & _in_cell(enemies, x, shot.x, shot.y)
        subs, fish = youngest(here & enemies.subs), youngest(here & enemies.fish)
        hit = settled(jnp.where(subs != 0, subs, fish))
        gone = gone | hit
        shots.append(shot.replace(y=jnp.where(hit != 0, -1, shot.y)))
        reward = reward + (hit != 0).astype(jnp.int32)

    fires = settled(enemies.subs & where_equal(enemies.gun, 0))
    gun = written(stepped(enemies.gun, jnp.uint32(0), enemies.subs ^ fires), fires, GUN_INTERVAL)
    fires = fires & ~leaves  # a bullet of one that leaves the board leaves it too
    bullets = enemies.bullets | fires
    bullet_x = tuple(old & ~fires | new & fires for old, new in zip(enemies.bullet_x, x, strict=True))
    bullets, bullet_x = settled((bullets, bullet_x))
    struck = bullets & _in_cell(enemies, bullet_x, state.x, state.y)
    right = bullets & enemies.go_right
    left = bullets ^ right
    misses = right & where_equal(bullet_x, LAST) | left & where_equal(bullet_x, 0)
    bullets, right, left = settled((bullets ^ misses, right, left))
    bullet_x = stepped(bullet_x, right & bullets, left & bullets)
    struck = struck | bullets & _in_cell(enemies, bullet_x, state.x, state.y)

    enemies = enemies.replace(
        fish=enemies.fish & ~gone,
        subs=enemies.subs & ~gone,
        x=x,
        timer=timer,
        gun=gun,
        bullets=bullets,
        bullet_x=bullet_x,
    )
    return state.replace(enemies=enemies, shots=tuple(shots)), reward, (meets | runs_into | struck) != 0
