"""FourRooms against a NumPy version of the house that Sutton, Precup and Singh (1999) draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.replay import first_states, noise_of, play
from shoal.envs.meta.four_rooms import FourRooms, FourRoomsState

pytestmark = pytest.mark.sampled

CLOCKWISE = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


def house():
    """13 x 13, walls around; a wall down the middle with two doors, and half a wall with a door on either side."""
    is_wall = np.zeros((13, 13), bool)
    is_wall[[0, -1]] = is_wall[:, [0, -1]] = True
    is_wall[:, 6] = is_wall[6, :6] = is_wall[7, 6:] = True
    for door in ((3, 6), (10, 6), (6, 2), (7, 9)):
        is_wall[door] = False
    return is_wall


class Walk:
    """The reference: one agent, one goal."""

    def __init__(self, position, goal, fail_prob):
        self.position, self.goal, self.fail_prob, self.is_wall = np.array(position), np.array(goal), fail_prob, house()

    def step(self, action, chance, stray):
        move = stray if chance < self.fail_prob * 4 / 3 else action
        target = self.position + CLOCKWISE[move]
        if not self.is_wall[tuple(target)]:
            self.position = target
        arrived = bool((self.position == self.goal).all())
        return float(arrived), arrived

    def picture(self):
        layers = np.zeros((13, 13, 3), bool)
        layers[..., 0] = self.is_wall
        layers[(*self.position, 1)] = layers[(*self.goal, 2)] = True
        return layers


def state_at(cells, goals):
    columns = [jnp.asarray(column, jnp.int32) for column in (*np.transpose(cells), *np.transpose(goals))]
    return jax.vmap(FourRoomsState)(jnp.zeros(len(cells), jnp.int32), *columns)


def test_every_move_from_every_cell_under_every_slip():
    cells = np.argwhere(~house())
    assert len(cells) == 104
    slips = [(chance, stray) for chance in (0.1, 0.44, 0.45, 0.9) for stray in range(4)]
    rows = [(cell, action, *slip) for cell in cells for action in range(4) for slip in slips]
    start, action, chance, stray = (np.array(column) for column in zip(*rows, strict=True))
    goal = np.tile(cells, (16 * 4, 1))[np.random.default_rng(0).permutation(len(start))]
    theirs = [Walk(s, g, 1 / 3) for s, g in zip(start, goal, strict=True)]
    results = [walk.step(a, c, n) for walk, a, c, n in zip(theirs, action, chance, stray, strict=True)]
    noise = (jnp.asarray(chance[None], jnp.float32), jnp.asarray(stray[None], jnp.int32))
    ours = play(FourRooms(), state_at(start, goal), action[None].astype(np.int32), noise)
    after = np.array([walk.position for walk in theirs])
    np.testing.assert_array_equal(np.stack([ours.state.row[0], ours.state.column[0]], 1), after)
    np.testing.assert_array_equal(np.stack([ours.reward[0], ours.terminated[0]], 1), np.array(results, float))
    np.testing.assert_array_equal(ours.obs[0], np.concatenate([after, goal], 1))
    assert ours.terminated.sum() > 10 and (start == after).all(1).any() and (start != after).any(1).any()


@pytest.mark.parametrize("fields", [{}, {"fail_prob": 0.0}, {"fail_prob": 0.75}])
def test_long_walks_with_pictures(fields):
    env = FourRooms(random_goal=True, random_start=True, observation="image", max_steps=None, **fields)
    steps, num = 700, 10
    states, noise = first_states(env, num), noise_of(env, steps, num)
    actions = np.random.default_rng(0).integers(0, 4, (steps, num)).astype(np.int32)
    ours = play(env, states, actions, noise)
    assert ours.terminated.sum() > 10
    chance, stray = map(np.asarray, noise)
    for e in range(num):
        start, goal = (int(states.row[e]), int(states.column[e])), (int(states.goal_row[e]), int(states.goal_column[e]))
        walk = Walk(start, goal, env.fail_prob)
        for t in range(steps):
            reward, terminated = walk.step(actions[t, e], chance[t, e], stray[t, e])
            assert (ours.reward[t, e], ours.terminated[t, e]) == (reward, terminated)
            np.testing.assert_array_equal(ours.obs[t, e], walk.picture())
