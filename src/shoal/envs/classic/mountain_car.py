"""MountainCar: the engine is too weak for the hill, so the car must first gain speed on the opposite slope.

Source: Moore 1990; Sutton and Barto 2018, example 10.1; Gymnasium `classic_control/mountain_car.py` (MountainCar-v0),
step for step.
"""

import functools
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas, box, transformed
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct
from shoal.envs.bounds import check_reset_bounds, highest, lowest
from shoal.ops.trig import sincos

FLAG_COLOR, WHEEL_COLOR = (204, 204, 0), (128, 128, 128)


@struct
class MountainCarState(State):
    """Position and velocity of the car."""

    position: Float[Array, ""]  # along the horizontal axis; the lowest point of the valley is at -pi/6
    velocity: Float[Array, ""]  # change of position per step


@env("MountainCar-v0")
@struct
class MountainCar(Env):
    """Drive an underpowered car up the right hill of a sinusoidal valley.

    Action: Discrete(3); 0 accelerates to the left by `force`, 1 not at all, 2 to the right by `force`.

    Observation: Box(2), float32

    | i | quantity | low   | high |
    |---|----------|-------|------|
    | 0 | position | -1.2  | 0.6  |
    | 1 | velocity | -0.07 | 0.07 |

    Reward: -1 on every step, including the last one.
    Start: the position is uniform in [`reset_low`, `reset_high`], the velocity is 0.
    End: terminated when position >= `goal_position` and velocity >= `goal_velocity`; truncated after `max_steps`
    (200).
    A car that hits the left edge stops. The right edge limits the position only, not the velocity.
    Differences from Gymnasium: none.
    """

    reset_every: ClassVar[int] = 200
    action_names: ClassVar[tuple[str, ...]] = ("left", "nothing", "right")

    min_position: Number = -1.2
    max_position: Number = 0.6
    max_speed: Number = 0.07
    goal_position: Number = 0.5
    goal_velocity: Number = 0.0
    force: Number = 0.001
    gravity: Number = 0.0025
    reset_low: Number = -0.6
    reset_high: Number = -0.4
    max_steps: Number | None = 200

    def __post_init__(self) -> None:
        check_reset_bounds(self.reset_low, self.reset_high)

    @property
    def observation_space(self) -> Box:
        """Positions between the edges of the track, velocities up to `max_speed`."""
        speed = highest(self.max_speed)
        return Box((lowest(self.min_position), -speed), (highest(self.max_position), speed), (2,))

    @property
    def action_space(self) -> Discrete:
        """Accelerate left, not at all, right."""
        return Discrete(3)

    def init(self, key: Key) -> MountainCarState:
        """The first state: near the lowest point of the valley, at rest."""
        position = jax.random.uniform(key, minval=self.reset_low, maxval=self.reset_high)
        return MountainCarState(jnp.int32(0), position, jnp.zeros_like(position))

    def transition(self, state: MountainCarState, action: Int[Array, ""], noise: None) -> Transition[MountainCarState]:
        """Accelerate and move the car one step; then compute reward and termination."""
        del noise
        push = (action - 1).astype(state.velocity.dtype) * self.force
        state = roll(self, state, push)
        at_goal = (state.position >= self.goal_position) & (state.velocity >= self.goal_velocity)
        return state, jnp.float32(-1), at_goal, {}

    def observe(self, state: MountainCarState) -> Float[Array, "2"]:
        """Position and velocity."""
        return jnp.stack([state.position, state.velocity]).astype(jnp.float32)

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "400 600 3"]:
        """The valley, the car, and a flag at the goal, as Gymnasium draws them."""
        return draw(self, state)


def roll(car: Any, state: MountainCarState, push: Float[Array, ""]) -> MountainCarState:
    """The state one step later, with the acceleration `push`. The environment `car` has the constants of the track."""
    _, slope = sincos(3 * state.position)
    velocity = jnp.clip(state.velocity + push - car.gravity * slope, -car.max_speed, car.max_speed)
    position = jnp.clip(state.position + velocity, car.min_position, car.max_position)
    hits_wall = (position <= car.min_position) & (velocity < 0)
    return state.replace(position=position, velocity=jnp.where(hits_wall, 0.0, velocity))


def draw(car: Any, state: MountainCarState) -> UInt8[np.ndarray, "400 600 3"]:
    """A picture of the car in the valley. The environment `car` has the constants of the track."""
    left, right, position = float(car.min_position), float(car.max_position), float(state.position)
    x, y = _on_track(position, left, right)
    canvas = Canvas(600, 400, window=(0, 0, 600, 400), background=_valley(left, right))
    tilt = math.cos(3 * position)
    canvas.polygon(transformed(box(-20, 0, 20, 20), (x, y + 10), tilt), BLACK)
    for wheel in transformed([(-10, 0), (10, 0)], (x, y + 10), tilt).tolist():
        canvas.circle(tuple(wheel), 8, WHEEL_COLOR)
    x, y = _on_track(float(car.goal_position), left, right)
    canvas.line([(x + 0.5, y), (x + 0.5, y + 50)], BLACK, 1)
    canvas.polygon([(x, y + 50), (x, y + 40), (x + 25, y + 45)], FLAG_COLOR)
    return canvas.pixels()


@functools.cache
def _valley(left: float, right: float) -> UInt8[np.ndarray, "400 600 3"]:
    """The track alone. It is the same in every frame, so it is drawn once."""
    canvas = Canvas(600, 400, window=(0, 0, 600, 400))
    points = [_on_track(position, left, right) for position in np.linspace(left, right, 100).tolist()]
    canvas.line(np.array(points) + 0.5, BLACK, 1)
    return canvas.pixels()


def _on_track(position: float, left: float, right: float) -> tuple[float, float]:
    """(x, y) of a position in the picture, in pixels, y upwards."""
    scale = 600 / (right - left)
    return (position - left) * scale, (0.45 * math.sin(3 * position) + 0.55) * scale
