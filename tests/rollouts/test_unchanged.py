"""Which arrays of a state no step changes, and where a rollout reads them."""

import jax
import numpy as np

from environments import Tally
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.rollouts.rollout import Rollout
from shoal.rollouts.unchanged import Unchanged, unchanged_leaves


def names_of_unchanged(env):
    """The fields of a state that `unchanged_leaves` finds, for a rollout of two environments."""
    rollout = Rollout.for_env(env, 2, 3)
    state, noise = rollout.init(env, make_key(0)).state, rollout.sample(env, make_key(1)).noise
    paths = [jax.tree_util.keystr(path, simple=True) for path, _ in jax.tree.leaves_with_path(state)]
    return {name for name, is_it in zip(paths, unchanged_leaves(env, state, noise), strict=True) if is_it}


def test_the_walls_of_a_maze_are_unchanged_and_the_agent_is_not():
    assert names_of_unchanged(to_arrays(make("MiniGrid-FourRooms-v0"))) == {"grid", "carrying"}


def test_a_grid_with_doors_is_not_unchanged():
    assert names_of_unchanged(to_arrays(make("MiniGrid-DoorKey-5x5-v0"))) == set()


def test_an_array_that_outlives_an_episode_is_not_unchanged():
    # No step changes the number of episodes played, but `carry_over` does.
    assert names_of_unchanged(to_arrays(Tally())) == set()


def test_a_row_that_does_not_exist_is_restored_as_zeros():
    env = to_arrays(make("MiniGrid-FourRooms-v0"))
    rollout = Rollout.for_env(env, 2, 3)
    state, samples = rollout.init(env, make_key(0)).state, rollout.sample(env, make_key(1))
    unchanged = Unchanged.of(env, state, samples.first_states, samples.noise)
    restored = unchanged.restored_or_zero(unchanged.changing(state), unchanged.no_rows((2,)))
    np.testing.assert_array_equal(restored.grid, np.zeros_like(state.grid))
    again = unchanged.restored(unchanged.changing(state), unchanged.first_row(2))
    jax.tree.map(np.testing.assert_array_equal, again, state)
    of_bank = unchanged.restored(unchanged.changing(state), 2 + unchanged.first_row(2))  # the rows after those of E
    np.testing.assert_array_equal(of_bank.grid, samples.first_states.grid[0])
