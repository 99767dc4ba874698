"""Worlds for learning to learn: bandits, mazes, rooms and a point, each with something that differs between tasks.

What differs (arms, a goal) is drawn at the start of an episode, or given as plain fields: then `Randomize` draws it for
every episode, `vmap` over environment values gives every member its own, and `Trials` plays several episodes of one.
"""
