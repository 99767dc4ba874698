"""Tabular Q-learning on an 8 x 12 grid as a loop in Python with NumPy, the baseline of Ryan Pegoud's article.

The grid, the hyperparameters and the corrected update are those of shoal's `GridWorld-v0` with `q-learning`.
"""

import argparse
import time

import measure
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--episodes", type=int, default=10_000)
args = parser.parse_args()

LAST, GOAL = np.array([7, 11]), np.array([0, 0])
MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])  # right, down, left, up
DISCOUNT, STEP_SIZE, EPSILON = 0.9, 0.1, 0.1

random, table, steps = np.random.default_rng(2), np.zeros((8, 12, 4)), 0
begin = time.perf_counter()
for _ in range(args.episodes):
    cell, is_done = LAST, False
    while not is_done:
        values = table[cell[0], cell[1]]
        if random.random() < EPSILON:
            action = random.integers(4)
        else:
            action = random.choice(np.flatnonzero(values == values.max()))
        arrived = np.clip(cell + MOVES[action], 0, LAST)
        is_done = bool((arrived == GOAL).all())
        target = float(is_done) + DISCOUNT * (not is_done) * table[arrived[0], arrived[1]].max()
        table[cell[0], cell[1], action] += STEP_SIZE * (target - values[action])
        cell, steps = arrived, steps + 1
measure.report(steps=steps, wall_s=time.perf_counter() - begin, values=table.max(-1).tolist())
