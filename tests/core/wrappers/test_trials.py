"""Trials (consecutive episodes of one task): computed by hand for a small environment, then checked on others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally, advance, init, noise, observe
from shoal.core.checks import check_env
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Tuple
from shoal.core.struct import Number, struct
from shoal.core.wrappers import FlattenObservation, FrameStack, Randomize, StickyActions, TimeLimit, Trials
from shoal.envs.meta.bernoulli_bandit import BernoulliBandit
from shoal.envs.meta.four_rooms import FourRooms
from shoal.envs.meta.meta_maze import MetaMaze
from shoal.envs.meta.point_robot import PointRobot
from shoal.rollouts.rollout import Rollout

KEY = make_key(3)


@struct
class StairsState(State):
    """The current step, the first step of the walk, and the number of walks before."""

    height: jax.Array
    origin: jax.Array
    walks: jax.Array


@struct
class Stairs(Env):
    """Climb by the action, from a random step below 100, to the top. A task is the number of steps to the top."""

    steps: Number = 3
    max_steps: Number | None = 5

    observation_space = Box(0, 1000, (2,), np.int32)
    action_space = Discrete(3)

    def init(self, key):
        origin = jax.random.randint(key, (), 0, 100)
        return StairsState(jnp.int32(0), origin, origin, jnp.int32(0))

    def transition(self, state, action, noise):
        height = state.height + action
        is_up = height - state.origin >= self.steps
        state = state.replace(height=height)
        return state, jnp.where(is_up, 10.0, action.astype(jnp.float32)), is_up, {"height": height}

    def observe(self, state):
        return jnp.stack([state.height - state.origin, state.time])

    def carry_over(self, ended, fresh):
        return fresh.replace(walks=ended.walks + 1)


def two_or_four(key):
    return Stairs(steps=jax.random.choice(key, jnp.array([2, 4])))


def any_goal_in_the_east(key):
    k_row, k_column = jax.random.split(key)
    return FourRooms(
        goal_row=jax.random.randint(k_row, (), 1, 6), goal_column=jax.random.randint(k_column, (), 7, 12), max_steps=60
    )


def corner_goal(key):
    row, column = jnp.array([[1, 1], [1, 9], [9, 1], [9, 9]])[jax.random.randint(key, (), 0, 4)]
    return MetaMaze(goal_row=row, goal_column=column, max_steps=50)


def some_arms(key):
    return BernoulliBandit(num_arms=3, probabilities=jax.random.uniform(key, (3,)), max_steps=4)


def some_point(key):
    return PointRobot(goal_x=jax.random.uniform(key), goal_y=1.0)


def sticky_stairs(key):
    return StickyActions(two_or_four(key), 0.5)


TRIALS = {
    "stairs": Trials(Stairs(), two_or_four, 3),
    "one task": Trials(Stairs(), episodes=2),
    "masked": Trials(Tally(), episodes=2),
    "bandit": Trials(BernoulliBandit(num_arms=3, probabilities=jnp.zeros(3), max_steps=4), some_arms, 3),
    "maze": Trials(MetaMaze(goal_row=1, goal_column=1, max_steps=50), corner_goal),
    "rooms": Trials(FourRooms(max_steps=60), any_goal_in_the_east, 4),
    "point": FlattenObservation(Trials(PointRobot(goal_x=0.0, goal_y=1.0), some_point)),
    "inside": Trials(StickyActions(Stairs(), 0.5), sticky_stairs),
    "outside": FrameStack(TimeLimit(Trials(Stairs(), two_or_four), 7), 2),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TRIALS)
def test_a_trial_keeps_the_contract(name):
    check_env(TRIALS[name], steps=16)


def walk(env, actions, key=KEY):
    """(observation, reward, terminated, truncated, state) after each action."""
    state, seen = init(env, key), []
    for t, action in enumerate(actions):
        lots = noise(env, jax.random.fold_in(key, t))
        state, reward, terminated, truncated, info = advance(env, state, jnp.int32(action), lots)
        seen.append((observe(env, state), float(reward), bool(terminated), bool(truncated), state, info))
    return seen


def test_a_trial_by_hand():
    env = Trials(Stairs(steps=3), episodes=2)
    start = observe(env, init(env, KEY))
    assert start["observation"].tolist() == [0, 0] and start["action"].tolist() == [False] * 3
    assert (float(start["reward"]), bool(start["done"])) == (0.0, False)
    # First walk: 1, then 2 reach the top in two steps. The second ends by its limit of 5 steps, one short of the top.
    seen = walk(env, (1, 2, 0, 1, 0, 1, 0))
    heights = [[1, 1], [0, 0], [0, 1], [1, 2], [1, 3], [2, 4], [2, 5]]
    assert [obs["observation"].tolist() for obs, *_ in seen] == heights
    assert [obs["action"].tolist().index(True) for obs, *_ in seen] == [1, 2, 0, 1, 0, 1, 0]
    assert [float(obs["reward"]) for obs, *_ in seen] == [reward for _, reward, *_ in seen] == [1, 10, 0, 1, 0, 1, 0]
    assert [bool(obs["done"]) for obs, *_ in seen] == [False, True, False, False, False, False, True]
    assert [flags for _, _, *flags, _, _ in seen] == [[False, False]] * 6 + [[True, False]]
    states = [state for *_, state, _ in seen]
    assert [int(state.time) for state in states] == [1, 2, 3, 4, 5, 6, 7]
    assert [int(state.inner.time) for state in states] == [1, 0, 1, 2, 3, 4, 5]
    assert [int(state.inner.walks) for state in states] == [0, 1, 1, 1, 1, 1, 1]
    assert int(states[0].inner.origin) != int(states[2].inner.origin)  # the walks begin in different places
    assert int(seen[1][5]["height"]) == int(states[0].inner.origin) + 3  # of the step itself, not of what follows


def test_a_trial_whose_episodes_all_time_out_terminates_at_its_limit():
    env = Trials(Stairs(), episodes=2)
    assert env.max_steps == 10 and env.reset_every == 2 * Stairs.reset_every
    seen = walk(env, (0,) * 10)
    assert [flags for _, _, *flags, _, _ in seen] == [[False, False]] * 9 + [[True, True]]
    assert Trials(Stairs(max_steps=None)).max_steps is None


def test_the_episode_limit_is_that_of_the_base_environment_for_every_task():
    env = Trials(Stairs(max_steps=3), two_or_four, 2)  # tasks that have a limit of 5
    seen = walk(env, (0,) * 6)
    assert [flags for _, _, *flags, _, _ in seen] == [[False, False]] * 5 + [[True, True]]
    assert [bool(observation["done"]) for observation, *_ in seen][:3] == [False, False, True]


def test_a_task_lasts_for_all_episodes_of_one_trial():
    env = TRIALS["stairs"]
    tasks = []
    for seed in range(8):
        seen = walk(env, (1,) * 12, make_key(seed))
        task = int(seen[0][4].env.steps)
        ends = [t + 1 for t, (obs, *_) in enumerate(seen) if obs["done"]]
        assert ends[:3] == [task, 2 * task, 3 * task]
        assert [t + 1 for t, (_, _, terminated, *_) in enumerate(seen) if terminated][0] == 3 * task
        assert {int(state.env.steps) for *_, state, _ in seen} == {task}
        tasks.append(task)
    assert set(tasks) == {2, 4}


def rollout(env, steps, num_envs=16):
    """A rollout of random play: states never leave the loop, so only what agents observe is checked."""
    plan = Rollout.for_env(env, num_envs, steps)

    def act(obs, mask, key, carry):
        return jax.vmap(env.action_space.sample)(key), None, carry

    keys = jax.random.split(make_key(1), (steps, num_envs))
    env_states = jax.jit(plan.init)(env, make_key(0))
    with jax.numpy_dtype_promotion("standard"):
        return env_states, *jax.jit(lambda w: plan.collect(env, w, act, keys, make_key(2)))(env_states)


def test_bandit_arms_stay_within_a_trial_and_are_sampled_again_in_the_next():
    env = TRIALS["bandit"]
    env_states, after, seen, _ = rollout(env, 13)
    # Three episodes of four pulls, so every trial takes twelve steps; its end is its thirteenth observation's start.
    np.testing.assert_array_equal(np.asarray(seen.terminated).all(1), np.arange(1, 14) == 12)
    done = np.isin(np.arange(13), (4, 8))
    np.testing.assert_array_equal(seen.obs["done"], np.repeat(done[:, None], 16, 1))
    times = np.asarray(seen.obs["observation"][:, :, -1])
    np.testing.assert_allclose(times[:, 0], [-1, -0.5, 0, 0.5] * 3 + [-1])
    np.testing.assert_array_equal(seen.obs["reward"][1:12], seen.reward[:11])
    taken = np.asarray(jax.nn.one_hot(seen.action, 3, dtype=bool))
    np.testing.assert_array_equal(seen.obs["action"][1:12], taken[:11])
    assert not np.asarray(seen.obs["action"])[[0, 12]].any() and not np.asarray(seen.obs["reward"])[[0, 12]].any()
    starts = env_states.state.starts.means
    np.testing.assert_array_equal(starts, np.repeat(env_states.state.env.probabilities[:, None], 3, 1))
    assert not np.isclose(after.state.env.probabilities, env_states.state.env.probabilities).any()


def test_the_goal_of_a_maze_stays_within_a_trial():
    env = TRIALS["maze"]
    state = init(env, KEY)
    goal = (int(state.env.goal_row), int(state.env.goal_column))
    beside = {1: (goal[0], 2), 9: (goal[0], 8)}[goal[1]]
    towards = 3 if goal[1] == 1 else 1
    for episode in range(2):
        assert (int(state.inner.goal_row), int(state.inner.goal_column)) == goal
        assert (int(state.inner.row), int(state.inner.column)) == (5, 5)
        inner = state.inner.replace(row=jnp.int32(beside[0]), column=jnp.int32(beside[1]))
        state, reward, *_ = advance(env, state.replace(inner=inner), jnp.int32(towards), noise(env, KEY))
        assert float(reward) == 10
        for _ in range(49):
            state, _, terminated, *_ = advance(env, state, jnp.int32(0), noise(env, KEY))
        assert bool(terminated) == (episode == 1)


def test_four_rooms_has_one_goal_for_each_trial():
    _, _, seen, _ = rollout(TRIALS["rooms"], 600, 8)
    obs, trial = np.asarray(seen.obs["observation"]), np.cumsum(np.asarray(seen.terminated), 0)
    goals = [
        {tuple(cell) for cell in obs[1:, e][trial[:-1, e] == k][:, 2:].tolist()}
        for e in range(8)
        for k in range(1 + trial[-2, e])
    ]
    assert all(len(goal) == 1 for goal in goals) and len(set.union(*goals)) > 4
    assert seen.obs["done"].sum() > 4


def test_noise_is_sampled_in_advance_for_a_fixed_task_and_is_a_key_for_sampled_tasks():
    assert Trials(Stairs()).noise(KEY) is None and TRIALS["stairs"].noise(KEY) is None
    arms = BernoulliBandit(probabilities=jnp.zeros(2))
    assert float(Trials(arms).noise(KEY)) == float(arms.noise(KEY))
    assert TRIALS["bandit"].noise(KEY) is KEY


def test_every_member_can_have_its_own_task():
    ends = jax.jit(jax.vmap(lambda steps: _ends(Trials(Stairs(steps=steps)))))(jnp.array([2, 3]))
    assert ends.tolist() == [[0, 1, 0, 1], [0, 0, 1, 0]]


def _ends(env):
    state, ends = env.init(KEY), []
    for _ in range(4):
        state, *_ = env.advance(state, jnp.int32(1), None)
        ends.append(state.done)
    return jnp.stack(ends).astype(jnp.int32)


@struct
class Dials(Stairs):
    """The same stairs with another action space."""

    action_space = MultiDiscrete((2, 3))

    def transition(self, state, action, noise):
        return Stairs.transition(self, state, action[1], noise)


@struct
class Push(Stairs):
    """The same."""

    action_space = Box(1.0, 2.0, (2,))

    def transition(self, state, action, noise):
        return Stairs.transition(self, state, jnp.int32(1), noise)


@struct
class Pair(Stairs):
    """The same."""

    action_space = Tuple((Discrete(2), Discrete(2)))


def test_actions_are_shown_one_hot_or_as_numbers_within_bounds():
    env = Trials(Dials())
    state, *_ = env.advance(env.init(KEY), jnp.array([1, 2], jnp.int32), None)
    assert env.observe(state)["action"].tolist() == [False, True, False, False, True]
    env = Trials(Push())
    assert env.observation_space["action"] == Box(0.0, 2.0, (2,))  # 0: none yet
    state, *_ = env.advance(env.init(KEY), jnp.array([1.5, 9.0], jnp.float32), None)
    assert env.observe(state)["action"].tolist() == [1.5, 2.0]
    with pytest.raises(TypeError, match="Box, not Tuple"):
        Trials(Pair())


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="not episodes=0"):
        Trials(Stairs(), episodes=0)
    with pytest.raises(ValueError, match=r"Trials\(env.env, env.sample\)"):
        Trials(TimeLimit(Randomize(Stairs(), two_or_four), 3))
    with pytest.raises(ValueError, match="sample must return"):
        Trials(Stairs(), some_arms).init(KEY)


def test_the_picture_is_that_of_the_running_episode():
    env = TRIALS["rooms"]
    state = init(env, KEY)
    np.testing.assert_array_equal(env.render(state), state.env.render(state.inner))
