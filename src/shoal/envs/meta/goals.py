"""CartPole and Pendulum with goals: reach a position that is sampled for every episode, whatever the task was before.

Source: Lu, Willi, Letcher and Foerster 2023, "Adversarial Cheap Talk" (ICML), section 4.2; the authors' repository
luchris429/adversarial-cheap-talk, `act/cartpole_goal.py` and `act/pendulum_goal.py`.
"""

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.core.env import Key, Observation
from shoal.core.registry import env
from shoal.core.spaces import Box, Dict, Space
from shoal.core.struct import struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState
from shoal.envs.bounds import highest
from shoal.envs.classic.cartpole import CartPole, CartPoleState
from shoal.envs.classic.pendulum import Pendulum, PendulumState
from shoal.ops.trig import sincos

GOAL_COLOR = (0, 158, 115)


@struct
class GoalState(WrapperState):
    """The inner state and the goal of this episode."""

    goal: Float[Array, "G"]


@struct
class Goal(StatefulWrapper):
    """The base class of environments with goals. Subclasses define `goal_space`, `sample_goal` and `position`."""

    @property
    @abc.abstractmethod
    def goal_space(self) -> Box:
        """The space of goals, and of the positions that are compared with them."""

    @abc.abstractmethod
    def sample_goal(self, key: Key) -> Float[Array, "G"]:
        """Sample the goal of an episode. `key` is consumed."""

    @abc.abstractmethod
    def position(self, inner: Any) -> Float[Array, "G"]:
        """Return the position in an inner state."""

    @property
    def observation_space(self) -> Dict:
        """A Dict of the inner observation and the goal."""
        return Dict({"observation": self.env.observation_space, "goal": self.goal_space})

    def init(self, key: Key) -> GoalState:
        """Return the first state, with a new goal."""
        k_goal, k_inner = jax.random.split(key)
        inner = self.env.init(k_inner)
        return GoalState(time=inner.time, inner=inner, goal=self.sample_goal(k_goal).astype(jnp.float32))

    def transition(self, state: GoalState, action: Any, noise: Any) -> tuple[GoalState, Any, Any, Any]:
        """Step the inner environment; the reward is exp(-d^2), where d is the distance of position and goal."""
        inner, _, terminated, info = self.inner_transition(state, action, noise)
        reward = self.goal_reward(self.position(inner), state.goal)
        return state.replace(time=inner.time, inner=inner), reward, terminated, info

    def observe(self, state: GoalState) -> dict[str, Array]:
        """Return the inner observation and the goal."""
        return {"observation": self.env.observe(state.inner), "goal": state.goal}

    # What `ObserveGoal` needs.

    @property
    def goalless_space(self) -> Space:
        """The observation space of the inner environment."""
        return self.env.observation_space

    def observe_goalless(self, state: GoalState) -> Observation:
        """Return the inner observation."""
        return self.env.observe(state.inner)

    def achieved_goal(self, state: GoalState) -> Float[Array, "G"]:
        """Return the position."""
        return self.position(state.inner)

    def desired_goal(self, state: GoalState) -> Float[Array, "G"]:
        """Return the goal of the episode."""
        return state.goal

    def goal_reward(self, achieved: Float[Array, "G"], desired: Float[Array, "G"]) -> Float[Array, ""]:
        """Return exp(-d^2), where d is the distance of the goals."""
        return jnp.exp(-jnp.sum((achieved - desired) ** 2)).astype(jnp.float32)


@env("CartPoleGoal-v0")
@struct
class CartPoleGoal(Goal):
    """Balance the pole of CartPole, with the cart at a position that is sampled for every episode.

    Action: Discrete(2), as in CartPole.

    Observation: a Dict of

    | part          | quantity                                     |
    |---------------|----------------------------------------------|
    | `observation` | the observation of CartPole, Box(4), float32 |
    | `goal`        | the position to reach, m, Box(1), float32    |

    Reward: exp(-(position - goal)^2) after every step, in [0, 1].
    Start: as in CartPole; the goal is uniform in +-`x_threshold` of CartPole (2.4 m).
    End: as in CartPole, with a time limit of 200 steps. `env.env` is the inner CartPole, whose fields set all this.
    Differences from the source: the time limit truncates and does not terminate; a new goal is sampled in every
    episode.
    """

    env: CartPole = CartPole(max_steps=200)

    @property
    def goal_space(self) -> Box:
        """Positions within the track."""
        limit = highest(self.env.x_threshold)
        return Box(-limit, limit, (1,))

    def sample_goal(self, key: Key) -> Float[Array, "1"]:
        """A uniform position on the track."""
        limit = self.env.x_threshold
        return jax.random.uniform(key, (1,), minval=-limit, maxval=limit)

    def position(self, inner: CartPoleState) -> Float[Array, "1"]:
        """The position of the cart."""
        return inner.x[None].astype(jnp.float32)

    def render(self, state: GoalState) -> UInt8[np.ndarray, "400 600 3"]:
        """The picture of CartPole with a green line at the goal."""
        picture = np.array(self.env.render(state.inner))  # type: ignore[arg-type]  # its state
        across = 300 + 300 / float(self.env.x_threshold) * float(state.goal[0])
        left = int(np.clip(across - 2, 0, 596))
        picture[300:, left : left + 4] = GOAL_COLOR
        return picture


@env("PendulumGoal-v0")
@struct
class PendulumGoal(Goal):
    """Turn the rod of Pendulum to an angle that is sampled for every episode, and keep it there.

    Action: Box(1), as in Pendulum.

    Observation: a Dict of

    | part          | quantity                                                     |
    |---------------|--------------------------------------------------------------|
    | `observation` | the observation of Pendulum, Box(3), float32                 |
    | `goal`        | cosine and sine of the angle to reach, Box(2), float32       |

    Reward: exp(-d^2) after every step, where d is the distance of (cosine, sine) of the angle and the goal: between
    exp(-4) and 1.
    Start: as in Pendulum; the angle of the goal is uniform.
    End: as in Pendulum (200 steps). `env.env` is the inner Pendulum.
    Differences from the source: it compares the sine of the angle with the cosine of the goal, and the state before
    the step; here both are as described.
    """

    env: Pendulum = Pendulum()

    @property
    def goal_space(self) -> Box:
        """Cosines and sines."""
        return Box(-1.0, 1.0, (2,))

    def sample_goal(self, key: Key) -> Float[Array, "2"]:
        """Cosine and sine of a uniform angle."""
        return self._point(jax.random.uniform(key, minval=-math.pi, maxval=math.pi))

    def position(self, inner: PendulumState) -> Float[Array, "2"]:
        """Cosine and sine of the angle of the rod."""
        return self._point(inner.theta)

    def render(self, state: GoalState) -> UInt8[np.ndarray, "500 500 3"]:
        """The picture of Pendulum with a green square where the end of the rod should be."""
        picture = np.array(self.env.render(state.inner))  # type: ignore[arg-type]  # its state
        cos, sin = (float(x) for x in state.goal)
        row, column = round(250 - cos * 250 / 2.2), round(250 - sin * 250 / 2.2)  # upright is up, angles go to the left
        picture[row - 8 : row + 8, column - 8 : column + 8] = GOAL_COLOR
        return picture

    def _point(self, angle: Array) -> Float[Array, "2"]:
        sin, cos = sincos(angle)
        return jnp.stack([cos, sin]).astype(jnp.float32)
