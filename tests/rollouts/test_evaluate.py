"""Evaluation: the first episodes of fresh environments, until they end or reach the horizon."""

import jax
import jax.numpy as jnp
import numpy as np

from environments import Drip
from shoal.agents.ppo import PPO
from shoal.core.agent import Actor
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import struct, to_arrays
from shoal.rollouts.evaluate import evaluate, record_episode


def setup(name="CartPole-v1", **fields):
    env = make(name, **fields)
    agent = PPO(hidden=(8,)).bind(env)
    return agent, jax.jit(agent.init)(make_key(3), env), env


def test_a_recorded_episode_adds_up():
    agent, state, env = setup()
    episode = jax.jit(lambda k: record_episode(agent, state, env, k, horizon=200, greedy=False))(make_key(0))
    length = int(episode.valid.sum())
    assert 5 < length < 200 and episode.terminated[length - 1] and not episode.terminated[length:].any()
    assert episode.cumulative_reward[-1] == length == episode.state.time[-1]
    assert (np.asarray(episode.valid) == (np.arange(200) < length)).all()
    state_t, step = jax.tree.map(lambda x: x[0], episode.state), jax.jit(env.step)
    obs_t = env.observe(state_t)
    for t in range(length):
        np.testing.assert_allclose(episode.obs[t], obs_t, atol=1e-5)
        obs_t, state_t, *_ = step(make_key(0), state_t, episode.action[t])


def test_every_environment_plays_one_episode():
    agent, state, env = setup()
    result = jax.jit(lambda k: evaluate(agent, state, env, k, episodes=32, horizon=500))(make_key(0))
    assert result.finished.all()
    np.testing.assert_array_equal(result.episode_return, result.episode_length)
    assert len(set(result.episode_length.tolist())) > 3


def test_the_horizon_cuts_episodes_that_do_not_end():
    agent, state, env = setup("Probe-TimeLimit-v0", max_steps=None)
    result = jax.jit(lambda key: evaluate(agent, state, env, key, episodes=4, horizon=7))(make_key(0))
    assert not result.finished.any() and result.episode_length.tolist() == [7] * 4


def test_greedy_evaluation_takes_the_likeliest_action():
    agent, state, env = setup("Probe-MatchingAction-v0")
    obs = jnp.asarray([[1.0], [-1.0]])
    best = [int(agent.act(state, o, None, make_key(0), True)[0]) for o in obs]
    right = [best[0] == 1, best[1] == 0]
    result = jax.jit(lambda key: evaluate(agent, state, env, key, episodes=64, horizon=3))(make_key(0))
    expected = {1.0 if right[0] else -1.0, 1.0 if right[1] else -1.0}
    assert set(result.episode_return.tolist()) == expected


@struct
class Still(Actor):
    """Always takes action 0."""

    def act(self, state, obs, carry, key, greedy, mask=None):
        return jnp.int32(0), carry


def test_the_return_of_a_long_episode_is_exact():
    env = to_arrays(Drip(max_steps=300_000))
    result = jax.jit(lambda k: evaluate(Still(), None, env, k, episodes=1, horizon=10**6))(make_key(0))
    assert result.finished.all() and result.episode_length == 300_000
    np.testing.assert_allclose(result.episode_return, 300_000 * float(np.float32(0.1)), atol=0.002)
