"""Pegoud's and Yousif's environments in NumPy, written from their articles: a step rewrites a grid of numbers."""

import numpy as np

MOVES = {"stay": (0, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}
DOORS_MOVES = [MOVES[name] for name in ("stay", "right", "down", "left", "up")]


class GridWorld:
    """Right, down, left, up; clipped at the borders; 1 on the goal."""

    def __init__(self, rows=8, columns=12, start=(7, 11), goal=(0, 0)):
        self.last = np.array([rows - 1, columns - 1])
        self.cell, self.goal = np.array(start), np.array(goal)

    def step(self, action):
        move = [(0, 1), (1, 0), (0, -1), (-1, 0)][action]
        self.cell = np.clip(self.cell + move, 0, self.last)
        done = bool((self.cell == self.goal).all())
        return self.cell, int(done), done


class Doors:
    """Variant B: 0 free, 1 agent, 2 wall, 3 goal. A move is made when the cell is 0 or 3."""

    def __init__(self, agent, goal, rows=15, columns=15, gaps=(0, 5, 10)):
        self.agent, self.goal = np.array(agent), np.array(goal)
        self.grid = np.zeros((rows, columns), int)
        self.grid[rows // 2] = 2
        self.grid[rows // 2, list(gaps)] = 0
        self.grid[tuple(goal)] = 3
        self.grid[tuple(agent)] = 1

    def step(self, action):
        before = np.linalg.norm(self.goal - self.agent)
        target = np.clip(self.agent + DOORS_MOVES[action], 0, np.array(self.grid.shape) - 1)
        found = self.grid[tuple(target)]
        if found in (0, 3):
            self.grid[tuple(self.agent)], self.grid[tuple(target)] = 0, 1
            self.agent = target
        return before - np.linalg.norm(self.goal - self.agent), found == 3


class DoorsImitation:
    """Variant A: -1 wall, 0 free, 1 agent, 2 the cell started from, which stays and blocks. A move needs a 0."""

    def __init__(self, column, rows=15, columns=15, doors=3):
        self.grid = np.zeros((rows, columns))
        self.grid[rows // 2] = -1
        self.gaps = [columns // doors * (door + 1) - 1 for door in range(doors)]
        self.grid[rows // 2, self.gaps] = 0
        self.walls = set(map(tuple, np.argwhere(self.grid == -1).tolist()))
        self.agent, self.goal = np.array([rows - 1, column]), np.array([0, columns - 1 - column])
        self.grid[rows - 1, column] = 2
        self.time = 0

    def step(self, action):
        before = np.linalg.norm(self.goal - self.agent)
        if self.time > 0:
            self.grid[tuple(self.agent)] = 0
        target = np.clip(self.agent + DOORS_MOVES[action], 0, np.array(self.grid.shape) - 1)
        if self.grid[tuple(target)] == 0:
            self.agent = target
        self.grid[tuple(self.agent)] = 1
        self.time += 1
        return before - np.linalg.norm(self.goal - self.agent)

    def expert(self):
        """To the nearest gap while below the wall, then to the goal: the move nearest to the straight line there."""
        if (self.agent == self.goal).all():
            return 0
        aim, middle = self.goal, len(self.grid) // 2
        if self.agent[0] > middle:
            gaps = np.array([(middle, gap) for gap in self.gaps])
            aim = gaps[np.linalg.norm(gaps - self.agent, axis=1).argmin()]
        line = (aim - self.agent) / np.linalg.norm(aim - self.agent)
        order = 1 + np.argsort(np.linalg.norm(np.array(DOORS_MOVES[1:]) - line, axis=1), kind="stable")
        return next(int(a) for a in order if tuple((self.agent + DOORS_MOVES[a]).tolist()) not in self.walls)
