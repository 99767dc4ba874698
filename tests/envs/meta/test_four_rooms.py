"""FourRooms: starts and goals, tasks, image observations, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init, noise, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import Randomize
from shoal.envs.meta.four_rooms import CELLS, WALLS, FourRooms

KEYS = jax.random.split(make_key(0), 20_000)


def pairs(env):
    """Start and goal of many episodes, each as one number."""
    states = jax.jit(jax.vmap(env.init))(KEYS)
    return np.asarray(states.row * 13 + states.column), np.asarray(states.goal_row * 13 + states.goal_column)


def is_uniform(numbers, among):
    counts = np.array([(numbers == number).sum() for number in among])
    return counts.sum() == len(numbers) and stats.chisquare(counts).pvalue > 1e-3


OPEN = (CELLS[:, 0] * 13 + CELLS[:, 1]).tolist()
START, GOAL = 4 * 13 + 1, 8 * 13 + 9


def test_an_episode_starts_in_the_west_and_the_goal_lies_in_the_southeast():
    start, goal = pairs(FourRooms())
    assert set(start.tolist()) == {START} and set(goal.tolist()) == {GOAL}
    assert observe(make("FourRooms-misc"), init(FourRooms(), KEYS[0])).tolist() == [4, 1, 8, 9]


def test_a_random_start_is_anywhere_but_at_the_goal():
    start, goal = pairs(FourRooms(random_start=True))
    assert set(goal.tolist()) == {GOAL}
    assert is_uniform(start, [cell for cell in OPEN if cell != GOAL])


def test_a_random_goal_is_anywhere_but_at_the_start():
    start, goal = pairs(FourRooms(random_goal=True))  # in gymnax it may be at the start
    assert set(start.tolist()) == {START}
    assert is_uniform(goal, [cell for cell in OPEN if cell != START])


def test_random_starts_and_goals_are_any_two_different_cells():
    start, goal = pairs(make("FourRooms-Random-v0"))
    assert not (start == goal).any()
    assert is_uniform(start, OPEN) and is_uniform(goal, OPEN)


def test_moves_slip_with_the_given_probability():
    env = FourRooms(fail_prob=0.3)
    state = init(env, KEYS[0]).replace(row=jnp.int32(2), column=jnp.int32(3))
    after = jax.jit(jax.vmap(lambda key: advance(env, state, jnp.int32(1), noise(env, key))[0]))(KEYS)
    shares = [float(((after.row == r) & (after.column == c)).mean()) for r, c in ((2, 4), (1, 3), (3, 3), (2, 2))]
    np.testing.assert_allclose(shares, [0.7, 0.1, 0.1, 0.1], atol=0.013)  # four standard errors of 0.7


def test_the_slip_is_independent_of_its_direction():
    chance, stray = jax.jit(jax.vmap(FourRooms().noise))(KEYS)
    assert chance.min() >= 0 and chance.max() < 1
    table = np.histogram2d(np.asarray(chance), np.asarray(stray), (10, np.arange(5) - 0.5))[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_image_observations_show_agent_and_goal_at_their_positions():
    env = make("FourRooms-Image-v0")  # gymnax swaps row and column, and shows no goal
    state = init(env, KEYS[0]).replace(row=jnp.int32(10), column=jnp.int32(6))  # in a door: the other way round a wall
    layers = np.asarray(observe(env, state))
    assert layers.dtype == bool and layers.shape == (13, 13, 3)
    assert np.argwhere(layers[..., 1]).tolist() == [[10, 6]] and not layers[10, 6, 0]
    assert np.argwhere(layers[..., 2]).tolist() == [[8, 9]]
    np.testing.assert_array_equal(layers[..., 0], WALLS)


def test_observations_of_vectors_are_small_integers_that_their_space_contains():
    env = FourRooms()
    obs = observe(env, init(env, KEYS[0]))
    assert obs.dtype == np.int8 and env.observation_space.contains(obs)  # gymnax says float32 and gives int32


def test_the_time_limit_truncates_and_the_goal_terminates():
    env = FourRooms(max_steps=3, fail_prob=0.0, start_row=8, start_column=8)
    state = init(env, KEYS[0])
    away = advance(env, state.replace(time=jnp.int32(2)), jnp.int32(3), noise(env, KEYS[0]))
    there = advance(env, state, jnp.int32(1), noise(env, KEYS[0]))
    assert (float(away[1]), bool(away[2]), bool(away[3])) == (0.0, False, True)
    assert (float(there[1]), bool(there[2]), bool(there[3])) == (1.0, True, False)
    assert there[1].dtype == np.float32


def goal_in_the_southwest(key):
    return FourRooms(goal_row=jax.random.randint(key, (), 8, 12), goal_column=jnp.int32(2))


def test_a_new_goal_can_be_sampled_for_every_episode():
    env = Randomize(FourRooms(), goal_in_the_southwest)
    states = jax.jit(jax.vmap(env.init))(KEYS[:500])
    assert set(states.inner.goal_row.tolist()) == {8, 9, 10, 11} and set(states.inner.goal_column.tolist()) == {2}
    obs = jax.jit(jax.vmap(env.observe))(states)
    np.testing.assert_array_equal(obs[:, 2], states.env.goal_row)


def test_every_member_can_have_its_own_goal_without_recompilation():
    traces = []

    @jax.jit
    def goals(envs):
        def of_member(env):
            traces.append(env)
            return env.init(KEYS[0])

        axes = jax.tree.map(lambda x: 0 if jnp.ndim(x) else None, envs)
        state = jax.vmap(of_member, in_axes=(axes,), axis_size=3)(envs)
        return state.goal_row, state.goal_column

    for rows in ([1, 2, 3], [8, 9, 10]):
        envs = FourRooms(goal_row=jnp.array(rows), goal_column=jnp.array([1, 2, 3]))
        assert goals(envs)[0].tolist() == rows
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"goal_row": 6, "goal_column": 6}, r"goal=\(6, 6\) is a wall"),
        ({"start_row": 0}, r"start=\(0, 1\) is a wall"),
        ({"goal_row": 13}, r"goal=\(13, 9\) lies outside"),
        ({"goal_row": 8.5}, r"goal=\(8.5, 9.0\) lies outside"),
        ({"goal_row": np.array([8, 6]), "goal_column": np.array([9, 5])}, r"goal=\(6, 5\) is a wall"),
        ({"start_row": 8, "start_column": 9}, r"start and goal are both the cell \(8, 9\)"),
        ({"fail_prob": 0.8}, "fail_prob=0.8 is out of range"),
        ({"fail_prob": -0.1}, "fail_prob=-0.1 is out of range"),
        ({"fail_prob": float("nan")}, "fail_prob=nan is out of range"),
        ({"observation": "pixels"}, "Choose 'vector' or 'image'"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        FourRooms(**fields)


def test_cells_that_are_not_used_are_not_checked():
    assert FourRooms(goal_row=4, goal_column=1, random_start=True).goal_row == 4


def test_the_picture_shows_walls_agent_and_goal():
    env = FourRooms()
    picture = env.render(init(env, KEYS[0]))
    assert picture.shape == (364, 364, 3)
    center = lambda row, column: picture[row * 28 + 14, column * 28 + 14].tolist()  # noqa: E731
    wall, floor, agent, goal = center(0, 0), center(1, 1), center(4, 1), center(8, 9)
    assert len({tuple(color) for color in (wall, floor, agent, goal)}) == 4
    assert center(6, 6) == wall and center(4, 2) == floor
