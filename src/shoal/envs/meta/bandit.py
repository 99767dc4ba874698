"""The base class of multi-armed bandits whose episodes have many pulls."""

import abc
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas, box
from shoal.core.env import Env, Key, State, Transition
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.meta.clock import elapsed
from shoal.envs.meta.picture import AGENT_COLOR, GOAL_COLOR, GRAY, WALL_COLOR


@struct
class BanditState(State):
    """The mean reward of each arm, the last action and reward, and the pulls of each arm (used by `render` only)."""

    means: Float[Array, "A"]
    action: Int[Array, ""]  # the last action; 0 at the start
    reward: Float[Array, ""]  # the last reward; 0 at the start
    pulls: Int[Array, "A"]


@struct
class Bandit(Env):
    """The base class of bandits. Subclasses define `sample_means`, `noise`, `arm_reward` and `observation_space`.

    Action: Discrete(`num_arms`), the arm to pull.

    Observation: Box(`num_arms` + 2), float32

    | part       | quantity                                                    |
    |------------|-------------------------------------------------------------|
    | 1          | the last reward; 0 at the start                             |
    | `num_arms` | the last action, one-hot; arm 0 at the start                |
    | 1          | the time, from -1 at the start to 1 after `max_steps` steps |

    End: never terminated; truncated after `max_steps` (100).
    """

    reset_every: ClassVar[int] = 100

    max_steps: Number | None = 100
    num_arms: int = static(2)

    def __post_init__(self) -> None:
        if self.num_arms < 2:
            raise ValueError(
                f"{type(self).__name__}.num_arms={self.num_arms} leaves nothing to choose: give 2 arms or more."
            )

    @abc.abstractmethod
    def sample_means(self, key: Key) -> Float[Array, "A"]:
        """The mean reward of each arm in one episode, [A]. `key` is consumed."""

    @abc.abstractmethod
    def arm_reward(self, arm: Int[Array, ""], mean: Float[Array, ""], noise: Any) -> Float[Array, ""]:
        """The reward of one pull of `arm`, which has the mean reward `mean`."""

    @property
    def action_space(self) -> Discrete:
        """One action for each arm."""
        return Discrete(self.num_arms)

    def init(self, key: Key) -> BanditState:
        """The first state: sample the means of the arms, unless fields set them."""
        return BanditState(
            time=jnp.int32(0),
            means=self.sample_means(key).astype(jnp.float32),
            action=jnp.int32(0),
            reward=jnp.float32(0),
            pulls=jnp.zeros(self.num_arms, jnp.int32),
        )

    def transition(self, state: BanditState, action: Int[Array, ""], noise: Any) -> Transition[BanditState]:
        """Pull an arm."""
        pulled = self._one_hot(action)
        mean = jnp.sum(jnp.where(pulled, state.means, 0.0))
        reward = self.arm_reward(action, mean, noise).astype(jnp.float32)
        state = state.replace(action=action, reward=reward, pulls=state.pulls + pulled.astype(jnp.int32))
        return state, reward, jnp.bool_(False), {}

    def observe(self, state: BanditState) -> Float[Array, "n"]:
        """The last reward, the last action (one-hot) and the time: [A + 2]."""
        time = 2 * elapsed(state.time, self.max_steps) - 1
        one_hot = self._one_hot(state.action).astype(jnp.float32)
        return jnp.concatenate([state.reward[None], one_hot, time[None]])

    def render(self, state: BanditState) -> UInt8[np.ndarray, "320 _ 3"]:
        """A bar for the mean of each arm (the best is green) and its number of pulls; the last arm is underlined."""
        means, pulls = np.asarray(state.means), np.asarray(state.pulls)
        width = max(320, 60 * self.num_arms)
        top, bottom = max(1.0, float(means.max())), min(0.0, float(means.min()))
        canvas = Canvas(width, 320)
        across = width / self.num_arms

        def height(value: float) -> float:
            return 250 - 190 * (value - bottom) / (top - bottom)

        for arm, mean in enumerate(means.tolist()):
            left, right = across * (arm + 0.2), across * (arm + 0.8)
            color = GOAL_COLOR if mean == means.max() else GRAY
            canvas.polygon(box(left, height(0.0), right, height(mean)), color)
            label = ((left + right) / 2, min(height(mean), height(0.0)) - 14)
            canvas.text(label, f"{mean:.2f}", color if color == GOAL_COLOR else BLACK, size=15, anchor="mm")
            canvas.text(((left + right) / 2, 280), f"{pulls[arm]} x", WALL_COLOR, size=15, anchor="mm")
        canvas.line([(0, height(0.0)), (width, height(0.0))], BLACK, 1)
        if int(state.time) > 0:
            left = across * int(state.action)
            canvas.line([(left + 0.2 * across, 296), (left + 0.8 * across, 296)], AGENT_COLOR, 5)
            canvas.text((width / 2, 20), f"last reward {float(state.reward):.2f}", size=16, anchor="mm")
        return canvas.pixels()

    def _one_hot(self, arm: Int[Array, ""]) -> Bool[Array, "A"]:
        return jnp.arange(self.num_arms, dtype=jnp.int32) == arm


def check_arm_values(owner: Any, name: str, count: int) -> None:
    """Convert a field with one value per arm to an array. Raises ValueError if its last axis is not `count`."""
    value = getattr(owner, name)
    if value is None:
        return
    if isinstance(value, (tuple, list)):
        value = np.asarray(value, np.float32)
        object.__setattr__(owner, name, value)
    shape = getattr(value, "shape", ())
    if not shape or shape[-1] != count:
        raise ValueError(
            f"{type(owner).__name__}.{name} has shape {tuple(shape)}; with num_arms={owner.num_arms} it needs {count} "
            "numbers (in a population, on the last axis)."
        )
