"""Swing-up: the pole hangs, every push costs, and only an upright pole pays.

Source: bsuite 0.3.6 `experiments/cartpole_swingup/cartpole_swingup.py`, step for step.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Key
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.cartpole import check_pole, draw_pole, pole_observation, steps_to_pass, swing
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real
from shoal.envs.checks import check_range
from shoal.envs.classic.cartpole import CartPoleState as PoleState
from shoal.ops.trig import sincos


@struct
class CartpoleSwingupState(PoleState):
    """Position and velocity of cart and pole, and the counters."""

    episode_upright: Int[Array, ""]
    episode_moves: Int[Array, ""]
    upright: Int[Array, ""]  # steps with the pole up, in all episodes so far
    moves: Int[Array, ""]  # pushes, likewise
    best_episode: Float[Array, ""]  # the highest return of an episode that has ended, at least 0


@experiment("cartpole_swingup")
@struct
class CartpoleSwingup(Task):
    """Swing a hanging pole up and hold it there, with the cart near the middle; every push costs.

    Action: Discrete(3); 0 pushes the cart left with 10 N, 1 not at all, 2 right.

    Observation: Box(8), float32

    | i | quantity                                       | low  | high |
    |---|------------------------------------------------|------|------|
    | 0 | cart position / `x_threshold`                  | -inf | inf  |
    | 1 | cart velocity / `x_threshold`                  | -inf | inf  |
    | 2 | sine of the pole's angle                       | -1   | 1    |
    | 3 | cosine of the pole's angle                     | -1   | 1    |
    | 4 | pole velocity, rad/s                           | -inf | inf  |
    | 5 | time / `max_time`                              | 0    | > 1  |
    | 6 | 1 where the cart may earn a reward, else -1    | -1   | 1    |
    | 7 | 1 where the pole is slow enough for it, else -1 | -1   | 1    |

    Reward: -`move_cost` for a push; and 1 while the cosine is above `height_threshold`, the pole slower than
    `theta_dot_threshold` and |position| below `x_reward_threshold`.
    Start: hanging, each quantity off by at most `init_range`.
    End: terminated when |position| > `x_threshold`, or when more than `max_time` seconds are over (step 1001).
    Differences from bsuite: the observation has shape (8,), not (1, 8); the state is float32 (float64 under x64).
    """

    reset_every: ClassVar[int] = 250
    COUNTERS = ("upright", "moves", "best_episode")

    height_threshold: Number = 0.5
    theta_dot_threshold: Number = 1.0  # rad/s
    x_reward_threshold: Number = 1.0  # m
    move_cost: Number = 0.1
    x_threshold: Number = 3.0  # m
    init_range: Number = 0.05
    timescale: float = static(0.01)  # seconds a step
    max_time: float = static(10.0)  # seconds

    def __post_init__(self) -> None:
        check_pole(self)
        check_range(self, "theta_dot_threshold", "x_reward_threshold", low=0)
        check_range(self, "move_cost")

    @property
    def longest_episode(self) -> int:
        """Until the time is over."""
        return steps_to_pass(self.max_time, self.timescale)

    @property
    def observation_space(self) -> Box:
        """Unbounded but for angle, time and marks."""
        clock = self.longest_episode * self.timescale / self.max_time
        low = (-math.inf, -math.inf, -1, -1, -math.inf, 0, -1, -1)
        return Box(low, (math.inf, math.inf, 1, 1, math.inf, clock * (1 + 1e-6), 1, 1), (8,))

    @property
    def action_space(self) -> Discrete:
        """Left, stay, right."""
        return Discrete(3)

    def init(self, key: Key) -> CartpoleSwingupState:
        """Nearly at rest, hanging."""
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-1.0, maxval=1.0) * self.init_range
        none = jnp.int32(0)
        return CartpoleSwingupState(
            none, x, x_dot, math.pi + theta, theta_dot, none, none, none, none, jnp.zeros((), x.dtype)
        )

    def transition(
        self, state: CartpoleSwingupState, action: Int[Array, ""], noise: None
    ) -> tuple[CartpoleSwingupState, Float[Array, ""], Bool[Array, ""], dict[str, Any]]:
        """Push, integrate, judge."""
        del noise
        state = swing(state, action, self.timescale)
        upright = (sincos(state.theta)[1] > self.height_threshold) & self._is_slow(state) & self._is_central(state)
        moved = (action != 1).astype(jnp.int32)
        gained = upright.astype(jnp.int32)
        done = (state.time >= self.longest_episode) | (jnp.abs(state.x) > self.x_threshold)
        episode_upright, episode_moves = state.episode_upright + gained, state.episode_moves + moved
        total = self._paid(episode_upright, episode_moves).astype(state.best_episode.dtype)
        state = state.replace(
            episode_upright=episode_upright,
            episode_moves=episode_moves,
            upright=state.upright + gained,
            moves=state.moves + moved,
            best_episode=jnp.where(done, jnp.maximum(total, state.best_episode), state.best_episode),
        )
        return state, self._paid(gained, moved), done, {}

    def observe(self, state: CartpoleSwingupState) -> Float[Array, "8"]:
        """Position, velocity, angle, angular velocity, time, and whether cart and pole are fit for a reward."""
        marks = (2 * flag.astype(jnp.float32) - 1 for flag in (self._is_central(state), self._is_slow(state)))
        return pole_observation(state, self.x_threshold, self.timescale / self.max_time, *marks)

    def bsuite_info(self, state: CartpoleSwingupState) -> dict[str, Float[Array, ""]]:
        """All rewards, steps with the pole up, and the best episode."""
        return {
            "raw_return": self._paid(state.upright, state.moves),
            "total_upright": as_real(state.upright),
            "best_episode": as_real(state.best_episode),
        }

    def render(self, state: CartpoleSwingupState) -> UInt8[np.ndarray, "400 600 3"]:
        """Cart, pole and track: the track's ends are the picture's."""
        return draw_pole(state, self.x_threshold)

    def _is_slow(self, state: CartpoleSwingupState) -> Bool[Array, ""]:
        return jnp.abs(state.theta_dot) < self.theta_dot_threshold

    def _is_central(self, state: CartpoleSwingupState) -> Bool[Array, ""]:
        return jnp.abs(state.x) < self.x_reward_threshold

    def _paid(self, upright: Int[Array, ""], moves: Int[Array, ""]) -> Float[Array, ""]:
        return as_real(upright) - as_real(self.move_cost) * as_real(moves)
