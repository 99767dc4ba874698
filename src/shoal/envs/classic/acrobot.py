"""Acrobot: two links hang from a bar; a motor in the joint between them must swing the free end up.

Source: Sutton 1996; Sutton and Barto 2018; Gymnasium `classic_control/acrobot.py` (Acrobot-v1), step for step.
"""

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas, box, transformed
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bounds import check_reset_bounds, highest
from shoal.ops.trig import sincos, wrap_angle

LINK_COLOR, JOINT_COLOR = (0, 204, 204), (204, 204, 0)


@struct
class AcrobotState(State):
    """Angles and velocities of both links."""

    theta1: Float[Array, ""]  # rad, first link from hanging down, within [-pi, pi]
    theta2: Float[Array, ""]  # rad, second link from the direction of the first, within [-pi, pi]
    theta1_dot: Float[Array, ""]  # rad/s
    theta2_dot: Float[Array, ""]  # rad/s


class Motion(NamedTuple):
    """Angles (rad) and angular velocities (rad/s) of both links, or the time derivatives of these four."""

    theta1: Array
    theta2: Array
    theta1_dot: Array
    theta2_dot: Array

    def moved(self, rate: "Motion", dt: Number) -> "Motion":
        """This plus `dt` times the time derivative `rate`."""
        return Motion(*(x + dt * dx for x, dx in zip(self, rate, strict=True)))


@env("Acrobot-v1")
@struct
class Acrobot(Env):
    """Swing the free end of a two-link chain above a line that is one link length above the bar.

    Action: Discrete(3); the torque on the joint between the links is `torques[action]` (-1, 0 or 1 N m) plus noise.

    Observation: Box(6), float32

    | i | quantity                          | low    | high  |
    |---|-----------------------------------|--------|-------|
    | 0 | cosine of the first link's angle  | -1     | 1     |
    | 1 | sine of the first link's angle    | -1     | 1     |
    | 2 | cosine of the second link's angle | -1     | 1     |
    | 3 | sine of the second link's angle   | -1     | 1     |
    | 4 | first link's velocity, rad/s      | -12.57 | 12.57 |
    | 5 | second link's velocity, rad/s     | -28.27 | 28.27 |

    Reward: -1 every step, 0 on the step that reaches the goal.
    Start: both angles and both velocities are uniform in [`reset_low`, `reset_high`].
    End: terminated when -cos(theta1) - cos(theta1 + theta2) > `target_height`; truncated after `max_steps` (500).
    Noise: none, unless `torque_noise_max` is set: then a uniform number in +-`torque_noise_max` is added to the torque.
    `equations="nips"` leaves out a term, as the text of the 1996 paper does; the paper's results used the book's.
    Differences from Gymnasium: none in the dynamics. `gravity` and `target_height` are fields here.
    """

    reset_every: ClassVar[int] = 200

    dt: Number = 0.2  # seconds per step; one Runge-Kutta step of fourth order
    gravity: Number = 9.8  # m/s^2
    link_length_1: Number = 1.0  # m
    link_length_2: Number = 1.0  # m; used by `render` only: the motion does not depend on it
    link_mass_1: Number = 1.0  # kg
    link_mass_2: Number = 1.0  # kg
    link_com_pos_1: Number = 0.5  # m from the bar to the first link's center of mass
    link_com_pos_2: Number = 0.5  # m from the joint to the second link's center of mass
    link_moi: Number = 1.0  # kg m^2, moment of inertia of either link
    max_vel_1: Number = 4 * math.pi  # rad/s
    max_vel_2: Number = 9 * math.pi  # rad/s
    torques: tuple[Number, ...] = (-1.0, 0.0, 1.0)  # N m
    torque_noise_max: Number | None = None  # N m
    target_height: Number = 1.0  # above the bar, in links of length 1
    reset_low: Number = -0.1
    reset_high: Number = 0.1
    max_steps: Number | None = 500
    equations: str = static("book", choices=("book", "nips"))

    def __post_init__(self) -> None:
        check_reset_bounds(self.reset_low, self.reset_high)
        if getattr(self.torques, "shape", None) == () or len(self.torques) != 3:
            raise ValueError(f"torques={self.torques} needs three numbers, one for each action.")
        if self.equations not in ("book", "nips"):
            raise ValueError(f"equations={self.equations!r} is unknown. Choose 'book' or 'nips'.")

    @property
    def observation_space(self) -> Box:
        """Cosines and sines in [-1, 1], and velocities up to the largest speeds."""
        limits = (1.0, 1.0, 1.0, 1.0, highest(self.max_vel_1), highest(self.max_vel_2))
        return Box(tuple(-x for x in limits), limits, (6,))

    @property
    def action_space(self) -> Discrete:
        """Three torques."""
        return Discrete(3)

    def init(self, key: Key) -> AcrobotState:
        """The first state: hanging down, nearly at rest."""
        return AcrobotState(jnp.int32(0), *jax.random.uniform(key, (4,), minval=self.reset_low, maxval=self.reset_high))

    def noise(self, key: Key) -> Float[Array, ""] | None:
        """The torque noise, N m; None without `torque_noise_max`."""
        if self.torque_noise_max is None:
            return None
        return jax.random.uniform(key, minval=-self.torque_noise_max, maxval=self.torque_noise_max)

    def transition(
        self, state: AcrobotState, action: Int[Array, ""], noise: Float[Array, ""] | None
    ) -> Transition[AcrobotState]:
        """Integrate one step, wrap angles, clip velocities; then compute reward and termination."""
        torque = self._torque(action, noise, state.theta1.dtype)
        start = Motion(state.theta1, state.theta2, state.theta1_dot, state.theta2_dot)
        end = self._integrate(start, torque)
        state = AcrobotState(
            time=state.time,
            theta1=wrap_angle(end.theta1),
            theta2=wrap_angle(end.theta2),
            theta1_dot=jnp.clip(end.theta1_dot, -self.max_vel_1, self.max_vel_1),
            theta2_dot=jnp.clip(end.theta2_dot, -self.max_vel_2, self.max_vel_2),
        )
        at_goal = self._height(state) > self.target_height
        return state, at_goal.astype(jnp.float32) - 1, at_goal, {}

    def observe(self, state: AcrobotState) -> Float[Array, "6"]:
        """Cosine and sine of both angles, then both velocities."""
        (sin1, cos1), (sin2, cos2) = sincos(state.theta1), sincos(state.theta2)
        return jnp.stack([cos1, sin1, cos2, sin2, state.theta1_dot, state.theta2_dot]).astype(jnp.float32)

    def render(self, state: AcrobotState) -> UInt8[np.ndarray, "500 500 3"]:
        """Both links, their joints and the line that the free end must reach, as Gymnasium draws them."""
        length1, length2 = float(self.link_length_1), float(self.link_length_2)
        angle1 = float(state.theta1) - math.pi / 2
        angle2 = angle1 + float(state.theta2)
        elbow = (length1 * math.cos(angle1), length1 * math.sin(angle1))
        edge = length1 + length2 + 0.2
        canvas = Canvas(500, 500, window=(-edge, -edge, edge, edge))
        canvas.line([(-edge, float(self.target_height)), (edge, float(self.target_height))], BLACK, 0)
        for joint, angle, length in (((0.0, 0.0), angle1, length1), (elbow, angle2, length2)):
            canvas.polygon(transformed(box(0, -0.1, length, 0.1), joint, angle), LINK_COLOR)
            canvas.circle(joint, 0.1, JOINT_COLOR)
        return canvas.pixels()

    def _torque(self, action: Array, noise: Array | None, dtype: Any) -> Array:
        negative, zero, positive = self.torques
        torque = jnp.where(action == 0, negative, jnp.where(action == 1, zero, positive)).astype(dtype)
        return torque if noise is None else torque + noise.astype(dtype)

    def _height(self, state: AcrobotState) -> Array:
        _, cos1 = sincos(state.theta1)
        _, cos12 = sincos(state.theta1 + state.theta2)
        return -cos1 - cos12

    def _integrate(self, start: Motion, torque: Array) -> Motion:
        # Runge-Kutta of fourth order.
        k1 = self._rate(start, torque)
        k2 = self._rate(start.moved(k1, 0.5 * self.dt), torque)
        k3 = self._rate(start.moved(k2, 0.5 * self.dt), torque)
        k4 = self._rate(start.moved(k3, self.dt), torque)
        mean = Motion(*((a + 2 * b + 2 * c + d) / 6.0 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)))
        return start.moved(mean, self.dt)

    def _rate(self, motion: Motion, torque: Array) -> Motion:
        """The time derivative of `motion`: the equations of motion, with d and phi named as in the book."""
        theta1, theta2, dot1, dot2 = motion
        m1, m2, l1 = self.link_mass_1, self.link_mass_2, self.link_length_1
        lc1, lc2, inertia = self.link_com_pos_1, self.link_com_pos_2, self.link_moi
        sin1, _ = sincos(theta1)
        sin2, cos2 = sincos(theta2)
        sin12, _ = sincos(theta1 + theta2)
        coupling = m2 * l1 * lc2
        d1 = (m1 * lc1**2 + m2 * (l1**2 + lc2**2) + 2 * inertia) + 2 * coupling * cos2
        d2 = (m2 * lc2**2 + inertia) + coupling * cos2
        phi2 = m2 * lc2 * self.gravity * sin12
        phi1 = phi2 + (m1 * lc1 + m2 * l1) * self.gravity * sin1 - coupling * sin2 * dot2 * (dot2 + 2 * dot1)
        pull = torque + d2 / d1 * phi1 - phi2
        if self.equations == "book":
            pull = pull - coupling * dot1**2 * sin2
        acceleration2 = pull / (m2 * lc2**2 + inertia - d2**2 / d1)
        acceleration1 = -(d2 * acceleration2 + phi1) / d1
        return Motion(dot1, dot2, acceleration1, acceleration2)
