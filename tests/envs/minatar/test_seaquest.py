"""Seaquest: 32 enemy slots, two shots and two divers suffice; and the cases in which gymnax differs."""

import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.envs.minatar.game import DOWN, FIRE, LEFT, NOTHING, RIGHT, UP
from shoal.envs.minatar.seaquest import Diver, Seaquest
from shoal.envs.minatar.slots import SLOTS, increment_decrement, newest, oldest, push_number, where_equal, write, zeros

ENV = Seaquest(sticky_action_prob=0.0)


def start(**fields):
    return init(ENV, make_key(0)).replace(**{k: jnp.asarray(v, jnp.int32) for k, v in fields.items()})


def step(state, action, noise=0):
    return advance(ENV, state, jnp.int32(action), (jnp.float32(0.5), jnp.uint32(noise)))


def lifetimes_of_enemies(surfacings, steps):
    """(step in which it came, step in which it left) of each enemy, if every one finds a free row. By hand."""
    spawn_speed, move_speed, ramp, spawn_timer = 20, 5, 0, 20
    swimming, lifetimes = [], []
    for t in range(steps):
        if spawn_timer == 0:
            swimming.append([t, 0, move_speed])  # came, cells moved, timer
            spawn_timer = spawn_speed
        for enemy in list(swimming):
            if enemy[2] == 0:
                enemy[1:] = [enemy[1] + 1, move_speed]
                if enemy[1] == 10:
                    swimming.remove(enemy)
                    lifetimes.append((enemy[0], t))
            else:
                enemy[2] -= 1
        spawn_timer -= spawn_timer > 0
        if t in surfacings and (spawn_speed > 1 or move_speed > 2):
            move_speed -= move_speed > 2 and ramp % 2 == 1
            spawn_speed -= spawn_speed > 1
            ramp += 1
    return lifetimes


def most_slots(lifetimes):
    """How many came while one was there, itself included: so many slots keep it from being pushed out."""
    came = np.array([first for first, _ in lifetimes])
    return max(int(((came >= first) & (came <= last)).sum()) for first, last in lifetimes)


def test_no_enemy_is_pushed_out_of_its_slot():
    # One can surface in every other step at most.
    rng = np.random.default_rng(0)
    for pause in range(0, 60):
        assert most_slots(lifetimes_of_enemies(set(range(pause, 600, 2)), 300)) == 30 <= SLOTS
    for _ in range(200):
        often = rng.random() ** 3
        surfacings = {t for t in range(0, 1500, 2) if rng.random() < often}
        assert most_slots(lifetimes_of_enemies(surfacings, 1500)) <= 30


def test_a_third_shot_never_pushes_out_a_flying_one():
    state, flying = start(y=4, x=0), []
    state, *_ = step(state, RIGHT)
    for _ in range(40):
        before = state
        state, *_ = step(state, FIRE)
        flying.append(sum(int(shot.y >= 0) for shot in state.shots))
        if state.shot_timer == 4:  # fired: the older slot was free
            assert before.shots[1].y < 0
    assert max(flying) == 2


def test_a_third_diver_never_comes_while_two_swim():
    state = start(y=0, x=5).replace(at_surface=jnp.bool_(True))
    swimming = []
    for _ in range(200):
        before = state
        # All in row 8, away from the player, who stays at the surface; no enemy ever comes.
        state, *_ = step(state.replace(spawn_timer=jnp.int32(9)), NOTHING, noise=0b11110000)
        if before.diver_timer == 0:
            assert before.divers[1].y < 0
        swimming.append(sum(int(diver.y >= 0) for diver in state.divers))
    assert max(swimming) == 2


def test_delivering_a_full_crew_pays_the_gauge_and_leaves_a_crew_of_minus_one():
    state = start(y=1, crew=6, oxygen=119).replace(at_surface=jnp.bool_(False))
    state, reward, ended, *_ = step(state, UP)
    assert reward == 5 and not ended and state.crew == -1 and state.oxygen == 200  # 119 * 10 // 200
    state, *_ = step(state, DOWN)
    state, reward, ended, *_ = step(state, UP)  # once more for free
    assert reward == 0 and not ended and state.crew == -2


def test_surfacing_without_divers_ends_the_game_and_keeps_the_gauge():
    # gymnax 1.0.1 shows a full gauge in this last observation.
    state = start(y=1, crew=0, oxygen=100).replace(at_surface=jnp.bool_(False))
    state, _, ended, *_ = step(state, UP)
    assert ended and observe(ENV, state)[9, :, 7].sum() == 5 and state.oxygen == 100


def test_a_submarine_that_swims_into_a_shot_still_fires():
    # gymnax 1.0.1 loses its bullet.
    state = start(y=4, x=0)
    state, *_ = step(state, RIGHT)
    state, *_ = step(state, FIRE)  # the shot is in column 2, and will be in 3
    e, one = state.enemies, jnp.uint32(1)
    subs = e.replace(subs=one, x=write(e.x, one, 4), row=write(e.row, one, 3), timer=zeros(3), gun=zeros(4))
    after, reward, ended, *_ = step(state.replace(enemies=subs), NOTHING)
    assert reward == 1 and not ended and after.enemies.subs == 0 and after.shots[0].y == -1
    assert after.enemies.bullets == 1 and where_equal(after.enemies.bullet_x, 2) & 1  # fired in column 3, moved once


def test_the_newer_of_two_divers_takes_the_last_free_place_on_board():
    here = Diver(jnp.int32(5), jnp.int32(4), jnp.bool_(True))
    state = start(y=4, x=5, crew=5, oxygen=100).replace(divers=(here, here.replace(goes_right=jnp.bool_(False))))
    state, *_ = step(state, NOTHING)
    assert state.crew == 6 and state.divers[0].y == -1 and state.divers[1].y == 4


@pytest.mark.parametrize("noise, sub", [(0, True), (0xFFFFFF00, False)])
def test_enemies_in_one_row_move_in_one_direction(noise, sub):
    right = step(start(y=0, spawn_timer=0), NOTHING, noise | 1)[0]
    assert bool(right.enemies.subs & 1) == sub and bool(right.enemies.fish & 1) != sub
    other = step(right.replace(spawn_timer=jnp.int32(0)), NOTHING, noise)[0]
    assert (other.enemies.subs | other.enemies.fish).item().bit_count() == 1
    same = step(right.replace(spawn_timer=jnp.int32(0)), NOTHING, noise | 1)[0]
    assert (same.enemies.subs | same.enemies.fish).item().bit_count() == 2


def test_operations_on_bit_sliced_numbers():
    rng = np.random.default_rng(0)
    words, expected = zeros(4), []
    for number in rng.integers(0, 15, SLOTS).tolist():
        words, expected = push_number(words, jnp.int32(number)), [number, *expected]
    up, down = 0x0F0F0F0F, 0x40404040
    moved = increment_decrement(words, jnp.uint32(up), jnp.uint32(down))
    for slot, number in enumerate(expected):
        number += (up >> slot & 1) - (down >> slot & 1)
        assert int(where_equal(moved, number % 16)) >> slot & 1
    assert all(int(where_equal(write(words, jnp.uint32(5), 7), 7)) >> slot & 1 for slot in (0, 2))
    for things in (0, 1, 0b101000, 0x80000001):
        assert int(newest(jnp.uint32(things))) == things & -things
        assert int(oldest(jnp.uint32(things))) == (1 << things.bit_length() >> 1)


def test_the_submarine_is_observed_facing_left_or_right():
    for action, front, back in ((LEFT, 4, 5), (RIGHT, 6, 5)):
        state = step(start(y=3, x=5), action)[0]
        seen = [np.argwhere(observe(ENV, state)[:, :, layer]).tolist() for layer in (0, 1)]
        assert seen == [[[3, front]], [[3, back]]] and state.faces_right == (action == RIGHT)
