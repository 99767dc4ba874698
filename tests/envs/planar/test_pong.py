"""PixelPong: walls, scores, serves, opponents, errors. Each past bug of gymnax has a test."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.envs.planar.pong import PixelPong
from shoal.rollouts.rollout import Rollout

KEYS = jax.random.split(make_key(0), 4000)
STAY, UP, DOWN = 0, 1, 2


def game(env, ball, velocity, paddles=(15.0, 15.0)):
    numbers = {"ball": ball, "velocity": velocity, "paddles": paddles}
    return init(env, KEYS[0]).replace(**{name: jnp.asarray(x, jnp.float32) for name, x in numbers.items()})


def step(env, state, action=STAY, chance=0.99, height=0.75, right=True):
    return advance(
        to_arrays(env), state, jnp.int32(action), (jnp.float32(chance), jnp.float32(height), jnp.bool_(right))
    )


def test_both_walls_reflect():
    env = PixelPong()  # in gymnax the ball leaves through the upper one for ever
    state, *_ = step(env, game(env, (1.0, 20.0), (-2.5, 1.0)))
    assert state.ball.tolist() == [1.5, 21.0] and state.velocity.tolist() == [2.5, 1.0]
    state, *_ = step(env, game(env, (28.0, 20.0), (2.5, 1.0)))
    assert state.ball.tolist() == [27.5, 21.0] and state.velocity.tolist() == [-2.5, 1.0]


def test_paddles_reflect_and_give_the_ball_a_spin_that_is_not_rounded():
    env = PixelPong()
    state, reward, terminated, *_ = step(env, game(env, (14.0, 2.0), (0.0, -1.0), paddles=(15.0, 15.0)))
    assert state.ball.tolist() == [14.0, 1.0] and state.velocity.tolist() == [-0.5, 1.0]  # gymnax rounds to 0
    state, *_ = step(env, game(env, (17.75, 38.0), (3.0, 1.0), paddles=(15.0, 20.0)))
    assert state.ball.tolist() == [20.75, 37.0] and state.velocity.tolist() == [3.0, -1.0]  # 3 is the most
    assert float(reward) == 0 and not terminated


def test_a_miss_is_a_point_for_the_other_side():
    env = PixelPong()
    _, reward, terminated, *_ = step(env, game(env, (5.0, 0.0), (0.0, -1.0), paddles=(20.0, 15.0)))
    assert float(reward) == -1 and terminated and reward.dtype == np.float32
    state, reward, terminated, *_ = step(env, game(env, (5.0, 39.0), (0.0, 1.0), paddles=(20.0, 15.0)))
    assert float(reward) == 1 and terminated and state.score.tolist() == [1, 0]


def test_a_longer_game_continues_with_a_serve_until_one_side_has_its_points():
    env = PixelPong(points=2)
    start = game(env, (5.0, 39.0), (0.0, 1.0), paddles=(20.0, 12.0))
    state, reward, terminated, *_ = step(env, start, height=0.75, right=False)
    assert float(reward) == 1 and not terminated and state.score.tolist() == [1, 0]
    assert state.ball.tolist() == state.ball_before.tolist() == [15.0, 20.0] and state.velocity.tolist() == [0.5, -1.0]
    assert state.paddles.tolist() == [20.0, 12.0]
    _, _, terminated, *_ = step(env, start.replace(score=jnp.array([1, 1], jnp.int32)))
    assert terminated


def test_serves_have_random_direction_and_height():
    env = PixelPong(serve_y_speed=2.0)  # gymnax's are all the same
    states = jax.jit(jax.vmap(env.init))(KEYS)
    assert stats.kstest(states.velocity[:, 0], stats.uniform(-2, 4).cdf).pvalue > 1e-3
    assert abs(float((states.velocity[:, 1] == 1).mean()) - 0.5) < 0.032 and set(states.velocity[:, 1].tolist()) == {
        1,
        -1,
    }
    chance, height, side = jax.jit(jax.vmap(env.noise))(KEYS)
    assert all(stats.kstest(part, "uniform").pvalue > 1e-3 for part in (chance, height))
    assert abs(float(side.mean()) - 0.5) < 0.032
    assert np.abs(np.corrcoef([chance, height, side]) - np.eye(3)).max() < 0.06


def share_won(env, policy):
    """Games that the agent wins, of those that are won."""
    plan = Rollout.for_env(env, num_envs=24, num_steps=600)
    won, lost = map(int, points_of(plan, to_arrays(env), policy))
    assert won + lost > 20
    return won / (won + lost)


@functools.partial(jax.jit, static_argnames="policy")
def points_of(plan, env, policy):
    def act(obs, mask, noise, carry):
        return policy(obs), None, carry

    seen = plan.collect(env, plan.init(env, make_key(0)), act, None, make_key(1))[1]
    return jnp.sum(seen.reward == 1), jnp.sum(seen.reward == -1)


def stay(obs):
    return jnp.zeros(len(obs), jnp.int32)


def chase(obs):
    """Go where the ball is, from the pixels."""
    rows = jnp.arange(30, dtype=jnp.int32)
    ball = jnp.sum(jnp.where(obs[..., 1].any(2), rows, 0), 1)
    paddle = jnp.sum(jnp.where(obs[:, :, 0, 0], rows, 0), 1) // 5
    return jnp.where(ball < paddle - 1, UP, jnp.where(ball > paddle + 1, DOWN, STAY)).astype(jnp.int32)


def test_doing_nothing_loses_and_following_the_ball_wins():
    assert share_won(PixelPong(), stay) < 0.2  # in gymnax it earns the most that there is
    assert share_won(PixelPong(), chase) > 0.45


def test_a_skilled_opponent_loses_less():
    shares = [share_won(PixelPong(opponent_skill=skill), chase) for skill in (0.0, 0.5, 0.9)]
    assert shares[0] > 0.95 and shares[0] > shares[1] > shares[2]


def test_an_opponent_moves_with_the_probability_of_its_skill():
    env = PixelPong(opponent_skill=0.25)
    start = game(env, (5.0, 20.0), (0.0, 1.0))
    rows = [float(step(env, start, chance=chance)[0].paddles[1]) for chance in (0.0, 0.24, 0.26)]
    assert rows == [13.0, 13.0, 15.0]
    near = game(env, (16.0, 20.0), (0.0, 1.0))
    assert float(step(env, near, chance=0.0)[0].paddles[1]) == 15.0  # it does not tremble


def test_paddles_move_by_two_rows_and_stay_inside_the_field():
    env = PixelPong()
    state = game(env, (15.0, 20.0), (0.0, 1.0))
    assert [float(step(env, state, a)[0].paddles[0]) for a in (STAY, UP, DOWN)] == [15.0, 13.0, 17.0]
    for action, end in ((UP, 2.0), (DOWN, 27.0)):
        state = game(env, (15.0, 20.0), (0.0, 1.0), paddles=(end, 15.0))
        assert float(step(env, state, action)[0].paddles[0]) == end


def test_the_observation_shows_paddles_the_ball_and_its_last_position():
    env = make("Pong-misc")
    state, *_ = step(env, game(env, (10.0, 20.0), (0.75, 1.0), paddles=(2.0, 27.0)).replace(ball_before=jnp.zeros(2)))
    layers = np.asarray(observe(env, state))
    assert layers.shape == (30, 40, 3) and env.observation_space.contains(observe(env, state))
    assert np.argwhere(layers[..., 0]).tolist() == [[r, 0] for r in range(5)] + [[r, 39] for r in range(25, 30)]
    assert np.argwhere(layers[..., 1]).tolist() == [[10, 21]] and np.argwhere(layers[..., 2]).tolist() == [[10, 20]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"paddle_half_height": 0}, "is not possible"),
        ({"height": 5}, "is not possible"),
        ({"width": 4}, "is not possible"),
        ({"opponent_skill": 1.5}, "opponent_skill=1.5 is out of range"),
        ({"ball_x_speed": 0.0}, "ball_x_speed=0.0 is out of range"),
        ({"ball_max_y_speed": 20.0}, "ball_max_y_speed=20.0 is out of range"),
        ({"paddle_speed": -1.0}, "paddle_speed=-1.0 is out of range"),
        ({"points": 0}, "points=0 is out of range"),
        ({"points": 1.5}, "points=1.5 is out of range: give a whole number"),
        ({"width": 11_000}, "at most 1,000 pixels in width and height"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        PixelPong(**fields)


def test_the_picture_shows_ball_and_paddles():
    env = PixelPong()
    picture = env.render(game(env, (10.0, 20.0), (0.0, 1.0), paddles=(5.0, 25.0))).astype(int)
    assert picture.shape == (360, 480, 3)
    at = lambda row, column: picture[row * 12 + 6, column * 12 + 6].tolist()  # noqa: E731
    assert at(10, 20) == [255, 255, 255] and at(5, 0)[2] > at(5, 0)[0] and at(25, 39)[0] > at(25, 39)[2]
    assert at(25, 0) == at(5, 39) == at(29, 10)
