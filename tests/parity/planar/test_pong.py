"""PixelPong against a NumPy game: ball and paddles of batch_pong_poc, with shoal's serve, score and opponent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.replay import first_states, noise_of, play
from shoal.envs.planar.pong import PixelPong

pytestmark = pytest.mark.sampled


class Game:
    """The reference, in float64."""

    def __init__(self, env, state):
        self.env = env
        self.paddles, self.ball, self.velocity = (
            np.asarray(x, np.float64).copy() for x in (state.paddles, state.ball, state.velocity)
        )
        self.before, self.score = self.ball.copy(), np.zeros(2, int)

    def step(self, action, chance, height, to_the_right):
        env, half = self.env, self.env.paddle_half_height
        # Our opponent goes for the ball, unless it is as near as half of what it can move.
        away = self.ball[0] - self.paddles[1]
        chases = chance < env.opponent_skill and abs(away) > env.paddle_speed / 2
        directions = np.array([{0: 0, 1: -1, 2: 1}[action], np.sign(away) if chases else 0])
        self.paddles = np.clip(self.paddles + env.paddle_speed * directions, half, env.height - 1 - half)
        self.before = self.ball.copy()
        self.ball = self.ball + self.velocity
        if self.ball[0] < 0:
            self.ball[0] *= -1
            self.velocity[0] *= -1
        elif self.ball[0] >= env.height:
            self.ball[0] = 2 * (env.height - 1) - self.ball[0]
            self.velocity[0] *= -1
        off = self.ball[0] - self.paddles
        last = env.width - 2
        for side, mirror in enumerate((2 - self.ball[1], 2 * last - self.ball[1])):
            reaches = (mirror >= 1 and abs(off[0]) <= half, mirror < last and abs(off[1]) < half + 1)[side]
            if reaches:
                self.ball[1] = mirror
                self.velocity[1] *= -1
                spun = self.velocity[0] + off[side] / half
                self.velocity[0] = np.clip(spun, -env.ball_max_y_speed, env.ball_max_y_speed)
                break
        scorer = 1 if self.ball[1] < 0 else 0 if self.ball[1] >= env.width else None
        if scorer is None:
            return 0.0, False
        self.score[scorer] += 1
        if self.score.max() < env.points:
            self.ball = self.before = np.array([env.height / 2, env.width / 2])
            side = env.ball_x_speed if to_the_right else -env.ball_x_speed
            self.velocity = np.array([(2 * height - 1) * env.serve_y_speed, side])
        return (1.0, -1.0)[scorer], bool(self.score.max() >= env.points)

    def picture(self):
        env = self.env
        layers = np.zeros((env.height, env.width, 3), bool)
        for paddle, column in zip(np.floor(self.paddles).astype(int), (0, -1), strict=True):
            layers[paddle - env.paddle_half_height : paddle + env.paddle_half_height + 1, column, 0] = True
        for layer, place in ((1, self.ball), (2, self.before)):
            row, column = np.clip(np.floor(place).astype(int), 0, [env.height - 1, env.width - 1])
            layers[row, column, layer] = True
        return layers


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"opponent_skill": 1.0, "paddle_speed": 1.0, "serve_y_speed": 3.0},
        {"width": 13, "height": 9, "paddle_half_height": 1, "ball_x_speed": 1.5, "ball_max_y_speed": 2.0},
        {"width": 50, "height": 12, "ball_x_speed": 2.0, "opponent_skill": 0.25, "paddle_half_height": 4},
    ],
)
def test_a_long_match_equals_the_reference(fields):
    env = PixelPong(points=10_000, max_steps=None, **fields)
    steps, num = 1250, 4
    states, noise = first_states(env, num), noise_of(env, steps, num)
    # Serves in 64ths, so that every number of the game is exact in float32 and no hit can be a matter of rounding.
    chance, height, side = (np.asarray(part) for part in noise)
    height = (np.round(height * 64) / 64).astype(np.float32)
    states = jax.vmap(lambda state: state.replace(velocity=jnp.round(state.velocity * 32) / 32))(states)
    follow = np.random.default_rng(0)
    actions = follow.integers(0, 3, (steps, num)).astype(np.int32)
    if "width" not in fields:  # a better player, so that there are rallies: see below
        actions = good_actions(env, states, (chance, height, side), steps)
    ours = play(env, states, actions, (jnp.asarray(chance), jnp.asarray(height), jnp.asarray(side)))
    assert (ours.reward == 1).sum() > 1 and (ours.reward == -1).sum() > 1
    for e in range(num):
        game = Game(env, of_game(states, e))
        for t in range(steps):
            reward, _ = game.step(int(actions[t, e]), chance[t, e], height[t, e], side[t, e])
            assert ours.reward[t, e] == reward
            np.testing.assert_array_equal(ours.state.paddles[t, e], game.paddles)
            np.testing.assert_array_equal(ours.state.ball[t, e], game.ball)
            np.testing.assert_array_equal(ours.state.velocity[t, e], game.velocity)
            np.testing.assert_array_equal(ours.state.score[t, e], game.score)
            np.testing.assert_array_equal(ours.obs[t, e], game.picture())


def of_game(states, e):
    return jax.tree.map(lambda x: np.asarray(x[e]), states)


def good_actions(env, states, noise, steps):
    """Actions of a player that follows the ball in seven of eight steps, computed by playing the reference."""
    num, lazy = noise[0].shape[1], np.random.default_rng(1)
    actions = np.zeros((steps, num), np.int32)
    for e in range(num):
        game = Game(env, of_game(states, e))
        for t in range(steps):
            away = game.ball[0] - game.paddles[0]
            if abs(away) > env.paddle_speed / 2 and lazy.random() < 0.875:
                actions[t, e] = 2 if away > 0 else 1
            game.step(int(actions[t, e]), *(part[t, e] for part in noise))
    return actions
