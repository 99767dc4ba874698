"""DoorsImitation against Yousif's version in NumPy, and the published return of its expert."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.gridworlds.references import DoorsImitation as Reference
from shoal.core.registry import make
from shoal.envs.gridworlds.doors_imitation import DoorsImitation, DoorsImitationState


def starting_in(env, column):
    column = jnp.asarray(column, jnp.uint8)
    return DoorsImitationState(jnp.int32(0), jnp.uint8(env.rows - 1), column, column, jnp.bool_(True))


def our_episodes(env, columns, actions):
    """Observations (the first included), rewards and truncations of episodes from these columns."""

    def step(state, action):
        state, reward, terminated, truncated, _ = env.advance(state, action, None)
        return state, (env.observe(state), reward, terminated, truncated)

    def episode(column, actions):
        state = starting_in(env, column)
        return env.observe(state), jax.lax.scan(step, state, actions)[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(episode))(columns.astype(np.uint8), actions.astype(np.int32)))


@pytest.mark.sampled
@pytest.mark.parametrize("fields", [{}, {"rows": 6, "columns": 8, "doors": 3}, {"rows": 3, "columns": 4, "doors": 1}])
def test_random_episodes_equal_the_article(fields):
    env, random = DoorsImitation(**fields), np.random.default_rng(0)
    columns = random.integers(0, env.columns, 800)
    actions = random.choice(5, (800, 32), p=[0.1, 0.2, 0.15, 0.2, 0.35])
    first, (obs, reward, terminated, truncated) = our_episodes(env, columns, actions)
    marks = 0
    for e in range(len(columns)):
        reference = Reference(columns[e], **fields)
        assert (first[e] == reference.grid.ravel()).all()
        for t, action in enumerate(actions[e]):
            assert abs(reward[e, t] - reference.step(action)) < 2e-6
            assert (obs[e, t] == reference.grid.ravel()).all()
        marks += (reference.grid == 2).any()
    assert not terminated.any() and (truncated.sum(axis=1) == 1).all() and truncated[:, 31].all()
    assert 0 < marks < len(columns)  # the mark stays where the first action led away, and only there


def test_the_expert_returns_what_was_published():
    # "Expert: Returns: 16.33 STD: 1.97", over the fifteen columns to start from.
    env, actions = make("DoorsImitation-v0"), np.zeros((15, 32), int)
    for column in range(15):
        reference = Reference(column)
        for t in range(32):
            actions[column, t] = reference.expert()
            reference.step(actions[column, t])
    _, (_, reward, *_) = our_episodes(env, np.arange(15), actions)
    returns = reward.sum(axis=1)
    assert (round(float(returns.mean()), 2), round(float(returns.std()), 2)) == (16.33, 1.97)
    # Rewards telescope: an agent that reaches the goal has collected the whole distance.
    np.testing.assert_allclose(returns, np.hypot(14, 14 - 2 * np.arange(15)), atol=1e-5)
