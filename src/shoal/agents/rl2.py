"""RL^2, meta-learning with a recurrent policy: PPO with a GRU, in environments whose task differs between episodes.

Within an episode, all that the agent learns about its task is in the recurrent carry, so the last action and reward
must be part of the observation. Bandits, PointRobot and MetaMaze include them; the wrapper `Trials` adds them to any
environment and joins several of its episodes into one. Truncation counts as termination (`bootstrap=False`), because
the next episode has another task and what the agent has learned about this one is of no use there.
Source: Duan et al. 2016; Wang et al. 2016.
"""

from shoal.agents.ppo import PPO
from shoal.core.registry import agent

agent(
    "rl2",
    about="RL^2: recurrent PPO for tasks that differ from episode to episode, which it learns about within one.",
    learning_rate=2e-3,
    entropy_coef=0.003,
    num_envs=128,
    num_steps=100,
    num_minibatches=8,
    hidden=(64,),
    memory="gru",
    memory_size=64,
    shared=True,
    bootstrap=False,
    value_loss="squared",
)(PPO)
