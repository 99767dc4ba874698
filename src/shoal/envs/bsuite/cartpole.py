"""bsuite's cart-pole: three actions and short steps; the pole must stay upright and the cart near the middle.

Source: Barto, Sutton and Anderson 1983; bsuite 0.3.6 `environments/cartpole.py`, step for step.
"""

import math
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.core.env import Key, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real
from shoal.envs.checks import check_range
from shoal.envs.classic.cartpole import CartPole as ClassicCartPole
from shoal.envs.classic.cartpole import CartPoleState as PoleState
from shoal.ops.trig import sincos

MASS_CART, MASS_POLE, LENGTH, FORCE, GRAVITY = 1.0, 0.1, 0.5, 10.0, 9.8  # kg, kg, half the pole in m, N, m/s^2


@struct
class CartpoleState(PoleState):
    """Position and velocity of cart and pole, and bsuite's counters."""

    episode_return: Int[Array, ""]
    raw_return: Int[Array, ""]  # of all episodes so far
    best_episode: Int[Array, ""]  # the highest return of a finished episode


Pole = TypeVar("Pole", bound=PoleState)


@experiment("cartpole")
@struct
class BsuiteCartpole(Task):
    """Keep a pole upright and its cart near the middle for ten seconds, in steps of 0.01 seconds.

    Action: Discrete(3); 0 pushes the cart to the left with 10 N, 1 does not push, 2 pushes it to the right.

    Observation: Box(6), float32

    | i | quantity                      | low  | high |
    |---|-------------------------------|------|------|
    | 0 | cart position / `x_threshold` | -inf | inf  |
    | 1 | cart velocity / `x_threshold` | -inf | inf  |
    | 2 | sine of the pole's angle      | -1   | 1    |
    | 3 | cosine of the pole's angle    | -1   | 1    |
    | 4 | pole velocity, rad/s          | -inf | inf  |
    | 5 | time / `max_time`             | 0    | > 1  |

    Reward: 1 if the cosine is above `height_threshold` and |position| below `x_threshold`, else 0.
    Start: position, angle and both velocities are uniform in [-`init_range`, `init_range`].
    End: terminated on the first step without reward, or when more than `max_time` seconds have passed: with the
    defaults on step 1001, since bsuite adds 0.01 per step in float64, and 1,000 of these sum to less than 10.
    Differences from bsuite: the observation has shape (6,), not (1, 6); the state is float32 (float64 under x64); time
    is counted in steps, so the episode ends on the same step in both. `timescale` and `max_time` are static fields.
    """

    reset_every: ClassVar[int] = 40
    COUNTERS = ("raw_return", "best_episode")

    height_threshold: Number = 0.8
    x_threshold: Number = 3.0  # m
    init_range: Number = 0.05
    timescale: float = static(0.01)  # seconds per step
    max_time: float = static(10.0)  # seconds

    def __post_init__(self) -> None:
        check_pole(self)

    @property
    def longest_episode(self) -> int:
        """The step after which more than `max_time` seconds have passed."""
        return steps_to_exceed(self.max_time, self.timescale)

    @property
    def observation_space(self) -> Box:
        """Sine and cosine in [-1, 1], time from 0, all else unbounded."""
        clock = self.longest_episode * self.timescale / self.max_time
        high = (math.inf, math.inf, 1, 1, math.inf, clock * (1 + 1e-6))
        return Box((-math.inf, -math.inf, -1, -1, -math.inf, 0), high, (6,))

    @property
    def action_space(self) -> Discrete:
        """Push left, do not push, push right."""
        return Discrete(3)

    def init(self, key: Key) -> CartpoleState:
        """The first state: nearly upright."""
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-1.0, maxval=1.0) * self.init_range
        zero = jnp.int32(0)
        return CartpoleState(zero, x, x_dot, theta, theta_dot, zero, zero, zero)

    def transition(self, state: CartpoleState, action: Int[Array, ""], noise: None) -> Transition[CartpoleState]:
        """Push the cart and integrate one step; then compute reward, termination and counters."""
        del noise
        state = integrate(state, action, self.timescale)
        good = (sincos(state.theta)[1] > self.height_threshold) & (jnp.abs(state.x) < self.x_threshold)
        done = ~good | (state.time >= self.longest_episode)
        reward = good.astype(jnp.int32)
        total = state.episode_return + reward
        state = state.replace(
            episode_return=total,
            raw_return=state.raw_return + reward,
            best_episode=jnp.where(done, jnp.maximum(total, state.best_episode), state.best_episode),
        )
        return state, good.astype(jnp.float32), done, {}

    def observe(self, state: CartpoleState) -> Float[Array, "6"]:
        """Position, velocity, sine and cosine of the angle, angular velocity, time."""
        return pole_observation(state, self.x_threshold, self.timescale / self.max_time)

    def bsuite_info(self, state: CartpoleState) -> dict[str, Float[Array, ""]]:
        """The sum of all rewards, and the return of the best episode."""
        return {"raw_return": as_real(state.raw_return), "best_episode": as_real(state.best_episode)}

    def render(self, state: CartpoleState) -> UInt8[np.ndarray, "400 600 3"]:
        """Cart, pole and track. The picture is as wide as the track."""
        return draw_pole(state, self.x_threshold)


def integrate(state: Pole, action: Int[Array, ""], timescale: float) -> Pole:
    """Cart and pole one Euler step of `timescale` seconds later, with the force of `action`."""
    force = (action - 1).astype(state.x.dtype) * FORCE
    sin, cos = sincos(state.theta)
    total, pole = MASS_CART + MASS_POLE, MASS_POLE * LENGTH
    push = (force + pole * state.theta_dot**2 * sin) / total
    theta_acc = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - MASS_POLE * cos**2 / total))
    x_acc = push - pole * theta_acc * cos / total
    return state.replace(
        x=state.x + timescale * state.x_dot,
        x_dot=state.x_dot + timescale * x_acc,
        theta=_wrapped(state.theta + timescale * state.theta_dot),
        theta_dot=state.theta_dot + timescale * theta_acc,
    )


def pole_observation(state: PoleState, x_threshold: Number, clock: float, *more: Any) -> Float[Array, "..."]:
    """The observation of both cart-pole tasks, [6 + len(more)]. `clock` is one step as a fraction of `max_time`."""
    sin, cos = sincos(state.theta)
    time = state.time.astype(jnp.float32) * np.float32(clock)
    observed = (state.x / x_threshold, state.x_dot / x_threshold, sin, cos, state.theta_dot, time, *more)
    return jnp.stack([part.astype(jnp.float32) for part in observed])


def steps_to_exceed(max_time: float, timescale: float) -> int:
    """The number of times that `timescale` must be added, in float64, to get more than `max_time`."""
    elapsed, steps = 0.0, 0
    while elapsed <= max_time:
        elapsed, steps = elapsed + timescale, steps + 1
    return steps


def check_pole(env: Any) -> None:
    """Raise ValueError for fields of a cart-pole task that are out of range."""
    check_range(env, "height_threshold", low=-1, high=1)
    check_range(env, "init_range", low=0)
    check_range(env, "x_threshold", "timescale", "max_time", above=0)
    if env.max_time / env.timescale > 1e6:
        raise ValueError(
            f"{type(env).__name__}: max_time={env.max_time} in steps of timescale={env.timescale} makes an episode of "
            "more than a million steps. Give a smaller max_time or a larger timescale."
        )


def draw_pole(state: PoleState, x_threshold: Number) -> UInt8[np.ndarray, "400 600 3"]:
    """The picture of the classic CartPole, on a track that ends at +-`x_threshold`."""
    return ClassicCartPole(x_threshold=x_threshold, length=LENGTH).render(state)


def _wrapped(angle: Float[Array, ""]) -> Float[Array, ""]:
    turn = 2 * math.pi
    angle = jnp.where(angle < 0, angle + turn, angle)
    return jnp.where(angle >= turn, angle - turn, angle)
