"""PointRobot: search a half circle for a goal that is not observed.

Source: Dorfman, Shenfeld and Tamar 2021, "Offline meta reinforcement learning"; github.com/Rondorf/BOReL
`environments/toy_navigation/point_robot.py` (SparsePointEnv), step for step.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8

from shoal.canvas import Canvas
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_both_or_none, check_range
from shoal.envs.meta.clock import elapsed
from shoal.envs.meta.picture import AGENT_COLOR, GRAY, WALL_COLOR
from shoal.ops.trig import sincos

GOAL_TINT = (190, 224, 196)
STARTS = ("box", "half-disc", "origin")


@struct
class PointRobotState(State):
    """The positions of the point and of the goal, and the last action and reward."""

    position: Float[Array, "2"]
    goal: Float[Array, "2"]
    action: Float[Array, "2"]  # the last action, clipped; 0 at the start
    reward: Float[Array, ""]  # the last reward; 0 at the start


@env("PointRobot-v0")
@env("PointRobot-Respawn-v0", aliases=("PointRobot-misc",), start="half-disc", respawn=True, max_steps=100)
@struct
class PointRobot(Env):
    """Find a goal on a half circle and stay there (with `respawn`: reach it again and again). It is not observed.

    Action: Box(2), float32, the move in x and y, from -`max_force` to `max_force` (0.1). Larger moves are clipped.

    Observation: Box(6), float32

    | i    | quantity                                                | low  | high |
    |------|---------------------------------------------------------|------|------|
    | 0, 1 | position                                                | -inf | inf  |
    | 2    | last reward; 0 at the start                             | 0    | 1    |
    | 3, 4 | last action, clipped; 0 at the start                    | -0.1 | 0.1  |
    | 5    | time, from -1 at the start to 1 after `max_steps` steps | -1   | 1    |

    Reward: 1 if the position after the move is within `goal_radius` (0.2) of the goal, else 0. With `dense_reward`:
    minus the distance to the goal.
    Start: the goal is uniform on the upper half of a circle of radius `circle_radius` (1). The point is uniform in a
    box of 3 x 2 radii around the half circle (`start="box"`: x in [-1.5, 1.5], y in [-0.5, 1.5]), at a uniform
    distance and angle inside the half circle (`"half-disc"`), or at the center (`"origin"`).
    End: never terminated; truncated after `max_steps` (20). With `respawn` a point that reaches the goal is
    moved to a new start in the same episode (`PointRobot-Respawn-v0`: in the half disc, 100 steps).
    To choose the task, set `goal_x` and `goal_y`. They may be traced.

    Differences from BOReL: its observation is the position alone. `respawn` and `start="half-disc"` are gymnax's.
    """

    reset_every: ClassVar[int] = 20

    circle_radius: Number = 1.0
    goal_radius: Number = 0.2
    goal_x: Number | None = None
    goal_y: Number | None = None
    max_steps: Number | None = 20
    max_force: float = static(0.1)  # static: it is the bound of the action space
    start: str = static("box", choices=STARTS)
    respawn: bool = static(False, choices=(False, True))
    dense_reward: bool = static(False, choices=(False, True))

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise ValueError(f"start={self.start!r} is unknown. Choose one of: {', '.join(STARTS)}.")
        if not 0 < self.max_force < math.inf:
            raise ValueError(f"max_force={self.max_force} moves nothing: it must be above 0 and finite.")
        check_both_or_none(self, "goal_x", "goal_y")
        check_range(self, "circle_radius", "goal_radius", above=0)
        check_range(self, "goal_x", "goal_y")

    @property
    def observation_space(self) -> Box:
        """Position (unbounded), last reward, last action, time."""
        force, low, high = self.max_force, 0.0, 1.0
        if self.dense_reward:
            low, high = -math.inf, 0.0
        return Box(
            (-math.inf, -math.inf, low, -force, -force, -1.0), (math.inf, math.inf, high, force, force, 1.0), (6,)
        )

    @property
    def action_space(self) -> Box:
        """A move along each axis."""
        return Box(-self.max_force, self.max_force, (2,))

    def init(self, key: Key) -> PointRobotState:
        """The first state: a random goal on the half circle unless fields set it, and the start of the point."""
        k_goal, k_start = jax.random.split(key)
        position = self._start(jax.random.uniform(k_start, (2,)))
        if self.goal_x is None:
            sin, cos = sincos(jax.random.uniform(k_goal, maxval=math.pi))
            goal = self.circle_radius * jnp.stack([cos, sin])
        else:
            goal = jnp.stack([jnp.asarray(x, position.dtype) for x in (self.goal_x, self.goal_y)])
        return PointRobotState(
            time=jnp.int32(0),
            position=position,
            goal=goal,
            action=jnp.zeros_like(position),
            reward=jnp.float32(0),
        )

    def noise(self, key: Key) -> Float[Array, "2"] | None:
        """Two uniform numbers for the next start of the point; None without `respawn`."""
        return jax.random.uniform(key, (2,)) if self.respawn else None

    def transition(
        self, state: PointRobotState, action: Float[Array, "2"], noise: Float[Array, "2"] | None
    ) -> Transition[PointRobotState]:
        """Move, compute the reward and, with `respawn`, move a point that has reached the goal to a new start."""
        action = jnp.clip(action, -self.max_force, self.max_force).astype(state.position.dtype)
        position = state.position + action
        reward, reached = self._reward(position, state.goal)
        if noise is not None:
            position = jnp.where(reached, self._start(noise), position)
        return state.replace(position=position, action=action, reward=reward), reward, jnp.bool_(False), {}

    def observe(self, state: PointRobotState) -> Float[Array, "6"]:
        """Position, last reward, last action, time."""
        time = 2 * elapsed(state.time, self.max_steps) - 1
        last = jnp.concatenate([state.reward[None], state.action.astype(jnp.float32), time[None]])
        return jnp.concatenate([state.position.astype(jnp.float32), last])

    # What `ObserveGoal` needs.

    @property
    def goal_space(self) -> Box:
        """Positions."""
        return Box(-math.inf, math.inf, (2,))

    @property
    def goalless_space(self) -> Box:
        """Position (unbounded), last action, time."""
        force = self.max_force
        return Box((-math.inf, -math.inf, -force, -force, -1.0), (math.inf, math.inf, force, force, 1.0), (5,))

    def observe_goalless(self, state: PointRobotState) -> Float[Array, "5"]:
        """Position, last action, time: the observation without the last reward, which depends on the goal."""
        obs = self.observe(state)
        return jnp.concatenate([obs[:2], obs[3:]])

    def achieved_goal(self, state: PointRobotState) -> Float[Array, "2"]:
        """The position."""
        return state.position.astype(jnp.float32)

    def desired_goal(self, state: PointRobotState) -> Float[Array, "2"]:
        """The goal."""
        return state.goal.astype(jnp.float32)

    def goal_reward(self, achieved: Float[Array, "2"], desired: Float[Array, "2"]) -> Float[Array, ""]:
        """The reward of a move to the position `achieved`, where the goal is `desired`."""
        return self._reward(achieved, desired)[0]

    def render(self, state: PointRobotState) -> UInt8[np.ndarray, "340 480 3"]:
        """The half circle, the goal, the point, and its last move."""
        radius, reach = float(self.circle_radius), float(self.goal_radius)
        goal, point = np.asarray(state.goal, float), np.asarray(state.position, float)
        canvas = Canvas(480, 340, window=(-1.8 * radius, -0.8 * radius, 1.8 * radius, 1.75 * radius))
        canvas.circle(tuple(goal), reach, GOAL_TINT)
        angles = np.linspace(0, math.pi, 65)
        canvas.line(radius * np.stack([np.cos(angles), np.sin(angles)], 1), GRAY, 0.01 * radius)
        canvas.line([tuple(point - np.asarray(state.action, float)), tuple(point)], WALL_COLOR, 0.02 * radius)
        canvas.circle(tuple(point), 0.05 * radius, AGENT_COLOR)
        return canvas.pixels()

    def _reward(self, position: Float[Array, "2"], goal: Float[Array, "2"]) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """(the reward of a move to a position, whether it reached the goal)."""
        distance = jnp.sqrt(jnp.sum((position - goal) ** 2))
        reached = distance <= self.goal_radius
        return (-distance if self.dense_reward else reached).astype(jnp.float32), reached

    def _start(self, uniform: Float[Array, "2"]) -> Float[Array, "2"]:
        """A start of the point, [2], computed from two uniform numbers."""
        if self.start == "origin":
            return jnp.zeros_like(uniform)
        if self.start == "box":
            return self.circle_radius * (
                jnp.asarray([3.0, 2.0], uniform.dtype) * uniform - jnp.asarray([1.5, 0.5], uniform.dtype)
            )
        sin, cos = sincos(uniform[1] * math.pi)
        return self.circle_radius * uniform[0] * jnp.stack([cos, sin])
