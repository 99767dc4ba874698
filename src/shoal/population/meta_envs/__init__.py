"""Environments that contain a learner: the games of Model-Free Opponent Shaping, and `LearnerEnv`.

In a step of such an environment, the learner in it takes an update, or the agent and the learner take a move in a game.
An agent that trains in such an environment learns how to influence another learner.
"""
