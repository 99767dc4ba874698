"""Advantage actor-critic: PPO with one gradient step per update, on all samples, and without clipping.

In the first gradient step the probability ratio is 1, so that the gradient is the policy gradient. Source: Mnih et al.
2016, in its synchronous form; Huang et al. 2022, "A2C is a special case of PPO". The hyperparameters are those of
Stable-Baselines3. Its `vf_coef` of 0.5 multiplies the mean squared error; here the value loss is half of the mean
squared error, so that the same weight is `value_coef=1`. `num_envs` is RL Zoo's.
"""

from shoal.agents.ppo import PPO
from shoal.core.registry import agent

agent(
    "a2c",
    about="Advantage actor-critic: PPO with one gradient step per update, on all samples, without clipping.",
    learning_rate=7e-4,
    anneal=0.0,
    gae_lambda=1.0,
    entropy_coef=0.0,
    value_coef=1.0,
    num_envs=8,
    num_steps=5,
    num_epochs=1,
    num_minibatches=1,
    optimizer="rmsprop",
    surrogate="unclipped",
    value_loss="squared",
    normalize_advantage=False,
)(PPO)
