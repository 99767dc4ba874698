"""RL^2, learning to learn: PPO with a memory, in worlds that differ from episode to episode and show what happened.

All that such an agent learns about a world is in its memory: the last action and reward have to be in the observation.
Bandits, PointRobot and MetaMaze show them; `Trials` adds them to any world and makes several of its episodes one. An
episode's end is the end of the world (`bootstrap=False`), because in the next one nothing learned is of use.
Source: Duan et al. 2016; Wang et al. 2016.
"""

from shoal.agents.ppo import PPO
from shoal.core.registry import agent

agent(
    "rl2",
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
