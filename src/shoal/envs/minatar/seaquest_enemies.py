"""The enemies of Seaquest: fish, submarines and their bullets, and how they appear, move, fire and are hit.

All enemies are computed with at once: each owns one bit in every word. The docstring of the package
(`envs/minatar/__init__.py`, part 3) explains this layout with an example.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.form import computed_once
from shoal.core.struct import Struct, struct
from shoal.envs.minatar.game import INDICES, SIDE, RowBits
from shoal.envs.minatar.slots import (
    BitSliced,
    SlotMask,
    increment_decrement,
    newest,
    oldest,
    push_flag,
    push_number,
    where_equal,
    write,
    zeros,
)

LAST = SIDE - 1
GUN_INTERVAL = 10


@struct
class Enemies(Struct):
    """Up to 32 enemies. The bullet of a submarine is in the slot of that submarine.

    32 slots are enough. At most one enemy appears in each step. At the highest difficulty an enemy that appears in step
    t has left the board by step t + 29, so at most 30 exist. At lower difficulties enemies are slower, but they also
    appear much less often. A submarine's bullet is gone before the next one is fired, and also before the submarine
    itself has left the board.
    """

    fish: SlotMask
    subs: SlotMask
    go_right: SlotMask
    x: BitSliced
    row: BitSliced  # row of the board, less 1: 0 to 7 for the rows 1 to 8
    timer: BitSliced  # steps until the enemy moves
    gun: BitSliced  # steps until the submarine fires
    bullets: SlotMask
    bullet_x: BitSliced


class EnemyMove(NamedTuple):
    """How the enemies moved in one step."""

    x: BitSliced  # the columns afterwards
    timer: BitSliced  # the timers afterwards
    arrived: SlotMask  # the enemies that moved and are still on the board
    left_board: SlotMask  # the enemies that moved off the board


def no_enemies() -> Enemies:
    """The enemies at the start of an episode: none."""
    none = jnp.uint32(0)
    return Enemies(none, none, none, zeros(4), zeros(3), zeros(3), zeros(4), none, zeros(4))


def in_cell(enemies: Enemies, columns: BitSliced, x: Int[Array, ""], y: Int[Array, ""]) -> SlotMask:
    """The slots whose number in `columns` is `x` and whose row is `y` (a row of the board; 1 to 8 have enemies)."""
    is_row = (y > 0) & (y < LAST)
    return jnp.where(is_row, where_equal(columns, x) & where_equal(enemies.row, y - 1), jnp.uint32(0))


def spawn_enemy(
    enemies: Enemies, is_time: Bool[Array, ""], move_speed: Int[Array, ""], noise: UInt32[Array, ""]
) -> Enemies:
    """If it is time, add an enemy at the end of a random row, unless an enemy in that row goes the other way."""
    right, is_sub, row = enemy_from_bits(noise)
    goes_other_way = jnp.where(right, ~enemies.go_right, enemies.go_right)
    in_the_way = (enemies.fish | enemies.subs) & where_equal(enemies.row, row) & goes_other_way
    appears = computed_once(is_time & (in_the_way == 0))
    with_new = Enemies(
        fish=push_flag(enemies.fish, ~is_sub),
        subs=push_flag(enemies.subs, is_sub),
        go_right=push_flag(enemies.go_right, right),
        x=push_number(enemies.x, jnp.where(right, 0, LAST)),
        row=push_number(enemies.row, row),
        timer=push_number(enemies.timer, move_speed),
        gun=push_number(enemies.gun, jnp.int32(GUN_INTERVAL)),
        bullets=push_flag(enemies.bullets, jnp.bool_(False)),
        bullet_x=push_number(enemies.bullet_x, jnp.int32(0)),
    )
    return tree_where(appears, with_new, enemies)


def enemy_from_bits(noise: UInt32[Array, ""]) -> tuple[Bool[Array, ""], Bool[Array, ""], Int[Array, ""]]:
    """(whether the new enemy goes right, whether it is a submarine, its row less 1) from bits 0 to 3 and 8 to 31."""
    return (noise & 1) != 0, noise >> 8 < (1 << 24) // 3, (noise >> 1 & 7).astype(jnp.int32)


def tree_where(flag: Bool[Array, ""], yes, no):
    """Leaf by leaf, the values of `yes` if the flag is set, those of `no` otherwise."""
    return jax.tree.map(lambda y, n: jnp.where(flag, y, n), yes, no)


def first_hit(enemies: Enemies, candidates: SlotMask) -> tuple[SlotMask, SlotMask]:
    """Which of the `candidates` a shot hits: the oldest fish, else the oldest submarine, as (fish, submarines)."""
    fish, subs = oldest(candidates & enemies.fish), oldest(candidates & enemies.subs)
    subs = jnp.where(fish != 0, jnp.uint32(0), subs)
    return computed_once((fish, subs))


def swim(enemies: Enemies, all_enemies: SlotMask, move_speed: Int[Array, ""]) -> EnemyMove:
    """Move the enemies whose timer is 0 by one cell, and count down the timers of the others."""
    moves = all_enemies & where_equal(enemies.timer, 0)
    right = moves & enemies.go_right
    left = moves ^ right
    leaves = right & where_equal(enemies.x, LAST) | left & where_equal(enemies.x, 0)
    all_enemies, moves, right, left, leaves = computed_once((all_enemies, moves, right, left, leaves))
    x = computed_once(increment_decrement(enemies.x, right ^ (right & leaves), left ^ (left & leaves)))
    timer = write(increment_decrement(enemies.timer, jnp.uint32(0), all_enemies ^ moves), moves, move_speed)
    return EnemyMove(x, timer, arrived=moves ^ leaves, left_board=leaves)


def swims_into(enemies: Enemies, candidates: SlotMask) -> SlotMask:
    """Which of the `candidates`, which swim into the cell of a shot, is hit: the newest submarine, else fish."""
    subs, fish = newest(candidates & enemies.subs), newest(candidates & enemies.fish)
    return computed_once(jnp.where(subs != 0, subs, fish))


def fire_guns(enemies: Enemies, move: EnemyMove) -> tuple[BitSliced, SlotMask, BitSliced]:
    """Submarines whose gun timer is 0 fire: (gun timers, bullets, columns of the bullets)."""
    fires = computed_once(enemies.subs & where_equal(enemies.gun, 0))
    gun = write(increment_decrement(enemies.gun, jnp.uint32(0), enemies.subs ^ fires), fires, GUN_INTERVAL)
    fires = fires & ~move.left_board  # the bullet of a submarine that leaves the board leaves it too
    bullets = enemies.bullets | fires
    bullet_x = tuple(old & ~fires | new & fires for old, new in zip(enemies.bullet_x, move.x, strict=True))
    bullets, bullet_x = computed_once((bullets, bullet_x))
    return gun, bullets, bullet_x


def move_bullets(enemies: Enemies, bullets: SlotMask, bullet_x: BitSliced) -> tuple[SlotMask, BitSliced]:
    """Move all bullets by one cell; those that leave the board disappear: (bullets, columns of the bullets)."""
    right = bullets & enemies.go_right
    left = bullets ^ right
    leaves = right & where_equal(bullet_x, LAST) | left & where_equal(bullet_x, 0)
    bullets, right, left = computed_once((bullets ^ leaves, right, left))
    return bullets, increment_decrement(bullet_x, right & bullets, left & bullets)


def enemy_rows(enemies: Enemies) -> tuple[RowBits, RowBits, RowBits, RowBits]:
    """The board as row words: the cells behind enemies, bullets, fish, submarines."""
    all_enemies, has_enemies = enemies.fish | enemies.subs, (INDICES > 0) & (INDICES < LAST)
    by_row = jnp.where(has_enemies, where_equal(enemies.row, INDICES - 1), jnp.uint32(0))
    columns = [where_equal(enemies.x, x) for x in range(-1, SIDE + 1)]  # no enemy is in column -1 or 10
    behind = [columns[x + 2] & enemies.go_right | columns[x] & ~enemies.go_right for x in range(SIDE)]
    bullets = [where_equal(enemies.bullet_x, x) & enemies.bullets for x in range(SIDE)]
    fish, subs = ([column & kind for column in columns[1:-1]] for kind in (enemies.fish, enemies.subs))
    by_column = computed_once(([slots & all_enemies for slots in behind], bullets, fish, subs))
    trail, bullets, fish, subs = (_occupied(by_row, slots) for slots in by_column)
    return trail, bullets, fish, subs


def _occupied(by_row: UInt32[Array, "10"], by_column: list[SlotMask]) -> RowBits:
    """The cells (x, y) for which the set of objects in row y and the set in column x have an object in common."""
    rows = jnp.zeros(SIDE, jnp.uint32)
    for x, slots in enumerate(by_column):
        rows = rows | jnp.where((by_row & slots) != 0, jnp.uint32(1 << x), jnp.uint32(0))
    return rows
