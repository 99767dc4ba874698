"""PlanarSwimmer: swim to a goal and avoid urchins. Unlike MuJoCo's Swimmer, this one is a point.

Source: ivy_gym's Swimmer (github.com/unifyai/gym `ivy_gym/swimmer.py`), step for step.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.canvas import Canvas
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_both_or_none, check_range

WATER, URCHIN, GOAL_COLOR, FISH = (214, 236, 246), (70, 48, 84), (120, 190, 120), (232, 128, 50)


@struct
class PlanarSwimmerState(State):
    """Positions of urchins, swimmer and goal, and the velocity of the swimmer. Only the swimmer moves."""

    urchins: Float[Array, "U 2"]
    position: Float[Array, "2"]
    velocity: Float[Array, "2"]
    goal: Float[Array, "2"]


@env("PlanarSwimmer-v0", aliases=("Swimmer-misc",))
@struct
class PlanarSwimmer(Env):
    """Swim to a goal and stay there, without coming near the urchins.

    Action: Box(2), float32, the acceleration in x and y, from -1 to 1. Larger values are clipped.

    Observation: Box(2 `num_urchins` + 6), float32: x and y of each urchin (within +-1), of the position and of the
    velocity (both unbounded), and of the goal (within +-1; unbounded if fields set it).

    Reward: exp(-g^2 / 2) prod_u (1 - exp(-30 d_u^2)), with the distances g to the goal and d_u to each urchin after the
    step: between 0 and 1.
    Start: at rest; swimmer, goal and `num_urchins` urchins (5) are uniform in the square of +-1.
    End: never terminated; truncated after `max_steps` (500).
    To choose the goal, set `goal_x` and `goal_y`. They may be traced.

    Differences from ivy_gym: a time limit, as in gymnax; accelerations are clipped.
    """

    reset_every: ClassVar[int] = 500

    dt: Number = 0.05  # seconds per step
    goal_x: Number | None = None
    goal_y: Number | None = None
    max_steps: Number | None = 500
    num_urchins: int = static(5)

    def __post_init__(self) -> None:
        if self.num_urchins < 0:
            raise ValueError(f"PlanarSwimmer.num_urchins={self.num_urchins} is too small: give 0 or more.")
        check_range(self, "dt", above=0)
        check_both_or_none(self, "goal_x", "goal_y")
        check_range(self, "goal_x", "goal_y")

    @property
    def observation_space(self) -> Box:
        """Urchins, position, velocity, goal."""
        goal = (1.0 if self.goal_x is None else math.inf,) * 2
        high = (1.0,) * (2 * self.num_urchins) + (math.inf,) * 4 + goal
        return Box(tuple(-x for x in high), high, (len(high),))

    @property
    def action_space(self) -> Box:
        """An acceleration along each axis."""
        return Box(-1.0, 1.0, (2,))

    def init(self, key: Key) -> PlanarSwimmerState:
        """The first state: random positions, velocity 0; the goal as the fields say, if they are set."""
        positions = jax.random.uniform(key, (self.num_urchins + 2, 2), minval=-1.0)
        goal = positions[1]
        if self.goal_x is not None:
            goal = jnp.stack([jnp.asarray(x, goal.dtype) for x in (self.goal_x, self.goal_y)])
        return PlanarSwimmerState(jnp.int32(0), positions[2:], positions[0], jnp.zeros_like(goal), goal)

    def transition(
        self, state: PlanarSwimmerState, action: Float[Array, "2"], noise: None
    ) -> Transition[PlanarSwimmerState]:
        """Integrate one step; then compute the reward from the distances to goal and urchins."""
        del noise
        velocity = state.velocity + self.dt * jnp.clip(action, -1, 1).astype(state.velocity.dtype)
        position = state.position + self.dt * velocity
        to_goal = jnp.sum((position - state.goal) ** 2)
        to_urchins = jnp.sum((position[None] - state.urchins) ** 2, axis=-1)
        reward = jnp.exp(-0.5 * to_goal) * jnp.prod(1 - jnp.exp(-30 * to_urchins))
        return state.replace(position=position, velocity=velocity), reward.astype(jnp.float32), jnp.bool_(False), {}

    def observe(self, state: PlanarSwimmerState) -> Float[Array, "n"]:
        """Urchins, position, velocity, goal."""
        numbers = [state.urchins.ravel(), state.position, state.velocity, state.goal]
        return jnp.concatenate(numbers).astype(jnp.float32)

    def render(self, state: PlanarSwimmerState) -> UInt8[np.ndarray, "400 400 3"]:
        """An orange fish in the direction of its velocity, urchins with spikes, and a green goal."""
        position, velocity = np.asarray(state.position, float), np.asarray(state.velocity, float)
        bound = max(1.25, *abs(position).tolist(), *abs(np.asarray(state.goal, float)).tolist()) + 0.1
        canvas = Canvas(400, 400, window=(-bound, -bound, bound, bound), background=WATER)
        canvas.circle(tuple(np.asarray(state.goal, float)), 0.12, GOAL_COLOR)
        for urchin in np.asarray(state.urchins, float):
            for angle in np.arange(8) * math.pi / 8:
                spike = 0.13 * np.array([math.cos(angle), math.sin(angle)])
                canvas.line([tuple(urchin - spike), tuple(urchin + spike)], URCHIN, 0.015)
            canvas.circle(tuple(urchin), 0.07, URCHIN)
        heading = velocity / max(float(np.hypot(*velocity)), 1e-6) if velocity.any() else np.array([1.0, 0.0])
        aside = np.array([-heading[1], heading[0]])
        tail = position - 0.09 * heading
        canvas.polygon([tuple(position), *(tuple(tail - 0.06 * heading + s * 0.06 * aside) for s in (1, -1))], FISH)
        canvas.polygon([tuple(position + 0.11 * heading), tuple(position + 0.05 * aside),
                        tuple(tail), tuple(position - 0.05 * aside)], FISH)  # fmt: skip
        canvas.circle(tuple(position + 0.05 * heading), 0.012, (20, 20, 20))
        return canvas.pixels()
