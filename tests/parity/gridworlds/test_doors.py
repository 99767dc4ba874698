"""Doors against Yousif's version in NumPy: every step from every cell, with every goal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.gridworlds.references import DOORS_MOVES
from parity.gridworlds.references import Doors as Reference
from shoal.core.registry import make
from shoal.envs.gridworlds.doors import Doors, DoorsState

STAY, RIGHT, DOWN, LEFT, UP = range(5)


def state_of(row, column, goal_column):
    return DoorsState(jnp.int32(0), row, column, goal_column)


def way(column, goal_column):
    """Along the last row to the gap that makes the shortest way, through it, along the first row."""
    gap = min((0, 5, 10), key=lambda gap: abs(gap - column) + abs(goal_column - gap))
    return [*along(column, gap), *[UP] * 14, *along(gap, goal_column)]


def along(begin, end):
    return [RIGHT if end > begin else LEFT] * abs(end - begin)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fields, gaps", [({}, (0, 5, 10)), ({"rows": 6, "columns": 7, "doors": 2}, (0, 3)), ({"doors": 1, "rows": 3}, (0,))]
)
def test_every_step_equals_the_article(fields, gaps):
    env = Doors(**fields)
    shape = env.rows, env.columns
    row, column, goal, action = np.indices((*shape, env.columns, len(DOORS_MOVES))).reshape(4, -1)
    stands = ~((row == shape[0] // 2) & ~np.isin(column, gaps)) & ~((row == 0) & (column == goal))
    row, column, goal, action = (part[stands] for part in (row, column, goal, action))

    def step(action, *place):
        state, reward, terminated, *_ = env.advance(state_of(*place), action, None)
        return env.observe(state_of(*place)), env.observe(state), reward, terminated

    given = action.astype(np.int32), *(part.astype(np.uint8) for part in (row, column, goal))
    before, after, reward, terminated = jax.tree.map(np.asarray, jax.jit(jax.vmap(step))(*given))
    rewards, flags = [], []
    for i in range(len(row)):
        reference = Reference((row[i], column[i]), (0, goal[i]), *shape, gaps)
        assert (before[i] == reference.grid.ravel()).all()
        for part, result in zip((rewards, flags), reference.step(action[i]), strict=True):
            part.append(result)
        assert (after[i] == reference.grid.ravel()).all()
    np.testing.assert_allclose(reward, rewards, atol=2e-6)
    np.testing.assert_array_equal(terminated, flags)
    assert terminated.any() and (reward == 0).any()


def test_random_episodes_equal_the_article():
    env = make("Doors-v0")
    random = np.random.default_rng(0)
    actions = random.choice(5, (1000, 25), p=[0.1, 0.2, 0.1, 0.2, 0.4])
    first = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), len(actions)))
    for e in range(0, len(actions), 2):  # half of them know the way, but for one step
        known = way(int(first.column[e]), int(first.goal_column[e]))
        actions[e, : len(known)] = known[:25]
        actions[e, random.integers(25)] = random.integers(5)

    def step(state, action):
        state, reward, terminated, truncated, _ = env.advance(state, action, None)
        return state, (env.observe(state), reward, terminated, truncated)

    run = jax.jit(jax.vmap(lambda state, actions: jax.lax.scan(step, state, actions)[1]))
    obs, reward, terminated, truncated = jax.tree.map(np.asarray, run(first, actions.astype(np.int32)))
    arrivals = 0
    for e, columns in enumerate(zip(np.asarray(first.column), np.asarray(first.goal_column), strict=True)):
        reference = Reference((14, columns[0]), (0, columns[1]))
        for t, action in enumerate(actions[e]):
            expected, arrived = reference.step(action)
            assert (obs[e, t] == reference.grid.ravel()).all()
            assert abs(reward[e, t] - expected) < 2e-6
            assert (terminated[e, t], truncated[e, t]) == (arrived, t == 24)
            if arrived:
                arrivals += 1
                break
    assert 50 < arrivals < 500


def test_rewards_add_up_to_the_distance_of_a_goal_that_is_reached():
    env = make("Doors-v0", max_steps=28)
    column, goal = np.indices((15, 15)).reshape(2, -1)
    ways = [way(*pair) for pair in zip(column, goal, strict=True)]
    # The time limit of the article, 25 steps, is too short for some.
    assert max(map(len, ways)) == 28 and sum(len(known) > 25 for known in ways) == 12
    actions = np.array([[*known, *[STAY] * (28 - len(known))] for known in ways], np.int32)

    def step(carry, action):
        state, over = carry
        state, reward, terminated, *_ = env.advance(state, action, None)
        return (state, over | terminated), (jnp.where(over, 0.0, reward), over | terminated)

    def episode(column, goal, actions):
        return jax.lax.scan(step, (state_of(jnp.uint8(14), column, goal), jnp.bool_(False)), actions)[1]

    given = column.astype(np.uint8), goal.astype(np.uint8), actions
    reward, over = map(np.asarray, jax.jit(jax.vmap(episode))(*given))
    np.testing.assert_array_equal(over.argmax(axis=1) + 1, [len(known) for known in ways])
    np.testing.assert_allclose(reward.sum(axis=1), np.hypot(14, goal - column), atol=1e-5)
