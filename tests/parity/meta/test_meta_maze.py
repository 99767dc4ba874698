"""MetaMaze against a NumPy maze written from the description of Miconi, Clune and Stanley (2018)."""

import numpy as np
import pytest

from parity.replay import first_states, noise_of, play
from shoal.envs.meta.meta_maze import MetaMaze

pytestmark = pytest.mark.sampled

CLOCKWISE = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


class Maze:
    """The reference: one agent in one maze, whose outer wall is as thick as the agent can see."""

    def __init__(self, size, view, goal, goal_reward, wall_penalty, limit):
        self.margin, self.limit, self.goal = view // 2, limit, tuple(goal)
        self.goal_reward, self.wall_penalty = goal_reward, wall_penalty
        lab = np.ones((size + 2, size + 2), int)
        lab[1:-1, 1:-1] = 0
        lab[2:-1:2, 2:-1:2] = 1
        middle = (size + 2) // 2
        was_pillar = lab[middle, middle]
        lab[middle, middle] = 0
        self.is_wall = lab == 1
        self.seen = np.pad(lab, self.margin, constant_values=1)
        free = [tuple(cell) for cell in np.argwhere(lab == 0).tolist()]
        if was_pillar:  # the numbering of our noise
            free.remove((middle, middle))
            free.append((middle, middle))
        self.others = [cell for cell in free if cell != self.goal]
        self.position, self.time, self.action, self.reward = (middle, middle), 0, 0, 0.0

    def step(self, action, noise):
        target = tuple(np.add(self.position, CLOCKWISE[action]).tolist())
        reward = 0.0
        if self.is_wall[target]:
            reward -= self.wall_penalty
        else:
            self.position = target
        if self.position == self.goal:
            reward += self.goal_reward
            self.position = self.others[noise]
        self.time, self.action, self.reward = self.time + 1, action, reward
        return reward

    def observation(self):
        row, column = self.position
        view = self.seen[row : row + 2 * self.margin + 1, column : column + 2 * self.margin + 1]
        return np.array(
            [*view.ravel(), self.time / self.limit, self.reward, *(np.arange(4) == self.action)], np.float32
        )


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({}, 1000),
        ({"maze_size": 7, "view_size": 5}, 1000),
        ({"maze_size": 3, "wall_penalty": 0.25, "goal_reward": 1.5}, 500),
        ({"maze_size": 5, "view_size": 7, "max_steps": 70}, 300),
        ({"maze_size": 11, "goal_row": 1, "goal_column": 6}, 500),
    ],
)
def test_long_walks_equal_the_reference(fields, steps):
    env = MetaMaze(**fields)
    num = 8
    states, noise = first_states(env, num), noise_of(env, steps, num)
    actions = np.random.default_rng(0).integers(0, 4, (steps, num)).astype(np.int32)
    ours = play(env, states, actions, noise)
    assert not ours.terminated.any() and (ours.reward == env.goal_reward).sum() > 3
    np.testing.assert_array_equal(ours.truncated, np.arange(1, steps + 1)[:, None].repeat(num, 1) >= env.max_steps)
    for e in range(num):
        goal = (int(states.goal_row[e]), int(states.goal_column[e]))
        maze = Maze(env.maze_size, env.view_size, goal, env.goal_reward, env.wall_penalty, env.max_steps)
        assert len(maze.others) == env.num_cells - 1
        for t in range(steps):
            reward = maze.step(int(actions[t, e]), int(noise[t, e]))
            assert ours.reward[t, e] == np.float32(reward)
            if maze.time <= env.max_steps:
                np.testing.assert_allclose(
                    ours.obs[t, e], maze.observation(), rtol=1e-6
                )  # the share of time is rounded
            assert (ours.state.row[t, e], ours.state.column[t, e]) == maze.position
