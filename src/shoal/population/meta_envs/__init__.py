"""Environments that contain a learner (meta_envs): the games of Model-Free Opponent Shaping, and `LearnerEnv`.

A step of such an environment is an update of the learner in it, or a move in a game against it. An agent that trains in
one learns how to influence another learner.
"""
