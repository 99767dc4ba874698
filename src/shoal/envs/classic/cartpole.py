"""CartPole: keep a pole upright on a cart by pushing left or right.

Source: Barto, Sutton and Anderson 1983; Gymnasium `classic_control/cartpole.py` (CartPole-v0 and -v1), step for step.
"""

import math
from typing import ClassVar

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
from shoal.ops.trig import sincos

POLE_COLOR, AXLE_COLOR = (202, 152, 101), (129, 132, 203)


@struct
class CartPoleState(State):
    """Position and velocity of cart and pole."""

    x: Float[Array, ""]  # m, 0 at the center
    x_dot: Float[Array, ""]  # m/s
    theta: Float[Array, ""]  # rad from upright, clockwise
    theta_dot: Float[Array, ""]  # rad/s


@env("CartPole-v1")
@env("CartPole-v0", max_steps=200)
@struct
class CartPole(Env):
    """Balance a pole that is hinged to a cart on a frictionless track.

    Action: Discrete(2); 0 pushes the cart to the left, 1 to the right, with the force `force_mag`.

    Observation: Box(4), float32

    | i | quantity             | low    | high  |
    |---|----------------------|--------|-------|
    | 0 | cart position, m     | -4.8   | 4.8   |
    | 1 | cart velocity, m/s   | -inf   | inf   |
    | 2 | pole angle, rad      | -0.418 | 0.418 |
    | 3 | pole velocity, rad/s | -inf   | inf   |

    Reward: 1 on every step, including the last one. With `sutton_barto_reward`: 0, and -1 on the step that terminates.
    Start: all four quantities are uniform in [`reset_low`, `reset_high`].
    End: terminated when |position| > `x_threshold` or |angle| > `theta_threshold`; truncated after `max_steps` (500 in
    v1, 200 in v0).
    Differences from Gymnasium: none in the dynamics. Gymnasium allows steps from a terminated state, with reward 0;
    here a rollout resets the environment first.
    """

    reset_every: ClassVar[int] = 10
    action_names: ClassVar[tuple[str, ...]] = ("left", "right")

    gravity: Number = 9.8  # m/s^2
    mass_cart: Number = 1.0  # kg
    mass_pole: Number = 0.1  # kg
    length: Number = 0.5  # half the pole's length, m
    force_mag: Number = 10.0  # N
    tau: Number = 0.02  # seconds per step
    theta_threshold: Number = 12 * 2 * math.pi / 360  # rad
    x_threshold: Number = 2.4  # m
    reset_low: Number = -0.05
    reset_high: Number = 0.05
    max_steps: Number | None = 500
    sutton_barto_reward: bool = static(False, choices=(False, True))
    integrator: str = static("euler", choices=("euler", "semi-implicit"))

    def __post_init__(self) -> None:
        check_reset_bounds(self.reset_low, self.reset_high)
        if self.integrator not in ("euler", "semi-implicit"):
            raise ValueError(f"integrator={self.integrator!r} is unknown. Choose 'euler' or 'semi-implicit'.")

    @property
    def total_mass(self) -> Number:
        """Mass of cart and pole together, kg."""
        return self.mass_cart + self.mass_pole

    @property
    def polemass_length(self) -> Number:
        """Mass of the pole times half its length, kg m."""
        return self.mass_pole * self.length

    @property
    def observation_space(self) -> Box:
        """Position and angle up to twice their thresholds, as in Gymnasium; velocities are unbounded."""
        limits = (2 * highest(self.x_threshold), math.inf, 2 * highest(self.theta_threshold), math.inf)
        return Box(tuple(-x for x in limits), limits, (4,))

    @property
    def action_space(self) -> Discrete:
        """Push left, push right."""
        return Discrete(2)

    def init(self, key: Key) -> CartPoleState:
        """The first state: all four quantities uniform in [`reset_low`, `reset_high`]."""
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=self.reset_low, maxval=self.reset_high)
        return CartPoleState(jnp.int32(0), x, x_dot, theta, theta_dot)

    def transition(self, state: CartPoleState, action: Int[Array, ""], noise: None) -> Transition[CartPoleState]:
        """Push the cart and integrate one step; then compute reward and termination."""
        del noise
        x_acc, theta_acc = self._accelerations(state, action)
        state = self._integrate(state, x_acc, theta_acc)
        fallen = (jnp.abs(state.x) > self.x_threshold) | (jnp.abs(state.theta) > self.theta_threshold)
        reward = -fallen.astype(jnp.float32) if self.sutton_barto_reward else jnp.float32(1)
        return state, reward, fallen, {}

    def observe(self, state: CartPoleState) -> Float[Array, "4"]:
        """Position, velocity, angle, angular velocity."""
        return jnp.stack([state.x, state.x_dot, state.theta, state.theta_dot]).astype(jnp.float32)

    def render(self, state: CartPoleState) -> UInt8[np.ndarray, "400 600 3"]:
        """Cart, pole and track, as Gymnasium draws them. The picture is as wide as the track."""
        scale = 300 / float(self.x_threshold)
        cart = (300 + scale * float(state.x), 100.0)
        axle = (cart[0], cart[1] + 7.5)
        pole = box(-5, -5, 5, 2 * float(self.length) * scale - 5)
        canvas = Canvas(600, 400, window=(0, 0, 600, 400))
        canvas.polygon(transformed(box(-25, -15, 25, 15), cart), BLACK)
        canvas.polygon(transformed(pole, axle, -float(state.theta)), POLE_COLOR)
        canvas.circle(axle, 5, AXLE_COLOR)
        canvas.line([(0, 100.5), (600, 100.5)], BLACK, 1)
        return canvas.pixels()

    def _accelerations(self, state: CartPoleState, action: Int[Array, ""]) -> tuple[Array, Array]:
        # Equations of motion: Florian 2007, "Correct equations for the dynamics of the cart-pole system".
        force = jnp.where(action == 1, self.force_mag, -self.force_mag).astype(state.x.dtype)
        sin, cos = sincos(state.theta)
        push = (force + self.polemass_length * state.theta_dot**2 * sin) / self.total_mass
        theta_acc = (self.gravity * sin - cos * push) / (
            self.length * (4.0 / 3.0 - self.mass_pole * cos**2 / self.total_mass)
        )
        return push - self.polemass_length * theta_acc * cos / self.total_mass, theta_acc

    def _integrate(self, state: CartPoleState, x_acc: Array, theta_acc: Array) -> CartPoleState:
        x_dot = state.x_dot + self.tau * x_acc
        theta_dot = state.theta_dot + self.tau * theta_acc
        semi_implicit = self.integrator == "semi-implicit"
        return state.replace(
            x=state.x + self.tau * (x_dot if semi_implicit else state.x_dot),
            x_dot=x_dot,
            theta=state.theta + self.tau * (theta_dot if semi_implicit else state.theta_dot),
            theta_dot=theta_dot,
        )
