"""Environments for meta-learning: bandits, mazes, rooms and a point robot, each a distribution of tasks.

What differs between tasks (the arms or a goal) is sampled at the start of each episode, or set as fields. With fields,
`Randomize` samples them for every episode, `vmap` over environments gives every member a task of its own, and `Trials`
plays several episodes of one task.
"""
