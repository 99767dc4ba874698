"""PixelPong: Pong in pixels against an opponent of adjustable skill.

Source: github.com/BlackHC/batch_pong_poc, `vanilla_pong.py`, for the motion of ball and paddles. Serve, score and
opponent are shoal's.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.canvas import WHITE, Canvas, box
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range

FIELD, LINES, TRAIL = (24, 28, 34), (70, 76, 86), (110, 110, 110)
MAX_SIDE = 1_000  # pixels, width and height
AGENT_COLOR, OPPONENT_COLOR = (96, 160, 255), (236, 132, 96)


@struct
class PixelPongState(State):
    """Paddles, ball and score. Positions are in rows and columns of pixels, as real numbers."""

    paddles: Float[Array, "2"]  # row of each paddle's middle: agent (left), opponent (right)
    ball: Float[Array, "2"]  # row, column
    velocity: Float[Array, "2"]  # rows and columns a step
    ball_before: Float[Array, "2"]  # position of the ball one step before; after a serve, its position
    score: Int[Array, "2"]  # points of agent and opponent


@env("PixelPong-v0", aliases=("Pong-misc",))
@struct
class PixelPong(Env):
    """Play Pong as the left paddle, on `height` x `width` pixels (30 x 40).

    Action: Discrete(3); 0 stay, 1 up, 2 down, by `paddle_speed` rows (2). Paddles stay within the field.

    Observation: Box(`height`, `width`, 3), bool; the channels are paddles, ball, and the ball one step before.

    Ball: it moves `ball_x_speed` columns (1) per step. The upper and lower walls reflect it. A paddle reflects it and
    adds the distance from the paddle's middle (in units of half a paddle) to its vertical speed, which is then clipped
    to `ball_max_y_speed` rows (3) per step.
    Opponent: at every step it moves towards the ball's row with probability `opponent_skill` (0.75), else it stays.
    Reward: 1 when the opponent misses the ball, -1 when the agent does.
    Start: the ball is served from the middle to a random side, with a vertical speed uniform in +-`serve_y_speed` (1).
    End: terminated when either side has `points` points (1; before that, the ball is served again); truncated after
    `max_steps` (1,000).

    Differences from batch_pong_poc: there the agent moves both paddles, the reward is 1 for every step without a miss,
    the serve is always horizontal and to the right, and paddles may leave the field by twice their half height. As
    there, the right paddle reaches nearly half a pixel farther than the left one.
    """

    reset_every: ClassVar[int] = 30

    ball_x_speed: Number = 1.0
    ball_max_y_speed: Number = 3.0
    paddle_speed: Number = 2.0
    serve_y_speed: Number = 1.0
    opponent_skill: Number = 0.75
    points: Number = 1
    max_steps: Number | None = 1000
    width: int = static(40)
    height: int = static(30)
    paddle_half_height: int = static(2)

    def __post_init__(self) -> None:
        half = self.paddle_half_height
        if half < 1 or self.height < 2 * half + 2 or self.width < 6 or max(self.width, self.height) > MAX_SIDE:
            raise ValueError(
                f"a field of {self.width} x {self.height} pixels with paddles of 2 * {half} + 1 is not possible: it "
                "needs width 6 or more, paddle_half_height 1 or more, height 2 * paddle_half_height + 2 or more, and "
                f"at most {MAX_SIDE:,} pixels in width and height."
            )
        check_range(self, "opponent_skill", low=0, high=1)
        check_range(self, "ball_x_speed", low=1e-3, high=self.width / 2)
        fastest = (self.height - 1) / 2
        walls = f"give 0 to {fastest}, so that the ball meets at most one wall per step."
        check_range(self, "ball_max_y_speed", "serve_y_speed", low=0, high=fastest, advice=walls)
        check_range(self, "paddle_speed", low=0, high=self.height)
        check_range(self, "points", low=1, whole=True)

    @property
    def observation_space(self) -> Box:
        """An image with three channels."""
        return Box(0, 1, (self.height, self.width, 3), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """Stay, up, down."""
        return Discrete(3)

    def init(self, key: Key) -> PixelPongState:
        """The first state: paddles in the middle, and a serve."""
        k_height, k_side = jax.random.split(key)
        ball, velocity = self._serve(jax.random.uniform(k_height), jax.random.bernoulli(k_side))
        paddles = jnp.full(2, self.height / 2, ball.dtype)
        return PixelPongState(jnp.int32(0), paddles, ball, velocity, ball, jnp.zeros(2, jnp.int32))

    def noise(self, key: Key) -> tuple[Float[Array, ""], Float[Array, ""], Bool[Array, ""]]:
        """(A uniform number: whether the opponent moves; another: the speed of a serve; whether it is to the right)."""
        uniform, height, side = jax.random.uniform(key, (3,))
        return uniform, height, side < 0.5

    def transition(
        self,
        state: PixelPongState,
        action: Int[Array, ""],
        noise: tuple[Float[Array, ""], Float[Array, ""], Bool[Array, ""]],
    ) -> Transition[PixelPongState]:
        """Move paddles and ball, reflect the ball; then compute score, reward and termination, and serve again."""
        uniform, serve_height, to_the_right = noise
        paddles = self._move_paddles(state, action, uniform)
        ball, velocity = self._reflect_at_walls(state.ball + state.velocity, state.velocity)
        ball, velocity = self._reflect_at_paddles(ball, velocity, paddles)
        missed = jnp.stack([ball[1] >= self.width, ball[1] < 0])  # by the opponent, by the agent
        score = state.score + missed.astype(jnp.int32)
        reward = missed[0].astype(jnp.float32) - missed[1].astype(jnp.float32)
        is_over = jnp.any(score >= self.points)
        serves_again = jnp.any(missed) & ~is_over
        served, serve_velocity = self._serve(serve_height, to_the_right)
        state = state.replace(
            paddles=paddles,
            ball=jnp.where(serves_again, served, ball),
            velocity=jnp.where(serves_again, serve_velocity, velocity),
            ball_before=jnp.where(serves_again, served, state.ball),
            score=score,
        )
        return state, reward, is_over, {}

    def observe(self, state: PixelPongState) -> Bool[Array, "H W 3"]:
        """The channels: paddles, ball, and the ball one step before."""
        # Compare rows and columns in the smallest integer dtype: more of them fit into a vector register.
        small = np.int8 if max(self.height, 3 * self.width) <= 127 else np.int16
        row = np.arange(self.height, dtype=small)[:, None]
        entry = np.arange(3 * self.width, dtype=small)[None]  # the three channels of each column, side by side
        half, last = small(self.paddle_half_height), small(3 * (self.width - 1))
        agent, opponent = jnp.floor(state.paddles).astype(small)
        picture = (jnp.abs(row - agent) <= half) & (entry == 0)
        picture |= (jnp.abs(row - opponent) <= half) & (entry == last)
        for position, channel in ((state.ball, 1), (state.ball_before, 2)):
            at_row, at_column = self._pixel(position)
            picture |= (row == at_row.astype(small)) & (entry == (3 * at_column + channel).astype(small))
        return picture.reshape(self.height, self.width, 3)

    def render(self, state: PixelPongState) -> UInt8[np.ndarray, "_ _ 3"]:
        """The field, enlarged: the agent blue on the left, the opponent on the right, ball, trail and points."""
        canvas = Canvas(self.width * 12, self.height * 12, window=(0, self.height, self.width, 0), background=FIELD)
        middle, half = self.width / 2, self.paddle_half_height
        for row in range(0, self.height, 2):
            canvas.line([(middle, row + 0.5), (middle, row + 1.2)], LINES, 0.15)
        for column, paddle, color in zip(
            (0, self.width - 1), state.paddles, (AGENT_COLOR, OPPONENT_COLOR), strict=True
        ):
            row = int(paddle)
            canvas.polygon(box(column, row - half, column + 1, row + half + 1), color)
        for ball, color in ((state.ball_before, TRAIL), (state.ball, WHITE)):
            row, column = (int(x) for x in self._pixel(ball))
            canvas.polygon(box(column, row, column + 1, row + 1), color)
        for side, points, color in zip((-3, 3), state.score, (AGENT_COLOR, OPPONENT_COLOR), strict=True):
            canvas.text((middle + side, 2.2), str(int(points)), color, size=24, anchor="mm")
        return canvas.pixels()

    def _move_paddles(
        self, state: PixelPongState, action: Int[Array, ""], uniform: Float[Array, ""]
    ) -> Float[Array, "2"]:
        above = state.ball[0] - state.paddles[1]
        # Within half a step of the ball's row it stays; else it would move up and down around that row.
        direction = jnp.where(jnp.abs(above) > self.paddle_speed / 2, jnp.sign(above), 0.0)
        opponent = jnp.where(uniform < self.opponent_skill, direction, 0.0)
        agent = (action == 2).astype(opponent.dtype) - (action == 1).astype(opponent.dtype)
        paddles = state.paddles + self.paddle_speed * jnp.stack([agent, opponent])
        return jnp.clip(paddles, self.paddle_half_height, self.height - 1 - self.paddle_half_height)

    def _reflect_at_walls(
        self, ball: Float[Array, "2"], velocity: Float[Array, "2"]
    ) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
        row, speed = ball[0], velocity[0]
        above, below = row < 0, row >= self.height
        row = jnp.where(above, -row, jnp.where(below, 2 * (self.height - 1) - row, row))
        speed = jnp.where(above | below, -speed, speed)
        return jnp.stack([row, ball[1]]), jnp.stack([speed, velocity[1]])

    def _reflect_at_paddles(
        self, ball: Float[Array, "2"], velocity: Float[Array, "2"], paddles: Float[Array, "2"]
    ) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
        half = self.paddle_half_height
        offset = ball[0] - paddles
        left = (ball[1] <= 1) & (jnp.abs(offset[0]) <= half)
        right = (ball[1] > self.width - 2) & (jnp.abs(offset[1]) < half + 1)
        column = jnp.where(left, 2 - ball[1], jnp.where(right, 2 * (self.width - 2) - ball[1], ball[1]))
        spin = jnp.where(left, offset[0], offset[1]) / half
        new_speed = jnp.clip(velocity[0] + spin, -self.ball_max_y_speed, self.ball_max_y_speed)
        hit = left | right
        speed = jnp.where(hit, new_speed, velocity[0])
        return jnp.stack([ball[0], column]), jnp.stack([speed, jnp.where(hit, -velocity[1], velocity[1])])

    def _serve(
        self, height: Float[Array, ""], to_the_right: Bool[Array, ""]
    ) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
        ball = jnp.asarray([self.height / 2, self.width / 2], height.dtype)
        across = jnp.where(to_the_right, self.ball_x_speed, -self.ball_x_speed)
        return ball, jnp.stack([(2 * height - 1) * self.serve_y_speed, across.astype(height.dtype)])

    def _pixel(self, position: Float[Array, "2"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Row and column of the pixel at a position, or of the nearest pixel if it is outside of the field."""
        row, column = jnp.floor(position).astype(jnp.int32)
        return jnp.clip(row, 0, self.height - 1), jnp.clip(column, 0, self.width - 1)
