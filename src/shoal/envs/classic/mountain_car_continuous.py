"""MountainCarContinuous: MountainCar with a continuous action, whose square is a cost.

Source: Moore 1990; Gymnasium `classic_control/continuous_mountain_car.py` (MountainCarContinuous-v0), step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.core.env import Env, Key, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.bounds import check_reset_bounds, highest, lowest
from shoal.envs.classic.mountain_car import MountainCarState, draw, roll


@env("MountainCarContinuous-v0")
@struct
class MountainCarContinuous(Env):
    """Drive an underpowered car up the right hill of a sinusoidal valley, using as little force as possible.

    Action: Box(1), float32, the throttle, from `min_action` (-1, left) to `max_action` (1, right). A larger
    throttle is clipped for the motion, but not for the reward.

    Observation: Box(2), float32

    | i | quantity | low   | high |
    |---|----------|-------|------|
    | 0 | position | -1.2  | 0.6  |
    | 1 | velocity | -0.07 | 0.07 |

    Reward: -0.1 times the square of the throttle (not clipped), plus 100 on the step that reaches the goal.
    Start: the position is uniform in [`reset_low`, `reset_high`], the velocity is 0.
    End: terminated when position >= `goal_position` and velocity >= `goal_velocity`; truncated after `max_steps`
    (999).
    A car that hits the left edge stops. The right edge limits the position only, not the velocity.
    Differences from Gymnasium: none. In gymnax the car sticks to the left edge, so its returns cannot be compared
    with these.
    """

    reset_every: ClassVar[int] = 500

    min_action: float = static(-1.0)  # static: these two are the bounds of the action space
    max_action: float = static(1.0)
    min_position: Number = -1.2
    max_position: Number = 0.6
    max_speed: Number = 0.07
    goal_position: Number = 0.45
    goal_velocity: Number = 0.0
    power: Number = 0.0015
    gravity: Number = 0.0025
    reset_low: Number = -0.6
    reset_high: Number = -0.4
    max_steps: Number | None = 999

    def __post_init__(self) -> None:
        check_reset_bounds(self.reset_low, self.reset_high)

    @property
    def observation_space(self) -> Box:
        """Positions between the edges of the track, velocities up to `max_speed`."""
        speed = highest(self.max_speed)
        return Box((lowest(self.min_position), -speed), (highest(self.max_position), speed), (2,))

    @property
    def action_space(self) -> Box:
        """One throttle."""
        return Box(self.min_action, self.max_action, (1,))

    def init(self, key: Key) -> MountainCarState:
        """The first state: near the lowest point of the valley, at rest."""
        position = jax.random.uniform(key, minval=self.reset_low, maxval=self.reset_high)
        return MountainCarState(jnp.int32(0), position, jnp.zeros_like(position))

    def transition(
        self, state: MountainCarState, action: Float[Array, "1"], noise: None
    ) -> Transition[MountainCarState]:
        """Accelerate and move the car one step; then compute reward and termination."""
        del noise
        throttle = action[0].astype(state.velocity.dtype)
        state = roll(self, state, jnp.clip(throttle, self.min_action, self.max_action) * self.power)
        at_goal = (state.position >= self.goal_position) & (state.velocity >= self.goal_velocity)
        reward = jnp.where(at_goal, 100.0, 0.0) - 0.1 * action[0].astype(jnp.float32) ** 2
        return state, reward, at_goal, {}

    def observe(self, state: MountainCarState) -> Float[Array, "2"]:
        """Position and velocity."""
        return jnp.stack([state.position, state.velocity]).astype(jnp.float32)

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "400 600 3"]:
        """The valley, the car, and a flag at the goal, as Gymnasium draws them."""
        return draw(self, state)
