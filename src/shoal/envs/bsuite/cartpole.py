"""bsuite's own cart-pole: three actions, short steps, no fall, only a pole that must stay high and a cart in place.

Source: Barto, Sutton and Anderson 1983; bsuite 0.3.6 `environments/cartpole.py`, step for step.
"""

import math
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Key
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
    """Position and velocity of cart and pole, and the counters."""

    episode_return: Int[Array, ""]
    raw_return: Int[Array, ""]  # of all episodes so far
    best_episode: Int[Array, ""]  # the highest return of an episode that has ended


Pole = TypeVar("Pole", bound=PoleState)


@experiment("cartpole")
@struct
class BsuiteCartpole(Task):
    """Keep a pole high and its cart near the middle, for ten seconds of a hundredth each.

    Action: Discrete(3); 0 pushes the cart left with 10 N, 1 not at all, 2 right.

    Observation: Box(6), float32

    | i | quantity                         | low  | high |
    |---|----------------------------------|------|------|
    | 0 | cart position / `x_threshold`    | -inf | inf  |
    | 1 | cart velocity / `x_threshold`    | -inf | inf  |
    | 2 | sine of the pole's angle         | -1   | 1    |
    | 3 | cosine of the pole's angle       | -1   | 1    |
    | 4 | pole velocity, rad/s             | -inf | inf  |
    | 5 | time / `max_time`                | 0    | > 1  |

    Reward: 1 while the cosine is above `height_threshold` and |position| below `x_threshold`.
    Start: each quantity uniform in [-`init_range`, `init_range`].
    End: terminated on the first step without reward, or when more than `max_time` seconds are over: with the defaults
    on step 1001, since bsuite adds up hundredths in float64 and 1,000 of them fall short of 10.
    Differences from bsuite: the observation has shape (6,), not (1, 6); the state is float32 (float64 under x64); the
    clock counts steps, so it ends on the same step in either. `timescale` and `max_time` shape the program.
    """

    reset_every: ClassVar[int] = 40
    COUNTERS = ("raw_return", "best_episode")

    height_threshold: Number = 0.8
    x_threshold: Number = 3.0  # m
    init_range: Number = 0.05
    timescale: float = static(0.01)  # seconds a step
    max_time: float = static(10.0)  # seconds

    def __post_init__(self) -> None:
        check_pole(self)

    @property
    def longest_episode(self) -> int:
        """Until the time is over."""
        return steps_to_pass(self.max_time, self.timescale)

    @property
    def observation_space(self) -> Box:
        """Unbounded but for angle and time."""
        clock = self.longest_episode * self.timescale / self.max_time
        high = (math.inf, math.inf, 1, 1, math.inf, clock * (1 + 1e-6))
        return Box((-math.inf, -math.inf, -1, -1, -math.inf, 0), high, (6,))

    @property
    def action_space(self) -> Discrete:
        """Left, stay, right."""
        return Discrete(3)

    def init(self, key: Key) -> CartpoleState:
        """Nearly upright."""
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-1.0, maxval=1.0) * self.init_range
        none = jnp.int32(0)
        return CartpoleState(none, x, x_dot, theta, theta_dot, none, none, none)

    def transition(
        self, state: CartpoleState, action: Int[Array, ""], noise: None
    ) -> tuple[CartpoleState, Float[Array, ""], Bool[Array, ""], dict[str, Any]]:
        """Push, integrate, judge."""
        del noise
        state = swing(state, action, self.timescale)
        good = (sincos(state.theta)[1] > self.height_threshold) & (jnp.abs(state.x) < self.x_threshold)
        done = ~good | (state.time >= self.longest_episode)
        gained = good.astype(jnp.int32)
        total = state.episode_return + gained
        state = state.replace(
            episode_return=total,
            raw_return=state.raw_return + gained,
            best_episode=jnp.where(done, jnp.maximum(total, state.best_episode), state.best_episode),
        )
        return state, good.astype(jnp.float32), done, {}

    def observe(self, state: CartpoleState) -> Float[Array, "6"]:
        """Position, velocity, angle, angular velocity, time."""
        return pole_observation(state, self.x_threshold, self.timescale / self.max_time)

    def bsuite_info(self, state: CartpoleState) -> dict[str, Float[Array, ""]]:
        """All rewards, and the best episode."""
        return {"raw_return": as_real(state.raw_return), "best_episode": as_real(state.best_episode)}

    def render(self, state: CartpoleState) -> UInt8[np.ndarray, "400 600 3"]:
        """Cart, pole and track: the track's ends are the picture's."""
        return draw_pole(state, self.x_threshold)


def swing(state: Pole, action: Int[Array, ""], timescale: float) -> Pole:
    """One Euler step of cart and pole."""
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
    """What both cart-poles show; `clock` is a step in episodes."""
    sin, cos = sincos(state.theta)
    time = state.time.astype(jnp.float32) * np.float32(clock)
    seen = (state.x / x_threshold, state.x_dot / x_threshold, sin, cos, state.theta_dot, time, *more)
    return jnp.stack([part.astype(jnp.float32) for part in seen])


def steps_to_pass(max_time: float, timescale: float) -> int:
    """After how many steps a float64 clock that adds `timescale` each time shows more than `max_time`."""
    elapsed, steps = 0.0, 0
    while elapsed <= max_time:
        elapsed, steps = elapsed + timescale, steps + 1
    return steps


def check_pole(env: Any) -> None:
    """Raise ValueError for constants that no cart-pole can have."""
    check_range(env, "height_threshold", low=-1, high=1)
    check_range(env, "init_range", low=0)
    check_range(env, "x_threshold", "timescale", "max_time", above=0)
    if env.max_time / env.timescale > 1e6:
        raise ValueError(
            f"{type(env).__name__}: max_time={env.max_time} in steps of timescale={env.timescale} makes an episode of "
            "more than a million steps. Shorten the one or lengthen the other."
        )


def draw_pole(state: PoleState, x_threshold: Number) -> UInt8[np.ndarray, "400 600 3"]:
    """The drawing of the classic CartPole, on a track that reaches as far as the cart may go."""
    return ClassicCartPole(x_threshold=x_threshold, length=LENGTH).render(state)


def _wrapped(angle: Float[Array, ""]) -> Float[Array, ""]:
    turn = 2 * math.pi
    angle = jnp.where(angle < 0, angle + turn, angle)
    return jnp.where(angle >= turn, angle - turn, angle)
