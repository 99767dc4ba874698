"""Pendulum: swing a rod up and hold it upright, with a motor that is too weak to lift it directly.

Source: Gymnasium `classic_control/pendulum.py` (Pendulum-v1), step for step.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.canvas import BLACK, Canvas
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.bounds import highest
from shoal.ops.trig import sincos, wrap_angle

ROD_COLOR = (204, 77, 77)


@struct
class PendulumState(State):
    """Angle and velocity of the rod, and the last torque (used by `render` only)."""

    theta: Float[Array, ""]  # rad from upright, counter-clockwise; not wrapped to one turn
    theta_dot: Float[Array, ""]  # rad/s
    torque: Float[Array, ""]  # N m, after clipping; 0 at the start


@env("Pendulum-v1")
@struct
class Pendulum(Env):
    """Swing a pendulum up and keep it upright.

    Action: Box(1), float32, the torque in N m, from -`max_torque` to `max_torque` (2), counter-clockwise. Larger
    torques are clipped.

    Observation: Box(3), float32

    | i | quantity                | low  | high |
    |---|-------------------------|------|------|
    | 0 | cosine of the angle     | -1.0 | 1.0  |
    | 1 | sine of the angle       | -1.0 | 1.0  |
    | 2 | angular velocity, rad/s | -8.0 | 8.0  |

    Reward: -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), with the angle (from upright, in [-pi, pi]) and the velocity
    before the step: between -16.27 and 0.
    Start: the angle is uniform in +-`reset_theta` (pi), the velocity in +-`reset_theta_dot` (1). These two fields are
    called `x_init` and `y_init` in Gymnasium's reset options.
    End: never terminated; truncated after `max_steps` (200).
    Differences from Gymnasium: none.
    """

    reset_every: ClassVar[int] = 200

    g: Number = 10.0  # m/s^2
    mass: Number = 1.0  # kg
    length: Number = 1.0  # m
    dt: Number = 0.05  # seconds per step
    max_speed: Number = 8.0  # rad/s
    max_torque: float = static(2.0)  # N m; static: it is the bound of the action space
    reset_theta: Number = math.pi  # rad
    reset_theta_dot: Number = 1.0  # rad/s
    max_steps: Number | None = 200

    @property
    def observation_space(self) -> Box:
        """Cosine and sine in [-1, 1], and the velocity up to `max_speed`."""
        limits = (1.0, 1.0, highest(self.max_speed))
        return Box(tuple(-x for x in limits), limits, (3,))

    @property
    def action_space(self) -> Box:
        """One torque."""
        return Box(-self.max_torque, self.max_torque, (1,))

    def init(self, key: Key) -> PendulumState:
        """The first state: random angle and velocity, torque 0."""
        theta, theta_dot = jax.random.uniform(key, (2,), minval=-1.0)
        return PendulumState(
            time=jnp.int32(0),
            theta=theta * self.reset_theta,
            theta_dot=theta_dot * self.reset_theta_dot,
            torque=jnp.zeros_like(theta),
        )

    def transition(self, state: PendulumState, action: Float[Array, "1"], noise: None) -> Transition[PendulumState]:
        """Compute the reward of the state before the step, then integrate one step."""
        del noise
        torque = jnp.clip(action[0].astype(state.theta.dtype), -self.max_torque, self.max_torque)
        cost = wrap_angle(state.theta) ** 2 + 0.1 * state.theta_dot**2 + 0.001 * torque**2
        theta_dot = state.theta_dot + self.dt * self._acceleration(state.theta, torque)
        theta_dot = jnp.clip(theta_dot, -self.max_speed, self.max_speed)
        state = state.replace(theta=state.theta + self.dt * theta_dot, theta_dot=theta_dot, torque=torque)
        return state, -cost.astype(jnp.float32), jnp.bool_(False), {}

    def observe(self, state: PendulumState) -> Float[Array, "3"]:
        """Cosine and sine of the angle, and the angular velocity."""
        sin, cos = sincos(state.theta)
        return jnp.stack([cos, sin, state.theta_dot]).astype(jnp.float32)

    def render(self, state: PendulumState) -> UInt8[np.ndarray, "500 500 3"]:
        """The rod, and an arrow for the torque (its direction and size), as Gymnasium draws them."""
        angle, torque = float(state.theta) + math.pi / 2, float(state.torque)
        canvas = Canvas(500, 500, window=(-2.2, -2.2, 2.2, 2.2))
        canvas.line([(0.0, 0.0), (math.cos(angle), math.sin(angle))], ROD_COLOR, 0.2)
        if torque != 0:
            sweep = math.copysign(1.45 * math.pi, torque)
            canvas.arrow_arc((0, 0), 0.235 * abs(torque), math.pi / 2, sweep, BLACK, 0.015 * abs(torque))
        canvas.circle((0, 0), 0.05, BLACK)
        return canvas.pixels()

    def _acceleration(self, theta: Array, torque: Array) -> Array:
        sin, _ = sincos(theta)
        return 3 * self.g / (2 * self.length) * sin + 3.0 / (self.mass * self.length**2) * torque
