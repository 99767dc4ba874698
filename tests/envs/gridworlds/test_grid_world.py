"""GridWorld: sizes, positions, starts and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.core.spaces import Discrete, MultiDiscrete
from shoal.envs.gridworlds.grid_world import GridWorld, GridWorldState

RIGHT, DOWN, LEFT, UP = range(4)


def starts(env, number=2000):
    states = jax.vmap(env.init)(jax.random.split(make_key(0), number))
    return np.stack([states.row, states.column], axis=1)


def test_eighteen_steps_lead_from_corner_to_corner():
    env, state = GridWorld(), init(GridWorld(), make_key(0))
    seen = []
    for action in [LEFT] * 11 + [UP] * 7:
        state, reward, terminated, truncated, _ = advance(env, state, jnp.int32(action), None)
        seen.append((float(reward), bool(terminated), bool(truncated)))
    assert seen == [(0.0, False, False)] * 17 + [(1.0, True, False)]


def test_an_episode_starts_in_the_last_cell_whatever_the_size():
    assert (starts(GridWorld(rows=4, columns=5)) == [3, 4]).all()
    assert (starts(GridWorld(start_row=2, start_column=6)) == [2, 6]).all()


def test_random_starts_are_uniform_from_row_3_and_column_3_on():
    found, count = np.unique(starts(GridWorld(random_start=True), 9000), axis=0, return_counts=True)
    assert found.min(axis=0).tolist() == [3, 3] and found.max(axis=0).tolist() == [7, 11] and len(found) == 45
    assert np.square(count - 200).sum() / 200 < 44 + 5 * np.sqrt(2 * 44)  # chi-square, 44 degrees of freedom


@pytest.mark.parametrize("columns, dtype", [(12, np.uint8), (200, np.uint16)])
def test_an_index_counts_the_cells_row_by_row(columns, dtype):
    env = GridWorld(columns=columns, observation="index")
    assert env.observation_space == Discrete(8 * columns, dtype)
    assert GridWorld(columns=columns).observation_space == MultiDiscrete((8, columns), np.uint8)
    for row, column in ((0, 0), (0, 11), (3, 4), (7, columns - 1)):
        seen = observe(env, GridWorldState(jnp.int32(0), jnp.uint8(row), jnp.uint8(column)))
        assert seen == row * columns + column and seen.dtype == dtype


def test_members_of_a_population_have_their_own_goals():
    def arrives(goal_column):
        env = GridWorld(rows=1, columns=9, goal_column=goal_column)
        state = GridWorldState(jnp.int32(0), jnp.uint8(0), jnp.uint8(5))
        return advance(env, state, jnp.int32(LEFT), None)[2]

    assert jax.vmap(arrives)(jnp.array([3, 4, 5])).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"rows": 0}, "rows=0 is out of range: give a whole number from 1 to 255"),
        ({"columns": 256}, "columns=256 is out of range: give a whole number from 1 to 255"),
        ({"rows": 3, "random_start": True}, "rows=3 is out of range: give a whole number from 4 to 255"),
        ({"goal_row": 8}, "goal_row=8 is out of range: give a whole number from 0 to 7"),
        ({"start_column": -1}, "start_column=-1 is out of range: give a whole number from 0 to 11"),
        ({"goal_column": 0.5}, "goal_column=0.5 is out of range"),
        ({"goal_row": np.array([0, 9])}, "goal_row=9 is out of range"),
        ({"goal_row": 7, "goal_column": 11}, "start and goal are both in row 7, column 11"),
        ({"rows": 1, "columns": 1}, "start and goal are both in row 0, column 0"),
        ({"random_start": True, "goal_row": 4, "goal_column": 3}, "may be the random start"),
        ({"random_start": True, "start_row": 5}, "start_row and start_column have no effect with random_start=True"),
        ({"observation": "pixels"}, "Choose 'position' or 'index'"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        GridWorld(**fields)


def test_the_picture_shows_the_goal_and_the_agent():
    env = GridWorld()
    near, far = (
        env.render(GridWorldState(jnp.int32(0), jnp.uint8(row), jnp.uint8(column))) for row, column in ((0, 1), (7, 11))
    )
    assert near.shape == (512, 768, 3) and near.dtype == np.uint8
    changed = np.argwhere((near != far).any(axis=-1)) // 64
    assert {tuple(cell) for cell in changed.tolist()} == {(0, 1), (7, 11)}
