"""SpaceInvaders against MinAtar's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minatar.replay import Adapter, changed, compare, first_states_of, reference, row
from shoal.core.keys import make_key
from shoal.envs.minatar.space_invaders import WAVE, SpaceInvaders

pytestmark = pytest.mark.sampled

TIMERS = ("alien_move_timer", "enemy_move_interval", "alien_shot_timer", "shot_timer", "ramp_index")
OUR_TIMERS = ("move_timer", "move_interval", "bomb_timer", "shot_timer", "ramp_index")


def board(cells):
    """A map of 0 and 1 with ones in these (row, column) pairs that are on it."""
    cells = [(y, x) for y, x in cells if 0 <= y < 10]
    made = np.zeros((10, 10))
    for y, x in cells:
        assert 0 <= x < 10 and made[y, x] == 0
        made[y, x] = 1
    return made


def aliens_of(state):
    alive = [divmod(i, 6) for i in range(24) if int(state.aliens) >> i & 1]
    return board([((int(state.top) + r) % 10, int(state.left) + c) for r, c in alive])


def shots_of(state):
    return board([(int(state.shot_y), int(state.shot_x)), (int(state.older_y), int(state.older_x))])


def put(game, state):
    game.pos, game.alien_dir = int(state.x), 1 if state.go_right else -1
    game.alien_map, game.f_bullet_map = aliens_of(state), shots_of(state)
    game.e_bullet_map = board([(int(state.bomb_y), int(state.bomb_x))])
    for name, our in zip(TIMERS, OUR_TIMERS, strict=True):
        setattr(game, name, int(getattr(state, our)))


def theirs(game):
    return {
        "cannon": game.pos,
        "right": game.alien_dir > 0,
        "aliens": game.alien_map.astype(int).tolist(),
        "shots": game.f_bullet_map.astype(int).tolist(),
        "bombs": game.e_bullet_map.astype(int).tolist(),
        **{name: int(getattr(game, name)) for name in TIMERS},
    }


def ours(state):
    return {
        "cannon": int(state.x),
        "right": bool(state.go_right),
        "aliens": aliens_of(state).astype(int).tolist(),
        "shots": shots_of(state).astype(int).tolist(),
        "bombs": board([(int(state.bomb_y), int(state.bomb_x))]).astype(int).tolist(),
        **{name: int(getattr(state, our)) for name, our in zip(TIMERS, OUR_TIMERS, strict=True)},
    }


ADAPTER = Adapter(lambda noise: [], put, theirs, ours)


def crafted(env, low=False):
    """Random states: waves anywhere with 1 to 24 aliens; shots, a bomb and timers that are consistent."""
    rng, n = np.random.default_rng(0), 2500
    aliens = rng.random((n, 4, 6)) < rng.choice([0.05, 0.3, 0.8, 1], (n, 1, 1))
    aliens[np.arange(n), rng.integers(0, 4, n), rng.integers(0, 6, n)] = True
    first = aliens.any(axis=1).argmax(axis=1), aliens.any(axis=2).argmax(axis=1)
    last = 5 - aliens.any(axis=1)[:, ::-1].argmax(axis=1), 3 - aliens.any(axis=2)[:, ::-1].argmax(axis=1)
    del first
    # The wave's columns 0 to 5 reach from -leftmost to 9 - rightmost; its rows never begin above the board.
    leftmost = aliens.any(axis=1).argmax(axis=1)
    left, top = rng.integers(-leftmost, 10 - last[0]), rng.integers(0, 10 - last[1])
    top = np.where(low | (rng.random(n) < 0.4), 9 - last[1], top)
    shot_timer = rng.integers(0, 5, n)
    # Fired k steps ago, a shot has risen k + 1 rows and the cannon needs 4 - k more; the one before is 5 rows ahead.
    shot_y = np.where(shot_timer > 0, 8 - (4 - shot_timer), rng.choice([-1, 0, 1, 2, 3], n))
    shot_y = np.where(rng.random(n) < 0.2, -1, shot_y)
    older_y = np.where((shot_y > 4) & (rng.random(n) < 0.7), shot_y - 5, -1)
    bomb_timer = rng.integers(0, 10, n)
    # Dropped 9 - timer steps ago, at the top at the earliest.
    bomb_y = np.where(rng.random(n) < 0.7, 9 - bomb_timer + rng.integers(0, 10, n), 10)
    fields = {
        "aliens": (aliens.reshape(n, 24) << np.arange(24)).sum(axis=1),
        "left": left,
        "top": top,
        "go_right": rng.integers(0, 2, n),
        "x": rng.integers(0, 10, n),
        "shot_timer": shot_timer,
        "shot_x": rng.integers(0, 10, n),
        "shot_y": shot_y,
        "older_x": rng.integers(0, 10, n),
        "older_y": older_y,
        "bomb_x": rng.integers(0, 10, n),
        "bomb_y": np.minimum(bomb_y, 10),
        "bomb_timer": bomb_timer,
        "move_interval": rng.integers(6, 13, n),
        "move_timer": rng.choice([0, 0, 1, 5], n),
        "ramp_index": rng.integers(0, 7, n),
    }
    return changed(first_states_of(env, n), **fields)


def hunter(game, rng):
    """A policy that avoids the bomb, and otherwise shoots or moves at random."""
    falling = np.argwhere(game.e_bullet_map)
    if any(x == game.pos and y >= 6 for y, x in falling):
        return 1 if game.pos > 4 else 2
    if game.shot_timer == 0 and rng.random() < 0.8:
        return 3
    return int(rng.integers(4))


def test_games_equal_minatars():
    env = SpaceInvaders()
    compare(env, ADAPTER, first_states_of(env), 4_000)
    compare(env, ADAPTER, first_states_of(env), 6_000, policy=hunter)


@pytest.mark.parametrize("ramping", [True, False])
def test_late_games_equal_minatars(ramping):
    env = SpaceInvaders(sticky_action_prob=0.0, ramping=ramping)
    their_states = compare(env, ADAPTER, crafted(env), 5_000, restart=40, policy=hunter)
    assert max(sum(map(sum, each["shots"])) for each in their_states) == 2  # as many as there can be
    assert any(
        before["ramp_index"] < after["ramp_index"]
        for before, after in zip(their_states, their_states[1:], strict=False)
    )


@pytest.mark.parametrize("minimal", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("low", [True, False])
def test_single_steps_from_every_kind_of_state_equal_minatars(low, minimal):
    env = SpaceInvaders(minimal_actions=minimal)
    compare(env, ADAPTER, crafted(env, low), 5_000, restart=3)


def test_the_first_state_is_minatars():
    # gymnax before 1.0.1 had 28 aliens.
    env = SpaceInvaders()
    state, their_env = row(first_states_of(env), 0), reference(env)
    assert theirs(their_env.env) == ours(state) and their_env.env.alien_map.sum() == 24
    np.testing.assert_array_equal(jax.jit(lambda key: env.observe(env.init(key)))(make_key(0)), their_env.state())


def test_a_bomb_hits_where_the_cannon_has_moved_to():
    # gymnax before 1.0.1 looked where the cannon had been.
    env = SpaceInvaders(sticky_action_prob=0.0)
    state = jax.jit(env.init)(make_key(0)).replace(bomb_x=jnp.int32(4), bomb_y=jnp.int32(8))
    terminated = jax.jit(lambda action: env.advance(state, action, env.noise(make_key(0)))[2])
    ends = [bool(terminated(jnp.int32(action))) for action in range(4)]
    assert ends == [False, True, False, False]


def test_the_first_wave_is_whole():
    assert WAVE.bit_count() == 24


def test_bits_of_empty_columns_never_reach_the_board():
    env = SpaceInvaders()
    state = jax.jit(env.init)(make_key(0)).replace(aliens=jnp.uint32(1 << 5), left=jnp.int32(-5))
    cells = jax.jit(env.observe)(state)[:, :, 1]
    assert np.argwhere(cells).tolist() == [[0, 0]]
