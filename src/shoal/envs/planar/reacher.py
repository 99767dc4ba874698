"""PlanarReacher: move the tip of an arm to a goal. Unlike in MuJoCo's Reacher, segments do not affect each other.

Source: ivy_gym's Reacher (github.com/unifyai/gym `ivy_gym/reacher.py`), step for step, for any number of joints.
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
from shoal.envs.checks import check_both_or_none, check_range, concrete_cells
from shoal.ops.trig import sincos

GOAL_COLOR, JOINT_COLOR, TIP_COLOR = (150, 196, 255), (128, 128, 128), (202, 72, 62)


@struct
class PlanarReacherState(State):
    """Angle and angular velocity of each segment, and the goal of the tip."""

    angle: Float[Array, "J"]  # rad, counter-clockwise from the x axis (not from the previous segment); not wrapped
    velocity: Float[Array, "J"]  # rad/s
    goal: Float[Array, "2"]


@env("PlanarReacher-v0", aliases=("Reacher-misc",))
@struct
class PlanarReacher(Env):
    """Turn the segments of an arm, each one unit long, so that its tip moves to a goal and stays there.

    Action: Box(`num_joints`), float32, the torque on each segment, from -1 to 1. Larger torques are clipped.

    Observation: Box(3 `num_joints` + 2), float32

    | part         | quantity                       | low           | high         |
    |--------------|--------------------------------|---------------|--------------|
    | `num_joints` | cosine of each segment's angle | -1            | 1            |
    | `num_joints` | sine of each segment's angle   | -1            | 1            |
    | `num_joints` | angular velocities, rad/s      | -inf          | inf          |
    | 2            | the goal                       | -`num_joints` | `num_joints` |

    Reward: exp(-d^2), with the distance d from tip to goal after the step: between 0 and 1.
    Start: angles are uniform in +-pi, velocities in +-1, and the goal in the square of +-`num_joints`, whose corners
    are out of the arm's reach.
    End: never terminated; truncated after `max_steps` (100).
    To choose the goal, set `goal_x` and `goal_y`, within reach. They may be traced.

    Differences from ivy_gym: a time limit, as in gymnax; torques are clipped; the number of joints is a field.
    """

    reset_every: ClassVar[int] = 100

    torque_scale: Number = 1.0  # rad/s^2 at full torque
    dt: Number = 0.05  # seconds per step
    goal_x: Number | None = None
    goal_y: Number | None = None
    max_steps: Number | None = 100
    num_joints: int = static(2)

    def __post_init__(self) -> None:
        if self.num_joints < 1:
            raise ValueError(f"PlanarReacher.num_joints={self.num_joints} is too small: give 1 joint or more.")
        check_range(self, "torque_scale")
        check_range(self, "dt", above=0)
        check_both_or_none(self, "goal_x", "goal_y")
        for goal in concrete_cells(self.goal_x, self.goal_y):
            if not math.hypot(*goal) <= self.num_joints:
                raise ValueError(
                    f"the goal {goal} is out of reach: {self.num_joints} joints reach {self.num_joints} units."
                )

    @property
    def observation_space(self) -> Box:
        """Cosines and sines in [-1, 1], unbounded velocities, and the goal."""
        joints = self.num_joints
        high = (1.0,) * (2 * joints) + (math.inf,) * joints + (float(joints),) * 2
        return Box(tuple(-x for x in high), high, (len(high),))

    @property
    def action_space(self) -> Box:
        """A torque for each segment."""
        return Box(-1.0, 1.0, (self.num_joints,))

    def init(self, key: Key) -> PlanarReacherState:
        """The first state: random angles and velocities, and a random goal unless fields set it."""
        k_arm, k_goal = jax.random.split(key)
        angle, velocity = jax.random.uniform(k_arm, (2, self.num_joints), minval=-1.0)
        if self.goal_x is None:
            goal = self.num_joints * jax.random.uniform(k_goal, (2,), minval=-1.0)
        else:
            goal = jnp.stack([jnp.asarray(x, angle.dtype) for x in (self.goal_x, self.goal_y)])
        return PlanarReacherState(jnp.int32(0), angle * math.pi, velocity, goal)

    def transition(
        self, state: PlanarReacherState, action: Float[Array, "J"], noise: None
    ) -> Transition[PlanarReacherState]:
        """Integrate one step; then compute the reward."""
        del noise
        torque = jnp.clip(action, -1, 1).astype(state.angle.dtype)
        velocity = state.velocity + self.dt * (self.torque_scale * torque)
        state = state.replace(angle=state.angle + self.dt * velocity, velocity=velocity)
        sin, cos = sincos(state.angle)
        distance = (jnp.sum(cos) - state.goal[0]) ** 2 + (jnp.sum(sin) - state.goal[1]) ** 2
        return state, jnp.exp(-distance).astype(jnp.float32), jnp.bool_(False), {}

    def observe(self, state: PlanarReacherState) -> Float[Array, "n"]:
        """Cosines, sines, velocities, the goal."""
        sin, cos = sincos(state.angle)
        return jnp.concatenate([cos, sin, state.velocity, state.goal]).astype(jnp.float32)

    def render(self, state: PlanarReacherState) -> UInt8[np.ndarray, "400 400 3"]:
        """The arm, with a red tip, and the goal."""
        angle, goal = np.asarray(state.angle, float), np.asarray(state.goal, float)
        bound = self.num_joints + 0.2
        width = 0.05 * self.num_joints
        canvas = Canvas(400, 400, window=(-bound, -bound, bound, bound))
        joints = np.concatenate([np.zeros((1, 2)), np.cumsum(np.stack([np.cos(angle), np.sin(angle)], 1), axis=0)])
        canvas.circle(tuple(goal), 2 * width, GOAL_COLOR)
        canvas.line(joints, BLACK, width)
        for joint in joints[:-1]:
            canvas.circle(tuple(joint), width, JOINT_COLOR)
        canvas.circle(tuple(joints[-1]), width, TIP_COLOR)
        return canvas.pixels()
