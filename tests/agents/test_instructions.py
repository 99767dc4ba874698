"""PPO learns to follow instructions: the right action depends on the order of words, or on what the mission names."""

import jax
import numpy as np
import pytest

from shoal.agents.ppo import PPO
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.nn.parts_net import PartsNet
from shoal.rollouts.evaluate import evaluate


def greedy_returns(agent, env, updates, horizon):
    """Returns of 64 greedy episodes of one trained member."""
    agent, env = to_arrays(agent.bind(env)), to_arrays(env)

    @jax.jit
    def trained(key):
        state = jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
        return evaluate(agent, agent.policy_state(state), env, make_key(1), episodes=64, horizon=horizon).episode_return

    return np.asarray(trained(make_key(0)))


SIZES = {"num_envs": 16, "num_steps": 16, "num_minibatches": 2, "learning_rate": 3e-3, "hidden": (16,)}


def test_ppo_learns_the_order_of_words():
    assert (greedy_returns(PPO(**SIZES), make("Probe-Instruction-v0"), updates=40, horizon=1) == 1).all()


def test_a_bag_of_words_cannot_follow_the_order_of_words():
    env = make("Probe-Instruction-v0")
    bag = PPO(**SIZES, network=PartsNet(env.observation_space, (16,), encoder="bow"))
    assert abs(greedy_returns(bag, env, updates=40, horizon=1).mean()) < 0.5  # 64 tosses: standard error 0.125


@pytest.mark.slow
@pytest.mark.parametrize("torso", ["auto", "film"])
def test_ppo_goes_to_the_door_that_the_mission_names(torso):
    fields = {"num_envs": 32, "num_steps": 128, "num_minibatches": 8, "learning_rate": 1e-3, "entropy_coef": 0.03}
    agent = PPO(**fields, torso=torso, hidden=(32, 64), shared=True, activation="relu")
    returns = greedy_returns(agent, make("MiniGrid-GoToDoor-5x5-v0"), updates=150, horizon=100)
    assert (returns > 0).mean() >= 0.9  # a door at random: 0.25
