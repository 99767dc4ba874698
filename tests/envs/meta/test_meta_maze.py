"""MetaMaze: starts, goals that never end an episode, tasks, errors. Each past bug of gymnax has a test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init, noise, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import Randomize
from shoal.envs.meta.meta_maze import MetaMaze

KEYS = jax.random.split(make_key(0), 20_000)
SIZES = [3, 5, 7, 9, 11]


def states_of(env, keys=KEYS):
    return jax.jit(jax.vmap(env.init))(keys)


def beside_the_goal(env):
    """In a corridor, one step to the left of the goal."""
    return init(env, KEYS[0]).replace(
        row=jnp.int32(1), column=jnp.int32(1), goal_row=jnp.int32(1), goal_column=jnp.int32(2)
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", [3, 5])
def test_the_agent_starts_in_the_middle_which_is_free(size, view):
    env = MetaMaze(maze_size=size, view_size=view)  # in gymnax off by one with view 5, and in a pillar for sizes 7, 11
    state = init(env, KEYS[0])
    assert int(state.row) == int(state.column) == (size + 1) // 2
    seen = np.asarray(observe(env, state))[: view**2].reshape(view, view)
    assert seen[view // 2, view // 2] == 0
    np.testing.assert_array_equal(seen, seen[::-1, ::-1])  # a middle looks the same from both ends


@pytest.mark.parametrize("size", [3, 7, 9])
def test_the_goal_is_in_any_free_cell_but_the_middle(size):
    env = MetaMaze(maze_size=size)
    states = states_of(env)
    cells = np.asarray(states.goal_row * 100 + states.goal_column)
    middle = (size + 1) // 2
    free = {r * 100 + c for r in range(1, size + 1) for c in range(1, size + 1) if r % 2 or c % 2} - {middle * 101}
    assert set(cells.tolist()) == free and len(free) == env.num_cells - 1
    assert stats.chisquare(np.unique(cells, return_counts=True)[1]).pvalue > 1e-3


def test_reaching_the_goal_never_ends_an_episode():
    env = MetaMaze()  # in gymnax 1 in 65 did, by a teleport onto the goal
    state = beside_the_goal(env)
    after, reward, terminated, truncated, _ = jax.vmap(lambda key: advance(env, state, jnp.int32(1), noise(env, key)))(
        KEYS
    )
    assert (reward == 10).all() and not terminated.any() and not truncated.any()
    cells = np.asarray(after.row * 100 + after.column)
    assert 102 not in cells and len(set(cells.tolist())) == env.num_cells - 1
    assert stats.chisquare(np.unique(cells, return_counts=True)[1]).pvalue > 1e-3
    assert (after.goal_row == 1).all() and (after.goal_column == 2).all()


def test_time_runs_from_0_to_1_whatever_the_limit():
    env = MetaMaze(max_steps=40)  # gymnax divides by 100 in any case
    state = init(env, KEYS[0])
    times = [float(observe(env, state.replace(time=jnp.int32(t)))[9]) for t in (0, 10, 40)]
    assert times == [0.0, 0.25, 1.0]
    assert float(observe(MetaMaze(max_steps=None), state.replace(time=jnp.int32(9)))[9]) == 0.0


def test_observations_hold_the_goal_reward_in_their_space():
    env = MetaMaze(wall_penalty=0.5)
    state, *_ = advance(env, beside_the_goal(env), jnp.int32(1), jnp.int32(0))
    obs = observe(env, state)
    assert float(obs[10]) == 10 and obs[11:].tolist() == [0, 1, 0, 0]
    assert env.observation_space.contains(obs)  # gymnax's ends at 1
    bumped, reward, *_ = advance(env, state.replace(row=jnp.int32(1)), jnp.int32(0), jnp.int32(0))
    assert float(reward) == -0.5 and env.observation_space.contains(observe(env, bumped))
    assert env.observation_space.low[10] == -0.5 and env.observation_space.high[10] == 10


def test_a_population_of_rewards_shares_one_space():
    assert MetaMaze(goal_reward=np.array([1.0, 5.0])).observation_space.high[10] == 5.0


def near_goal(key):
    return MetaMaze(goal_row=4, goal_column=jax.random.choice(key, jnp.array([5, 7])))


def test_goals_can_be_given_or_sampled():
    assert int(init(MetaMaze(goal_row=4, goal_column=3), KEYS[0]).goal_column) == 3
    env = Randomize(MetaMaze(goal_row=4, goal_column=5), near_goal)
    assert set(states_of(env, KEYS[:100]).inner.goal_column.tolist()) == {5, 7}
    goals = jax.vmap(lambda column: init(MetaMaze(goal_row=1, goal_column=column), KEYS[0]).goal_column)(
        jnp.arange(1, 4)
    )
    assert goals.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"maze_size": 8}, "maze_size=8 has no middle"),
        ({"maze_size": 1}, "maze_size=1 has no middle"),
        ({"view_size": 4}, "view_size=4 has no middle"),
        ({"goal_row": 3}, "needs both goal_row and goal_column"),
        ({"goal_row": 2, "goal_column": 4}, r"goal \(2, 4\) .* is a pillar"),
        ({"goal_row": 5, "goal_column": 5}, r"goal \(5, 5\) .* is the middle"),
        ({"goal_row": 1, "goal_column": 10}, r"goal \(1, 10\) .* lies outside"),
        ({"goal_row": 0, "goal_column": 1}, "lies outside"),
        ({"goal_row": 1.5, "goal_column": 1}, "lies outside"),
        ({"goal_row": np.array([1, 2]), "goal_column": np.array([1, 2])}, r"goal \(2, 2\) .* is a pillar"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        MetaMaze(**fields)


def test_the_picture_shows_the_observed_cells():
    env = make("MetaMaze-misc", maze_size=7)
    state = init(env, KEYS[0]).replace(goal_row=jnp.int32(7), goal_column=jnp.int32(7))
    picture = env.render(state)
    assert picture.shape == (9 * 28, 9 * 28, 3)
    at = lambda row, column: tuple(picture[row * 28 + 14, column * 28 + 14].tolist())  # noqa: E731
    assert len({at(0, 0), at(1, 1), at(4, 4), at(7, 7), at(3, 3)}) == 5  # wall, floor, agent, goal, seen floor
    assert at(2, 2) == at(0, 0) and at(4, 3) == at(3, 3)
