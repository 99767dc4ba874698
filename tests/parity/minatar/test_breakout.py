"""Breakout against MinAtar's."""

import itertools

import jax
import numpy as np
import pytest

from parity.minatar.replay import Adapter, changed, compare, first_states_of, reference, row
from shoal.envs.minatar.breakout import WALL, Breakout

pytestmark = pytest.mark.sampled

DIRECTIONS = [(False, False), (True, False), (True, True), (False, True)]  # MinAtar's 0 to 3: (goes right, goes down)


def bricks_of(bits):
    cells = np.zeros(100)
    cells[10:40] = int(bits) >> np.arange(30) & 1
    return cells.reshape(10, 10)


def put(game, state):
    game.pos, game.ball_x, game.ball_y = int(state.paddle), int(state.x), int(state.y)
    game.last_x, game.last_y = int(state.last_x), int(state.last_y)
    game.ball_dir = DIRECTIONS.index((bool(state.goes_right), bool(state.goes_down)))
    game.strike, game.brick_map = bool(state.in_brick), bricks_of(state.bricks)


def theirs(game):
    return {
        "ball": (game.ball_x, game.ball_y, *DIRECTIONS[game.ball_dir], game.last_x, game.last_y),
        "paddle": game.pos,
        "strike": game.strike,
        "bricks": game.brick_map.astype(int).tolist(),
    }


def ours(state):
    return {
        "ball": (
            *(int(state.x), int(state.y), bool(state.goes_right), bool(state.goes_down)),
            *(int(state.last_x), int(state.last_y)),
        ),
        "paddle": int(state.paddle),
        "strike": bool(state.in_brick),
        "bricks": bricks_of(state.bricks).astype(int).tolist(),
    }


ADAPTER = Adapter(lambda noise: [], put, theirs, ours)


def follow(game, rng):
    """A policy that mostly stays under the ball, so that walls are cleared."""
    target = game.ball_x + (1 if game.ball_dir in (1, 2) else -1) * (game.ball_y < 8)
    if rng.random() < 0.1:
        return int(rng.integers(3))
    return 1 if target < game.pos else 2 if target > game.pos else 0


def crafted(env):
    """Random states: every direction of the ball from many cells, with any number of bricks."""
    rng = np.random.default_rng(0)
    n = 2000
    start = first_states_of(env, n)
    sparse = rng.integers(0, 2**30, n) & rng.integers(0, 2**30, n) & rng.integers(0, 2**30, n)
    bricks = np.choose(rng.integers(0, 4, n), [np.full(n, WALL), np.zeros(n, int), sparse, 1 << rng.integers(0, 30, n)])
    x, y = rng.integers(0, 10, n), rng.integers(0, 9, n)
    fields = {"x": x, "y": y, "last_x": x, "last_y": y, "paddle": rng.integers(0, 10, n)}
    flags = {name: rng.integers(0, 2, n).astype(bool) for name in ("goes_right", "goes_down", "in_brick")}
    return changed(start, **fields, **flags, bricks=bricks)


@pytest.mark.parametrize("sticky", [0.0, 0.1])
def test_games_equal_minatars(sticky):
    env = Breakout(sticky_action_prob=sticky)
    compare(env, ADAPTER, first_states_of(env), 5_000)
    compare(env, ADAPTER, first_states_of(env), 10_000, policy=follow)


def test_single_steps_from_every_kind_of_state_equal_minatars():
    env = Breakout(sticky_action_prob=0.0, minimal_actions=False)
    their_states = compare(env, ADAPTER, crafted(env), 6_000, restart=3)
    left = [sum(map(sum, each["bricks"])) for each in their_states]
    assert any(before == 0 and after == 30 for before, after in itertools.pairwise(left))  # a new wall appeared


def test_the_first_state_is_minatars():
    env = Breakout()
    first_states, observe = first_states_of(env), jax.jit(env.observe)
    assert {bool(x) for x in first_states.goes_right} == {False, True}
    for k in range(16):
        state = row(first_states, k)
        their_env = reference(env)
        their_env.env.random.load(iter([("randint", 0 if state.goes_right else 1)]))
        their_env.reset()
        assert theirs(their_env.env) == ours(state) and their_env.last_action == state.last_action == 0
        np.testing.assert_array_equal(observe(jax.tree.map(jax.numpy.asarray, state)), their_env.state())


def test_both_corners_are_as_likely():
    right = first_states_of(Breakout(), 4000, seed=0).goes_right
    assert abs(float(right.mean()) - 0.5) < 0.04
