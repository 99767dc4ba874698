"""MountainCarContinuous: MountainCar with a throttle, and fuel to pay for.

Source: Moore 1990; Gymnasium `classic_control/continuous_mountain_car.py` (MountainCarContinuous-v0), step for step.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8

from shoal.core.env import Env, Key
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.bounds import check_reset_bounds, highest, lowest
from shoal.envs.classic.mountain_car import MountainCarState, draw, roll


@env("MountainCarContinuous-v0")
@struct
class MountainCarContinuous(Env):
    """Drive an underpowered car up the right hill of a sinusoidal valley, using as little force as possible.

    Action: Box(1), float32, the throttle, from `min_action` (-1, left) to `max_action` (1, right). A throttle beyond
    them moves the car no faster, but is paid for in full.

    Observation: Box(2), float32

    | i | quantity     | low   | high |
    |---|--------------|-------|------|
    | 0 | position     | -1.2  | 0.6  |
    | 1 | velocity     | -0.07 | 0.07 |

    Reward: -0.1 times the squared throttle (as given, not clipped), and 100 more on reaching the goal.
    Start: position uniform in [`reset_low`, `reset_high`], at rest.
    End: terminated at a position >= `goal_position` with a velocity >= `goal_velocity`; truncated after `max_steps`
    (999).
    The left wall takes all speed out of a car that hits it; the right edge only holds its position.
    Differences from Gymnasium: none. (gymnax lets the car stick to the left wall; returns on it do not compare.)
    """

    reset_every: ClassVar[int] = 500

    min_action: float = static(-1.0)  # static: these two are the action space
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
        """The edges of the track and the speed limit."""
        speed = highest(self.max_speed)
        return Box((lowest(self.min_position), -speed), (highest(self.max_position), speed), (2,))

    @property
    def action_space(self) -> Box:
        """The throttle."""
        return Box(self.min_action, self.max_action, (1,))

    def init(self, key: Key) -> MountainCarState:
        """Somewhere near the valley's floor, at rest."""
        position = jax.random.uniform(key, minval=self.reset_low, maxval=self.reset_high)
        return MountainCarState(jnp.int32(0), position, jnp.zeros_like(position))

    def transition(
        self, state: MountainCarState, action: Float[Array, "1"], noise: None
    ) -> tuple[MountainCarState, Float[Array, ""], Bool[Array, ""], dict[str, Any]]:
        """Accelerate, roll, judge, pay."""
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
        """The valley, the car and the flag, as Gymnasium draws them."""
        return draw(self, state)
