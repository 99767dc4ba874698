"""bsuite's cart-pole swing-up: the pole hangs at the start; every push costs, and only an upright pole gives reward.

Source: bsuite 0.3.6 `experiments/cartpole_swingup/cartpole_swingup.py`, step for step.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Key, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.cartpole import check_pole, draw_pole, integrate, pole_observation, steps_to_exceed
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real
from shoal.envs.checks import check_range
from shoal.envs.classic.cartpole import CartPoleState as PoleState
from shoal.ops.trig import sincos


@struct
class CartpoleSwingupState(PoleState):
    """Position and velocity of cart and pole, and bsuite's counters."""

    episode_upright: Int[Array, ""]  # steps of this episode with the reward for an upright pole
    episode_moves: Int[Array, ""]  # steps of this episode with a push
    upright: Int[Array, ""]  # steps with the reward for an upright pole, in all episodes so far
    moves: Int[Array, ""]  # steps with a push, in all episodes so far
    best_episode: Float[Array, ""]  # the highest return of a finished episode, at least 0


@experiment("cartpole_swingup")
@struct
class CartpoleSwingup(Task):
    """Swing a hanging pole up and hold it there, with the cart near the middle; every push costs.

    Action: Discrete(3); 0 pushes the cart to the left with 10 N, 1 does not push, 2 pushes it to the right.

    Observation: Box(8), float32

    | i | quantity                                                          | low  | high |
    |---|-------------------------------------------------------------------|------|------|
    | 0 | cart position / `x_threshold`                                     | -inf | inf  |
    | 1 | cart velocity / `x_threshold`                                     | -inf | inf  |
    | 2 | sine of the pole's angle                                          | -1   | 1    |
    | 3 | cosine of the pole's angle                                        | -1   | 1    |
    | 4 | pole velocity, rad/s                                              | -inf | inf  |
    | 5 | time / `max_time`                                                 | 0    | > 1  |
    | 6 | 1 if the position is within +-`x_reward_threshold`, else -1       | -1   | 1    |
    | 7 | 1 if the pole velocity is within +-`theta_dot_threshold`, else -1 | -1   | 1    |

    Reward: -`move_cost` for a push; plus 1 if the cosine is above `height_threshold`, the pole slower than
    `theta_dot_threshold` and |position| below `x_reward_threshold`.
    Start: the pole hangs at rest; to position, angle and both velocities a uniform number in +-`init_range` is added.
    End: terminated when |position| > `x_threshold`, or when more than `max_time` seconds have passed (step 1001).
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
    timescale: float = static(0.01)  # seconds per step
    max_time: float = static(10.0)  # seconds

    def __post_init__(self) -> None:
        check_pole(self)
        check_range(self, "theta_dot_threshold", "x_reward_threshold", low=0)
        check_range(self, "move_cost")

    @property
    def longest_episode(self) -> int:
        """The step after which more than `max_time` seconds have passed."""
        return steps_to_exceed(self.max_time, self.timescale)

    @property
    def observation_space(self) -> Box:
        """Sine, cosine and both flags in [-1, 1], time from 0, all else unbounded."""
        clock = self.longest_episode * self.timescale / self.max_time
        low = (-math.inf, -math.inf, -1, -1, -math.inf, 0, -1, -1)
        return Box(low, (math.inf, math.inf, 1, 1, math.inf, clock * (1 + 1e-6), 1, 1), (8,))

    @property
    def action_space(self) -> Discrete:
        """Push left, do not push, push right."""
        return Discrete(3)

    def init(self, key: Key) -> CartpoleSwingupState:
        """The first state: the pole hangs, nearly at rest."""
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-1.0, maxval=1.0) * self.init_range
        zero = jnp.int32(0)
        return CartpoleSwingupState(
            zero, x, x_dot, math.pi + theta, theta_dot, zero, zero, zero, zero, jnp.zeros((), x.dtype)
        )

    def transition(
        self, state: CartpoleSwingupState, action: Int[Array, ""], noise: None
    ) -> Transition[CartpoleSwingupState]:
        """Push the cart and integrate one step; then compute reward, termination and counters."""
        del noise
        state = integrate(state, action, self.timescale)
        upright = (sincos(state.theta)[1] > self.height_threshold) & self._is_slow(state) & self._is_central(state)
        moved = (action != 1).astype(jnp.int32)
        upright_steps = upright.astype(jnp.int32)
        done = (state.time >= self.longest_episode) | (jnp.abs(state.x) > self.x_threshold)
        episode_upright, episode_moves = state.episode_upright + upright_steps, state.episode_moves + moved
        total = self._return_of(episode_upright, episode_moves).astype(state.best_episode.dtype)
        state = state.replace(
            episode_upright=episode_upright,
            episode_moves=episode_moves,
            upright=state.upright + upright_steps,
            moves=state.moves + moved,
            best_episode=jnp.where(done, jnp.maximum(total, state.best_episode), state.best_episode),
        )
        return state, self._return_of(upright_steps, moved), done, {}

    def observe(self, state: CartpoleSwingupState) -> Float[Array, "8"]:
        """Position, velocity, sine and cosine of the angle, angular velocity, time, and the two flags as -1 or 1."""
        flags = (2 * flag.astype(jnp.float32) - 1 for flag in (self._is_central(state), self._is_slow(state)))
        return pole_observation(state, self.x_threshold, self.timescale / self.max_time, *flags)

    def bsuite_info(self, state: CartpoleSwingupState) -> dict[str, Float[Array, ""]]:
        """The sum of all rewards, the steps with an upright pole, and the return of the best episode."""
        return {
            "raw_return": self._return_of(state.upright, state.moves),
            "total_upright": as_real(state.upright),
            "best_episode": as_real(state.best_episode),
        }

    def render(self, state: CartpoleSwingupState) -> UInt8[np.ndarray, "400 600 3"]:
        """Cart, pole and track. The picture is as wide as the track."""
        return draw_pole(state, self.x_threshold)

    def _is_slow(self, state: CartpoleSwingupState) -> Bool[Array, ""]:
        return jnp.abs(state.theta_dot) < self.theta_dot_threshold

    def _is_central(self, state: CartpoleSwingupState) -> Bool[Array, ""]:
        return jnp.abs(state.x) < self.x_reward_threshold

    def _return_of(self, upright: Int[Array, ""], moves: Int[Array, ""]) -> Float[Array, ""]:
        return as_real(upright) - as_real(self.move_cost) * as_real(moves)
