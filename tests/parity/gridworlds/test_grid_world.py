"""GridWorld against Pegoud's version in NumPy: every step from every cell, and the published values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.gridworlds.references import GridWorld as Reference
from shoal.core.registry import make
from shoal.envs.gridworlds.grid_world import GridWorldState

SIZES = [(8, 12, {}), (3, 2, {"start_row": 1, "start_column": 1, "goal_row": 2, "goal_column": 0}), (1, 9, {})]


def every_step(env):
    """(rows, columns, actions) of all pairs, and what follows: (row, column), reward, terminated."""
    cells = np.indices((env.rows, env.columns, 4)).reshape(3, -1)

    def step(row, column, action):
        state, reward, terminated, *_ = env.advance(GridWorldState(jnp.int32(0), row, column), action, None)
        return jnp.stack([state.row, state.column]), reward, terminated

    row, column, action = cells
    given = row.astype(np.uint8), column.astype(np.uint8), action.astype(np.int32)
    return cells, jax.tree.map(np.asarray, jax.jit(jax.vmap(step))(*given))


@pytest.mark.parametrize("rows, columns, places", SIZES)
def test_every_step_equals_the_article(rows, columns, places):
    env = make("GridWorld-v0", rows=rows, columns=columns, **places)
    cells, (place, reward, terminated) = every_step(env)
    goal = places.get("goal_row", 0), places.get("goal_column", 0)
    for i, (row, column, action) in enumerate(cells.T):
        expected = Reference(rows, columns, (row, column), goal).step(action)
        assert (place[i].tolist(), reward[i], terminated[i]) == (expected[0].tolist(), *expected[1:])


def test_the_start_is_the_articles():
    obs, _ = make("GridWorld-v0").reset(jax.random.key(0))
    assert obs.tolist() == [7, 11]


def values(discount, restart):
    """Value iteration; with `restart` as Pegoud's code learns, in which the value after the goal is the start's."""
    env = make("GridWorld-v0")
    (row, column, _), (place, reward, terminated) = every_step(env)
    value = np.zeros((8, 12))
    for _ in range(500):
        after = value[place[:, 0], place[:, 1]]
        after = np.where(terminated, value[7, 11] if restart else 0, after)
        value = (reward + discount * after).reshape(8, 12, 4).max(-1)
    return value


def test_values_are_those_of_eighteen_steps():
    value = values(0.9, restart=False)
    assert value[7, 11] == pytest.approx(0.9**17) and value[0, 1] == 1


def test_the_articles_heatmap_bootstraps_from_the_next_start():
    # V = 0.9^17 (1 + 0.9 V) at the start; before the goal 1 + 0.9 V.
    value = values(0.9, restart=True)
    assert value[7, 11] == pytest.approx(0.1962, abs=1e-4) and value[0, 1] == pytest.approx(1.177, abs=1e-3)
