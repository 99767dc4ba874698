"""Doors as a plain Gymnasium environment in NumPy, as the article has it: the peer of shoal's `Doors-v0`.

Source: `DoorsGym` of Yasin Yousif's article "Speeding up Training of Model-Free RL" (2025). The columns of
agent and goal are drawn from the generator of the environment, where the article seeds NumPy anew at every reset.
"""

import gymnasium
import numpy as np

FREE, AGENT, WALL, GOAL = range(4)
MOVES = np.array([(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)])  # stay, right, down, left, up


class Doors(gymnasium.Env):
    """Walk from the last row through a gap in the wall to the goal in the first row; the reward is the way gained."""

    def __init__(self, rows=15, columns=15, doors=3):
        self.last = np.array([rows - 1, columns - 1])
        self.empty = np.zeros((rows, columns), np.int64)
        self.empty[rows // 2] = WALL
        self.empty[rows // 2, [door * (columns // doors) for door in range(doors)]] = FREE
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self.observation_space = gymnasium.spaces.MultiDiscrete([4] * (rows * columns))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        agent, goal = self.np_random.integers(self.last[1] + 1, size=2)
        self.agent, self.goal = np.array([self.last[0], agent]), np.array([0, goal])
        self.grid = self.empty.copy()
        self.grid[tuple(self.goal)], self.grid[tuple(self.agent)] = GOAL, AGENT
        return self.grid.ravel().copy(), {}

    def step(self, action):
        before, terminated = np.linalg.norm(self.goal - self.agent), False
        cell = np.clip(self.agent + MOVES[action], 0, self.last)
        found = self.grid[tuple(cell)]
        if found in (FREE, GOAL):
            self.grid[tuple(self.agent)], self.grid[tuple(cell)] = FREE, AGENT
            self.agent, terminated = cell, bool(found == GOAL)
        reward = before - np.linalg.norm(self.goal - self.agent)
        return self.grid.ravel().copy(), float(reward), terminated, False, {}


gymnasium.register("Doors-v0", Doors, max_episode_steps=25)
