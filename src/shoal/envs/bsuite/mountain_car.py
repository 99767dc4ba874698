"""bsuite's mountain car: the classic one with the time in the observation and 1,000 steps per episode.

Source: Moore 1990; bsuite 0.3.6 `environments/mountain_car.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.core.env import Key, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real, longest
from shoal.envs.checks import check_range
from shoal.envs.classic.mountain_car import MountainCar as ClassicMountainCar
from shoal.envs.classic.mountain_car import MountainCarState as ClassicMountainCarState
from shoal.envs.classic.mountain_car import draw, roll

TRACK = ClassicMountainCar()  # constants of the classic environment, used unchanged


@struct
class MountainCarState(ClassicMountainCarState):
    """Position and velocity of the car, and bsuite's counter."""

    steps: Int[Array, ""]  # in all episodes so far


@experiment("mountain_car")
@struct
class BsuiteMountainCar(Task):
    """Drive an underpowered car up the right hill of a valley.

    Action: Discrete(3); 0 accelerates to the left, 1 not at all, 2 to the right.

    Observation: Box(3), float32

    | i | quantity               | low   | high |
    |---|------------------------|-------|------|
    | 0 | position               | -1.2  | 0.6  |
    | 1 | velocity               | -0.07 | 0.07 |
    | 2 | time / `episode_steps` | 0     | 1    |

    Reward: -1 on every step.
    Start: the position is uniform in [-0.6, -0.4], the velocity is 0.
    End: terminated when the position is at least 0.5, and after `episode_steps` steps.
    Differences from bsuite: the observation has shape (3,), not (1, 3); the state is float32 (float64 under x64); its
    `max_steps` is called `episode_steps`, since in shoal `max_steps` truncates, but this limit terminates.
    """

    reset_every: ClassVar[int] = 900
    COUNTERS = ("steps",)

    episode_steps: Number = 1000

    def __post_init__(self) -> None:
        check_range(self, "episode_steps", low=1, whole=True)

    @property
    def longest_episode(self) -> int:
        """The step after which every episode ends."""
        return longest(self.episode_steps, 1000)

    @property
    def observation_space(self) -> Box:
        """Positions on the track, velocities up to the largest speed, and the time."""
        return Box((-1.2, -0.07, 0), (0.6, 0.07, 1), (3,))

    @property
    def action_space(self) -> Discrete:
        """Accelerate left, not at all, right."""
        return Discrete(3)

    def init(self, key: Key) -> MountainCarState:
        """The first state: near the lowest point of the valley, at rest."""
        position = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        return MountainCarState(jnp.int32(0), position, jnp.zeros_like(position), jnp.int32(0))

    def transition(self, state: MountainCarState, action: Int[Array, ""], noise: None) -> Transition[MountainCarState]:
        """Accelerate and move the car one step; then compute termination and the counter."""
        del noise
        push = (action - 1).astype(state.velocity.dtype) * TRACK.force
        rolled = roll(TRACK, state, push)
        state = state.replace(position=rolled.position, velocity=rolled.velocity, steps=state.steps + 1)
        done = (state.position >= TRACK.goal_position) | (state.time >= self.episode_steps)
        return state, jnp.float32(-1), done, {}

    def observe(self, state: MountainCarState) -> Float[Array, "3"]:
        """Position, velocity, time."""
        time = state.time.astype(jnp.float32) / as_real(self.episode_steps)
        return jnp.stack([state.position.astype(jnp.float32), state.velocity.astype(jnp.float32), time])

    def bsuite_info(self, state: MountainCarState) -> dict[str, Float[Array, ""]]:
        """The sum of all rewards."""
        return {"raw_return": -as_real(state.steps)}

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "400 600 3"]:
        """The valley, the car, and a flag at the goal."""
        return draw(TRACK, state)
