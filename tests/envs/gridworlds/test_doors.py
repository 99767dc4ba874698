"""Doors and DoorsImitation: gaps, starts, kept and repaired quirks of the published code, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, MultiDiscrete
from shoal.envs.gridworlds.doors import Doors, DoorsState
from shoal.envs.gridworlds.doors_imitation import DoorsImitation

STAY, RIGHT, DOWN, LEFT, UP = range(5)


def starts(env, number):
    return jax.vmap(env.init)(jax.random.split(make_key(0), number))


def walk(env, state, *actions):
    rewards = []
    for action in actions:
        state, reward, *_ = advance(env, state, jnp.int32(action), None)
        rewards.append(float(reward))
    return state, rewards


def grid(env, state):
    return np.asarray(observe(env, state)).reshape(env.rows, env.columns)


def test_gaps_are_at_the_published_positions():
    assert Doors().gaps == (0, 5, 10) and DoorsImitation().gaps == (4, 9, 14)
    for env, wall in ((Doors(), 2), (DoorsImitation(), -1)):
        seen = grid(env, init(env, make_key(0)))
        assert np.flatnonzero(seen[7] != wall).tolist() == list(env.gaps)
        assert np.argwhere(seen == wall)[:, 0].tolist() == [7] * 12


@pytest.mark.parametrize("columns, doors", [(15, 1), (15, 4), (16, 5), (7, 7), (1, 1)])
def test_the_number_of_gaps_is_configurable(columns, doors):
    for env in (Doors(columns=columns, doors=doors), DoorsImitation(columns=columns, doors=doors)):
        assert len(set(env.gaps)) == doors and 0 <= min(env.gaps) <= max(env.gaps) < columns


def test_spaces_count_cells_in_the_smallest_dtypes():
    assert make("Doors-v0").observation_space == MultiDiscrete((4,) * 225, np.uint8)
    assert make("DoorsImitation-v0").observation_space == Box(-1, 2, (225,), np.int8)
    assert observe(Doors(rows=5, columns=30), init(Doors(rows=5, columns=30), make_key(0))).shape == (150,)


def test_agent_and_goal_are_drawn_independently():
    state = starts(Doors(), 22_500)
    assert (state.row == 14).all()
    count = np.zeros((15, 15))
    np.add.at(count, (np.asarray(state.column), np.asarray(state.goal_column)), 1)
    assert np.square(count - 100).sum() / 100 < 224 + 5 * np.sqrt(2 * 224)  # chi-square, 224 degrees of freedom


def test_the_hidden_goal_mirrors_the_start():
    env = DoorsImitation()
    state = starts(env, 3000)
    assert (state.row == 14).all() and len(np.unique(state.column)) == 15
    goal = jax.vmap(env.goal_column)(state)
    np.testing.assert_array_equal(goal, 14 - np.asarray(state.column))


def test_a_blocked_move_has_reward_zero():
    env = Doors()
    below_the_wall = DoorsState(jnp.int32(0), jnp.uint8(8), jnp.uint8(2), jnp.uint8(2))
    state, rewards = walk(env, below_the_wall, UP, UP)
    assert rewards == [0.0, 0.0] and state.row == 8


def test_the_agent_hides_a_goal_it_stands_on():
    env = Doors()
    state, reward, terminated, *_ = advance(
        env, DoorsState(jnp.int32(0), jnp.uint8(1), jnp.uint8(3), jnp.uint8(3)), jnp.int32(UP), None
    )
    assert terminated and reward == 1 and grid(env, state)[0, 3] == 1 and 3 not in grid(env, state)


def at_start(column):
    env = DoorsImitation()
    state = init(env, make_key(0))
    return env, state.replace(column=jnp.uint8(column), start_column=jnp.uint8(column))


def test_in_the_first_observation_the_mark_hides_the_agent():
    env, state = at_start(3)
    seen = grid(env, state)
    assert seen[14, 3] == 2 and 1 not in seen


def test_a_mark_in_a_left_cell_stays_and_blocks():
    env, state = at_start(3)
    state, _ = walk(env, state, RIGHT)
    assert grid(env, state)[14, 3:5].tolist() == [2, 1]
    state, rewards = walk(env, state, LEFT)
    assert grid(env, state)[14, 3:5].tolist() == [2, 1] and rewards == [0.0]
    state, _ = walk(env, state, UP, LEFT, DOWN)
    assert (state.row, state.column) == (13, 3)


@pytest.mark.parametrize("first", [STAY, DOWN])
def test_a_mark_that_was_not_left_at_once_vanishes(first):
    env, state = at_start(3)
    state, _ = walk(env, state, first)
    assert grid(env, state)[14, 3] == 1 and 2 not in grid(env, state)
    state, _ = walk(env, state, RIGHT, LEFT)
    assert grid(env, state)[14, 3] == 1 and 2 not in grid(env, state)


def test_an_episode_of_doors_imitation_continues_at_the_goal_and_truncates_after_32_steps():
    env, state = at_start(9)  # straight up through a gap, then four cells to the left
    flags = []
    for action in [UP] * 14 + [LEFT] * 4 + [STAY] * 14:
        state, _, terminated, truncated, _ = advance(env, state, jnp.int32(action), None)
        flags.append((bool(terminated), bool(truncated)))
    assert (state.row, state.column) == (0, 5)
    assert flags == [(False, False)] * 31 + [(False, True)]


@pytest.mark.parametrize("cls", [Doors, DoorsImitation])
@pytest.mark.parametrize(
    "fields, words",
    [
        ({"doors": 0}, "doors=0 do not fit into a wall of 15 cells: give 1 to 15"),
        ({"doors": 16}, "doors=16 do not fit into a wall of 15 cells"),
        ({"rows": 2}, "rows=2 is out of range: give a whole number from 3 to 255"),
        ({"columns": 256}, "columns=256 is out of range: give a whole number from 1 to 255"),
        ({"max_steps": 0}, "max_steps=0 is not a valid time limit"),
    ],
)
def test_invalid_arguments_are_refused(cls, fields, words):
    with pytest.raises(ValueError, match=words):
        cls(**fields)


@pytest.mark.parametrize("name", ["Doors-v0", "DoorsImitation-v0"])
def test_the_picture_shows_the_agent(name):
    env = make(name)
    state = init(env, make_key(0))
    moved, _ = walk(env, state, UP)
    before, after = env.render(state), env.render(moved)
    assert before.shape == (765, 765, 3) and before.dtype == np.uint8
    changed = {tuple(cell) for cell in (np.argwhere((before != after).any(axis=-1)) // 51).tolist()}
    assert changed == {(14, int(state.column)), (13, int(state.column))}
