"""Seaquest against MinAtar's."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minatar.replay import Adapter, changed, compare, first_states_of, reference, row
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.envs.minatar.seaquest import Seaquest
from shoal.envs.minatar.slots import write

pytestmark = pytest.mark.sampled

SAME = {
    "sub_x": "x",
    "sub_y": "y",
    "sub_or": "faces_right",
    "oxygen": "oxygen",
    "diver_count": "crew",
    "surface": "at_surface",
    "e_spawn_timer": "spawn_timer",
    "e_spawn_speed": "spawn_speed",
    "d_spawn_timer": "diver_timer",
    "move_speed": "move_speed",
    "ramp_index": "ramp_index",
    "shot_timer": "shot_timer",
}


def answers_of(word):
    word = int(word)
    enemy = [("rand", 0.25 if word & 1 else 0.5), ("rand", 0.25 if word >> 8 < 2**24 // 3 else 0.5)]
    enemy.append(("randint", lambda low, high: 1 + (word >> 1 & 7)))
    return enemy, [("rand", 0.25 if word >> 4 & 1 else 0.5), ("randint", lambda low, high: 1 + (word >> 5 & 7))]


def number(words, slot):
    return sum((int(word) >> slot & 1) << bit for bit, word in enumerate(words))


def slots(things):
    """Oldest first."""
    return [slot for slot in reversed(range(32)) if int(things) >> slot & 1]


def enemies_of(state, which):
    e = state.enemies
    for slot in slots(getattr(e, which)):
        enemy = [number(e.x, slot), number(e.row, slot) + 1, bool(int(e.go_right) >> slot & 1), number(e.timer, slot)]
        yield enemy + [number(e.gun, slot)] * (which == "subs")


def bullets_of(state):
    e = state.enemies
    for slot in slots(e.bullets):
        yield [number(e.bullet_x, slot), number(e.row, slot) + 1, bool(int(e.go_right) >> slot & 1)]


def few(things):
    """Shots or divers, oldest first."""
    return [[int(t.x), int(t.y), bool(t.goes_right)] for t in reversed(things) if t.y >= 0]


def divers_of(state):
    timer = 5 - (30 - int(state.diver_timer)) % 6
    return [[*diver, timer] for diver in few(state.divers)]


def put(game, state):
    for their, our in SAME.items():
        setattr(game, their, getattr(state, our))
    game.f_bullets, game.divers = few(state.shots), divers_of(state)
    game.e_fish, game.e_subs = list(enemies_of(state, "fish")), list(enemies_of(state, "subs"))
    game.e_bullets = list(bullets_of(state))


def plain(things):
    return [[bool(n) if i == 2 else int(n) for i, n in enumerate(thing)] for thing in things]


def theirs(game):
    return {
        **{name: int(getattr(game, name)) for name in SAME},
        "shots": plain(game.f_bullets),
        "divers": plain(game.divers),
        # Oldest first, because the age decides which enemy is hit; it does not matter for bullets.
        "fish": plain(game.e_fish),
        "subs": plain(game.e_subs),
        "bullets": sorted(plain(game.e_bullets)),
    }


def ours(state):
    return {
        **{their: int(getattr(state, our)) for their, our in SAME.items()},
        "shots": few(state.shots),
        "divers": divers_of(state),
        "fish": list(enemies_of(state, "fish")),
        "subs": list(enemies_of(state, "subs")),
        "bullets": sorted(bullets_of(state)),
    }


class Answers:
    """The answers for one step: MinAtar samples an enemy, a diver, both or neither, depending on its timers."""

    def __init__(self):
        self.game = None

    def __call__(self, word):
        enemy, diver = answers_of(word)
        return [*(enemy if self.game.e_spawn_timer == 0 else []), *(diver if self.game.d_spawn_timer == 0 else [])]


def adapter(answers):
    def put_and_keep(game, state):
        answers.game = game
        put(game, state)

    return Adapter(answers, put_and_keep, theirs, ours)


ADAPTER = adapter(Answers())


def late(env, n=256, spawn_speed=1, move_speed=2, ramp=25, one_way=False):
    """States of the hardest difficulty, reached by 200 random steps in which terminations are ignored."""
    numbers = np.array([spawn_speed, move_speed, ramp, one_way], np.int32)
    return played_on(to_arrays(env), first_states_of(env, n), jax.random.split(make_key(0), n), numbers)


@jax.jit
def played_on(env, states, keys, numbers):
    spawn_speed, move_speed, ramp, one_way = numbers

    def play(state, key):
        def step(state, key):
            k_act, k_step = jax.random.split(key)
            uniform, noise = env.noise(k_step)
            noise = noise | one_way.astype(noise.dtype)
            values = {"oxygen": jnp.int32(150), "spawn_speed": spawn_speed, "move_speed": move_speed}
            state = state.replace(**values, ramp_index=ramp)
            state = state.replace(spawn_timer=jnp.minimum(state.spawn_timer, spawn_speed))
            action = jax.random.choice(k_act, jnp.array([0, 1, 3, 5, 5, 4]))
            return env.advance(state, action, (uniform, noise))[0], None

        return jax.lax.scan(step, state, jax.random.split(key, 200))[0]

    return jax.vmap(play)(states, keys)


def crafted(env, **how):
    """Late states with the submarine in any cell, any number of divers on board and any oxygen."""
    rng, n = np.random.default_rng(1), 256
    x, right = rng.integers(1, 9, n), rng.integers(0, 2, n)
    fields = {
        "x": x,
        "y": rng.integers(0, 9, n),
        "faces_right": right,
        "crew": rng.choice([-2, -1, 0, 1, 5, 6], n),
        "oxygen": rng.choice([0, 1, 5, 60, 119, 120, 200], n),
        "at_surface": rng.integers(0, 2, n),
    }
    # Without shots: they could not have been fired from the submarine's new cell.
    states = changed(late(env, n, **how), **fields)
    none = np.full(n, -1, np.int32)
    return jax.vmap(lambda s, y: s.replace(shots=tuple(shot.replace(y=y) for shot in s.shots)))(states, none)


def careful(game, rng):
    """A policy that avoids enemies within two cells, collects divers, surfaces in time, and shoots often."""
    moves = {0: (0, 0), 1: (-1, 0), 2: (0, -1), 3: (1, 0), 4: (0, 1)}
    danger = set()
    for thing in game.e_fish + game.e_subs + game.e_bullets:
        for ahead in range(3):
            danger.add((thing[0] + (ahead if thing[2] else -ahead), thing[1]))
    may_surface = game.diver_count != 0 and game.oxygen < 150 or game.oxygen < 20
    best = []
    for action in rng.permutation(5):
        x, y = game.sub_x + moves[action][0], game.sub_y + moves[action][1]
        if (x, y) in danger or not (0 <= x <= 9 and y <= 8) or (y == 0 and not may_surface):
            continue
        best.append(int(action))
    if game.shot_timer == 0 and rng.random() < 0.6 and (game.sub_x, game.sub_y) not in danger:
        return 5
    if may_surface and 2 in best:
        return 2
    for diver in game.divers:
        wanted = 3 if diver[0] > game.sub_x else 1 if diver[0] < game.sub_x else 4 if diver[1] > game.sub_y else 2
        if wanted in best:
            return wanted
    return best[0] if best else 0


@pytest.mark.parametrize(("at_random", "with_care"), [(500, 5_000), (4_000, 8_000)])
def test_games_equal_minatars(at_random, with_care):
    env = Seaquest()
    compare(env, ADAPTER, first_states_of(env), at_random)
    their_states = compare(env, ADAPTER, first_states_of(env), with_care, policy=careful)
    assert max(each["ramp_index"] for each in their_states) >= 3
    assert max(each["diver_count"] for each in their_states) >= 3


@pytest.mark.parametrize("ramping", [True, False])
def test_late_games_equal_minatars(ramping):
    env = Seaquest(sticky_action_prob=0.0, ramping=ramping)
    their_states = compare(env, ADAPTER, crafted(env), 3_000, restart=25, policy=careful)
    counts = Counter(each["diver_count"] for each in their_states)
    assert counts[-1] and counts[6]
    assert max(len(each["shots"]) for each in their_states) == 2


@pytest.mark.parametrize("minimal", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [{"one_way": True}, {}, {"spawn_speed": 3, "move_speed": 3, "ramp": 4}])
def test_single_steps_from_every_kind_of_state_equal_minatars(how, minimal):
    env = Seaquest(minimal_actions=minimal)
    their_states = compare(env, ADAPTER, crafted(env, **how), 1_500, restart=3)
    most = max(len(each["fish"]) + len(each["subs"]) for each in their_states)
    assert most >= (27 if how.get("one_way") else 12)


def test_the_first_state_is_minatars():
    env = Seaquest()
    state, their_env = row(first_states_of(env), 0), reference(env)
    assert theirs(their_env.env) == ours(state)
    np.testing.assert_array_equal(jax.jit(lambda key: env.observe(env.init(key)))(make_key(0)), their_env.state())


def test_of_several_enemies_that_enter_a_shot_the_same_one_is_removed():
    # Three in one cell, about to move into the cell that a shot enters: submarines are hit before fish, newest first.
    # So close together they come only where the difficulty has just changed, which random play hardly ever shows.
    env, rng, n = Seaquest(sticky_action_prob=0.0), np.random.default_rng(3), 200
    subs = rng.integers(0, 8, n)  # which of the three
    column, in_row, guns = 4, 3, rng.integers(0, 11, (3, n))
    fields = {
        "x": np.zeros(n),
        "y": np.full(n, in_row + 1),
        "shot_timer": np.full(n, 3),
        "at_surface": np.zeros(n),
        "oxygen": np.full(n, 150),
    }
    states = changed(first_states_of(env, n), **fields)
    planes = [sum((guns[slot] >> bit & 1) << slot for slot in range(3)) for bit in range(4)]

    def crowd(state, subs, *gun):
        three = jnp.uint32(7)
        e = state.enemies
        enemies = e.replace(subs=subs, fish=three ^ subs, x=write(e.x, three, column), row=write(e.row, three, in_row))
        shot = state.shots[0].replace(x=jnp.int32(column - 2), y=jnp.int32(in_row + 1), goes_right=jnp.bool_(True))
        return state.replace(enemies=enemies.replace(gun=gun), shots=(shot, state.shots[1]))

    words = [jnp.asarray(each, jnp.uint32) for each in (subs, *planes)]
    their_states = compare(env, ADAPTER, jax.jit(jax.vmap(crowd))(states, *words), 500, restart=2)
    assert {len(each["subs"]) for each in their_states} >= {0, 1, 2}
