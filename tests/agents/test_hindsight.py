"""Hindsight relabelling, against a plain Python list of all steps; goals of environments; what is refused."""

import shutil
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import shoal
from shoal import DQN, SAC, TD3, ObserveGoal, make
from shoal.agents.hindsight import reward_function
from shoal.agents.replay_agent import Observed
from shoal.core.checks import check_env
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.ops.replay import Replay, Steps
from shoal.rollouts.checks import check_agent
from tiny import SILENT

ENVS, AT_ONCE, ROWS, LIMIT = 2, 4, 16, 5
SIZES = {"num_envs": 2, "num_steps": 8, "hidden": (8,), "buffer_size": 64, "batch_size": 16, "learning_starts": 16}
GOALS = ("CartPoleGoal-v0", "PendulumGoal-v0", "PointRobot-v0")


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


class Steady:
    """Steps of two environments, each with a number of its own; a terminated episode has no final observation."""

    def __init__(self, seed=0):
        self.random, self.next_id = np.random.default_rng(seed), 1
        self.time, self.now = [0] * ENVS, [self._new() for _ in range(ENVS)]
        self.steps = [[] for _ in range(ENVS)]  # (what is observed, what is observed after it or None, episode)
        self.episode = [0] * ENVS

    def _new(self):
        self.next_id += 1
        return self.next_id

    def rollout(self):
        columns = {name: np.zeros((AT_ONCE, ENVS), np.int32) for name in ("observed", "time", "final_slot")}
        flags = {name: np.zeros((AT_ONCE, ENVS), bool) for name in ("terminated", "truncated")}
        final = np.zeros((1, ENVS), np.int32)
        for t in range(AT_ONCE):
            for e in range(ENVS):
                self.time[e] += 1
                columns["observed"][t, e], columns["time"][t, e] = self.now[e], self.time[e]
                terminated = self.random.random() < 0.1
                truncated = self.time[e] == LIMIT
                flags["terminated"][t, e], flags["truncated"][t, e] = terminated, truncated
                after = self._new()
                self.steps[e].append((self.now[e], None if terminated else after, self.episode[e]))
                self.now[e] = after
                if terminated or truncated:
                    if not terminated:
                        final[0, e] = after
                    self.now[e], self.time[e] = self._new(), 0
                    self.episode[e] += 1
        zeros = jnp.zeros((AT_ONCE, ENVS), jnp.float32)
        columns, flags = jax.tree.map(jnp.asarray, (columns, flags))
        return Steps(action=zeros, reward=zeros, final_observed=jnp.asarray(final), **columns, **flags)

    def allowed(self, e, behind):
        """What a sample of the row so far behind the newest may get as a later observation."""
        kept = self.steps[e][-ROWS:]
        row = len(kept) - 1 - behind
        later = [after for _, after, episode in kept[row:] if episode == kept[row][2] and after is not None]
        is_running = kept[-1][2] == self.episode[e]
        return later[:-1] if is_running and kept[row][2] == self.episode[e] else later


def test_a_later_observation_is_uniform_over_those_of_the_episode_that_are_stored():
    python = Steady()
    replay = Replay.empty(
        jnp.int32(0), jnp.float32(0), num_envs=ENVS, num_steps=AT_ONCE, size=ROWS * ENVS, final_rows=5, has_time=True
    )
    add, draws, checked = jax.jit(Replay.add), 600, set()
    later = jax.jit(
        jax.vmap(lambda key, replay, index, newest: replay.later(key, index, newest), (0, None, None, None))
    )
    for clock in range(9):
        replay = add(replay, python.rollout(), jnp.int32(clock))
        newest = replay.newest(jnp.int32(clock))
        stored = min((clock + 1) * AT_ONCE, ROWS)
        behind = np.repeat(np.arange(1, stored), ENVS)
        env = np.tile(np.arange(ENVS), stored - 1)
        index = replay.index(newest, jnp.asarray(behind, jnp.int32), jnp.asarray(env, jnp.int32))
        found, exists = later(jax.random.split(make_key(clock), draws), replay, index, newest)
        for i, (b, e) in enumerate(zip(behind.tolist(), env.tolist(), strict=True)):
            allowed = python.allowed(e, b)
            assert (np.asarray(exists[:, i]) == bool(allowed)).all()
            checked.add(len(allowed))
            if allowed:
                counts = Counter(np.asarray(found[:, i]).tolist())
                assert set(counts) == set(allowed)
                assert stats.chisquare([counts[x] for x in allowed]).pvalue > 1e-6 or len(allowed) == 1
    assert checked == set(range(LIMIT + 1))


def collected(name, agent, updates=6):
    """(a bound agent, its environment, its state) after some updates."""
    env = ObserveGoal(make(name))
    agent, env = to_arrays(agent.bind(env)), to_arrays(env)
    update = jax.jit(type(agent).update)
    state = agent.init(make_key(0), env)
    for clock in range(updates):
        state, metrics = update(agent, state, env, jnp.int32(clock))
    assert np.isfinite(float(metrics.losses["loss"]))
    return agent, env, state


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_relabelled_sample_has_the_reward_of_its_new_goal(share):
    from shoal.agents.hindsight import relabelled

    agent, env, state = collected("PointRobot-v0", SAC(hindsight=True, hindsight_share=share, **SIZES))
    clock = jnp.int32(5)
    newest, replay = state.replay.newest(clock), state.replay
    index = replay.uniform(make_key(1), 400, newest, replay.usable(clock, 1))
    before = replay.take(index, 0.9)
    after = relabelled(agent, env, replay, before, index, newest, make_key(2))
    goal, old = np.asarray(after.observed.obs["desired_goal"]), np.asarray(before.observed.obs["desired_goal"])
    reached = np.asarray(before.next_observed.obs["achieved_goal"])
    distance = np.linalg.norm(reached - goal, axis=1)
    is_new = (goal != old).any(1)
    np.testing.assert_array_equal(after.reward[is_new], (distance <= 0.2)[is_new].astype(np.float32))
    np.testing.assert_array_equal(after.reward[~is_new], before.reward[~is_new])
    assert is_new.mean() == pytest.approx(share, abs=0.1)
    np.testing.assert_array_equal(goal, after.next_observed.obs["desired_goal"])
    for part in ("observation", "achieved_goal"):
        np.testing.assert_array_equal(after.observed.obs[part], before.observed.obs[part])
        np.testing.assert_array_equal(after.next_observed.obs[part], before.next_observed.obs[part])
    np.testing.assert_array_equal(after.bootstrap, before.bootstrap)
    assert share == 0 or float(after.reward.mean()) > float(before.reward.mean())


def test_the_reward_follows_the_numbers_of_the_members_environment():
    agent = SAC(hindsight=True)
    goals = jnp.zeros(2), jnp.asarray([0.3, 0.0])
    envs = jax.tree.map(
        lambda *x: jnp.stack(x), *(to_arrays(ObserveGoal(make("PointRobot-v0", goal_radius=r))) for r in (0.2, 0.4))
    )
    assert jax.vmap(lambda env: reward_function(agent, env)(*goals))(envs).tolist() == [0, 1]
    limited = shoal.TimeLimit(ObserveGoal(make("PointRobot-v0")), 7)
    assert reward_function(agent, limited)(goals[0], goals[0]) == 1


@pytest.mark.parametrize(
    ("agent", "env"),
    [
        (DQN, "CartPoleGoal-v0"),
        pytest.param(SAC, "PendulumGoal-v0", marks=pytest.mark.slow),
        pytest.param(TD3, "PointRobot-v0", marks=pytest.mark.slow),
    ],
)
def test_agents_with_hindsight_keep_the_contract(agent, env):
    fields = {**SIZES, "normalize_observation": True, "prioritized": agent is SAC}
    check_agent(agent(hindsight=True, **fields), ObserveGoal(make(env)))


def test_an_interrupted_run_with_hindsight_ends_with_the_same_bits(tmp_path):
    from shoal.training import checkpoint

    whole, cut, env = tmp_path / "whole", tmp_path / "cut", ObserveGoal(make("PointRobot-v0"))
    agent = SAC(hindsight=True, **SIZES)
    shoal.train(agent, env, seeds=2, steps=96, records=3, evaluations=0, folder=whole, **SILENT)
    shutil.copytree(whole, cut)
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    shoal.train(agent, resume=cut, **SILENT)
    files = [np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") for run in (whole, cut)]
    with files[0] as expected, files[1] as resumed:
        for name in expected.files:
            np.testing.assert_array_equal(resumed[name], expected[name], err_msg=name)


# Environments with goals.


@pytest.mark.parametrize("name", GOALS)
def test_the_reward_of_a_step_is_that_of_the_goals_after_it(name):
    env = ObserveGoal(make(name))
    check_env(env)
    obs, state = env.reset(make_key(0))
    for i in range(30):
        action = env.action_space.sample(make_key(i))
        obs, state, reward, _, _, info = env.step(make_key(i), state, action)
        expected = env.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)
        assert float(reward) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("name", GOALS)
def test_the_observation_without_the_goal_does_not_depend_on_it(name):
    env = ObserveGoal(make(name))
    state = env.init(make_key(0))
    moved = state.replace(goal=state.goal + 0.25)
    one, other = env.observe(state), env.observe(moved)
    np.testing.assert_array_equal(one["observation"], other["observation"])
    assert (one["desired_goal"] != other["desired_goal"]).all()


# What is refused, in words.


@pytest.mark.parametrize(
    ("env", "fields", "words"),
    [
        (
            "Pendulum-v1",
            {"hindsight": True},
            "Dict of observation, achieved_goal and desired_goal, not Box.*ObserveGoal",
        ),
        ("PendulumGoal-v0", {"hindsight": True}, "ObserveGoal"),
        ("goal", {"hindsight": True, "n_step": 3}, "n_step=3 adds rewards up as they were stored"),
        ("goal", {"hindsight": True, "memory": "gru", "num_steps": 10}, "memory='gru' has read the steps before"),
        ("goal", {"hindsight_share": 0.5}, "hindsight_share=0.5 changes nothing without hindsight=True"),
        ("goal", {"goal_reward": lambda a, d: 0.0}, "goal_reward changes nothing without hindsight=True"),
        ("goal", {"hindsight": True, "goal_reward": lambda a, d: a}, r"returns an array \[2\].*one number"),
        (
            "goal",
            {"hindsight": True, "goal_reward": lambda a: 0.0},
            r"write goal_reward\(achieved_goal, desired_goal\)",
        ),
        ("scaled", {"hindsight": True}, "ScaleReward has no compute_reward.*goal_reward=lambda"),
    ],
)
def test_a_wrong_use_of_hindsight_is_refused_before_the_run(env, fields, words):
    goal = ObserveGoal(make("PendulumGoal-v0"))
    env = {"goal": goal, "scaled": shoal.ScaleReward(goal, 2.0)}.get(env) or make(env)
    with pytest.raises((ValueError, TypeError), match=words):
        SAC(**fields).bind(env)


def test_an_environment_without_goals_cannot_observe_them():
    with pytest.raises(TypeError, match="Pendulum has none: CartPoleGoal-v0"):
        ObserveGoal(make("Pendulum-v1"))


def test_a_function_of_the_user_is_the_reward_of_an_environment_that_has_none():
    env = shoal.ScaleReward(ObserveGoal(make("PointRobot-v0")), 2.0)
    agent = SAC(hindsight=True, goal_reward=lambda a, d: -jnp.sum((a - d) ** 2), **SIZES)
    agent, env = to_arrays(agent.bind(env)), to_arrays(env)
    assert reward_function(agent, env)(jnp.zeros(2), jnp.ones(2)) == -2
    assert isinstance(agent.init(make_key(0), env).replay.observed, Observed)
