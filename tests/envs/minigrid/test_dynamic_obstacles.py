"""Dynamic-Obstacles: the random moves of the balls, and collisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from maps import first_state, steps
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.minigrid.dynamic_obstacles import BLUE_BALL, DynamicObstacles, Obstacles
from shoal.grid.cells import GOAL
from shoal.grid.layout import empty_room
from shoal.grid.level import begin

DRAWS = 20_000


def room_with_balls(size, balls, x=1, y=1, direction=0):
    """A room with balls in these cells."""
    grid = empty_room(size, size)
    grid[-2, -2] = GOAL
    for ball in balls:
        grid[ball] = BLUE_BALL
    ball_x, ball_y = (jnp.asarray(np.array(each, np.int32)) for each in zip(*balls, strict=True))
    return Obstacles(**begin(grid, x, y, direction), ball_x=ball_x, ball_y=ball_y)


@jax.jit
def move_many(env, state, keys):
    return jax.vmap(lambda key: env.move_objects(state, env.noise(key)))(keys)


def moved(env, state, n=DRAWS):
    """Where the balls are after one move, many times: [n, ball, (x, y)]."""
    after = move_many(env, state, jax.random.split(make_key(0), n))
    balls = np.stack([after.ball_x, after.ball_y], axis=-1)
    is_ball = np.asarray(after.grid) == BLUE_BALL
    assert (is_ball.sum((1, 2)) == balls.shape[1]).all()
    assert is_ball[np.arange(n)[:, None], balls[..., 0], balls[..., 1]].all()
    return balls


def counts(balls):
    cells, number = np.unique(balls, axis=0, return_counts=True)
    return {tuple(cell): int(n) for cell, n in zip(cells.tolist(), number, strict=True)}


def test_a_ball_moves_uniformly_to_free_neighboring_cells():
    env = DynamicObstacles(size=8, num_obstacles=1)
    seen = counts(moved(env, room_with_balls(8, [(4, 4)]))[:, 0])
    assert set(seen) == {(x, y) for x in (3, 4, 5) for y in (3, 4, 5)} - {(4, 4)}
    assert chisquare(list(seen.values())).pvalue > 1e-3


def test_a_ball_never_enters_walls_agent_or_goal():
    env = DynamicObstacles(size=5, num_obstacles=1)
    seen = counts(moved(env, room_with_balls(5, [(2, 2)], x=1, y=1))[:, 0])
    assert set(seen) == {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)} - {(2, 2), (1, 1), (3, 3)}
    assert chisquare(list(seen.values())).pvalue > 1e-3
    assert set(counts(moved(env, room_with_balls(5, [(1, 3)], x=1, y=1))[:, 0])) == {(1, 2), (2, 2), (2, 3)}


def test_balls_move_in_turn_and_never_share_a_cell():
    # The smallest room: agent, goal and two balls fill it, so both stay.
    env = DynamicObstacles(size=4, num_obstacles=2)
    both = moved(env, room_with_balls(4, [(1, 2), (2, 1)], x=1, y=1), 200)
    assert counts(both[:, 0]) == {(1, 2): 200} and counts(both[:, 1]) == {(2, 1): 200}
    # The second may follow into the cell that the first left, but not the other way around.
    env = DynamicObstacles(size=5, num_obstacles=2)
    pairs = moved(env, room_with_balls(5, [(1, 2), (1, 3)], x=1, y=1))
    assert (pairs[:, 0] != pairs[:, 1]).any(1).all()
    assert (1, 2) in counts(pairs[:, 1]) and (1, 3) not in counts(pairs[:, 0])


@pytest.mark.parametrize("x, y, direction", [(1, 1, 3), (1, 1, 2), (3, 4, 0)])
def test_walking_towards_a_wall_or_a_ball_costs_one_and_ends_the_episode(x, y, direction):
    env = DynamicObstacles(size=8, num_obstacles=1)
    for seed in range(20):
        played = steps(env, room_with_balls(8, [(4, 4)], x, y, direction), "forward", seed=seed)
        assert played.reward == [-1.0] and played.terminated == [True]


def test_turning_towards_a_ball_does_no_harm():
    env = DynamicObstacles(size=8, num_obstacles=1)
    played = steps(env, room_with_balls(8, [(4, 4)], 3, 4, 0), "left", "right")
    assert not any(played.reward) and not any(played.terminated)


def test_entering_a_cell_that_a_ball_just_left_is_penalized():
    # The one ball has to leave (4, 4), so the agent in front of it always gets there.
    env = DynamicObstacles(size=8, num_obstacles=1)
    played = steps(env, room_with_balls(8, [(4, 4)], 3, 4, 0), "forward")
    assert (int(played.state.x), int(played.state.y)) == (4, 4) and played.terminated == [True]


def test_a_ball_that_moves_in_front_of_the_agent_blocks_it_without_penalty():
    env = DynamicObstacles(size=8, num_obstacles=1)
    start = room_with_balls(8, [(5, 4)], 3, 4, 0)
    outcomes = {}
    for seed in range(40):
        played = steps(env, start, "forward", seed=seed)
        came = (int(played.state.ball_x[0]), int(played.state.ball_y[0])) == (4, 4)
        outcomes[came] = (int(played.state.x), played.reward, played.terminated)
    assert outcomes == {True: (3, [0.0], [False]), False: (4, [0.0], [False])}


def test_the_goal_is_reached_as_in_any_level():
    env = DynamicObstacles(size=5, num_obstacles=1)
    played = steps(env, room_with_balls(5, [(2, 2)], 3, 2, 1).replace(time=jnp.int32(9)), "forward")
    assert played.terminated == [True] and played.reward[0] == pytest.approx(1 - 0.9 * 10 / 100, abs=1e-6)


def test_actions_above_2_turn_left_in_compiled_code_and_are_errors_outside():
    env = make("MiniGrid-Dynamic-Obstacles-5x5-v0")
    assert env.action_space.n == 3
    for action in ("pickup", "drop", "toggle", "done"):
        assert int(steps(env, first_state(env), action).state.direction) == 3
    step = jax.jit(env.step)
    for action in (7, -1):
        assert int(step(make_key(0), first_state(env), jnp.int32(action))[1].direction) == 3
    for action in (3, -1):
        with pytest.raises(ValueError, match="out of bounds"):
            env.step(make_key(0), first_state(env), jnp.int32(action))


@pytest.mark.parametrize("size, asked, there_are", [(5, 2, 2), (5, 3, 3), (5, 4, 2), (6, 4, 4), (6, 5, 3), (16, 8, 8)])
def test_too_many_balls_are_half_as_many_as_the_room_is_wide(size, asked, there_are):
    assert first_state(DynamicObstacles(size=size, num_obstacles=asked)).ball_x.shape == (there_are,)


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"size": 3}, "size=3 leaves no room"),
        ({"num_obstacles": 0}, "at least 1"),
        ({"agent_start_pos": (6, 6)}, r"agent_start_pos=\(6, 6\) is not an empty cell"),
        ({"size": 4, "num_obstacles": 3}, "num_obstacles=3 with size=4: only 2 cells are left"),
    ],
)
def test_impossible_rooms_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        DynamicObstacles(**fields)
