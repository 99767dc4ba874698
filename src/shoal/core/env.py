"""The environment contract: a value whose hooks are pure, unbatched functions. The caller vmaps.

All randomness of a step is drawn in one place (`noise`), so the dynamics (`transition`) are a pure function of state,
action and noise: a test can replay the same noise into a reference implementation, and a rollout can draw the noise of
many steps at once, outside its hot loop.
"""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import Key
from shoal.core.spaces import Space, as_element, explain, misfit
from shoal.core.struct import Number, Struct, is_concrete, struct

Observation = Any
LONGEST = 2**31 - 1  # steps that a state counts


@struct
class State(Struct):
    """What every environment state has; subclass it with `@struct` and add fields."""

    time: Int[Array, ""]  # steps taken in this episode


class Env(Struct, abc.ABC):
    """A world. Subclass it, decorate the class with `@struct`, and write the hooks; the rest is derived here, once.

    Hooks to write: `init`, `transition`, `observe`, `observation_space`, `action_space`; and where they apply `noise`,
    `action_mask`, `carry_over`, `render` and a field `max_steps`.
    """

    # What changed in our own version of this world since it was first published here; written into every manifest.
    revision: ClassVar[int] = 1
    # About how many steps lie between two resets of one environment under a random policy; sizes the rollout's reset
    # bank. A contract test holds it to this: less than 1 % of resets may reuse a state of the bank.
    reset_every: ClassVar[int] = 8
    # A time limit in steps (an episode that reaches it is truncated), or None. Declare it as a field to make it traced.
    max_steps: Number | None = None

    @property
    def longest_episode(self) -> int | None:
        """Steps after which the world itself ends an episode at the latest; None where it may go on for ever."""
        return None

    def __post_init__(self) -> None:
        limit = self.max_steps
        if limit is None or not is_concrete(limit):
            return
        wrong = [x for x in np.ravel(limit).tolist() if not (1 <= x <= LONGEST and x == int(x))]
        if wrong:
            raise ValueError(
                f"{type(self).__name__}.max_steps={wrong[0]} is no time limit: it must be a whole number of steps from "
                f"1 to {LONGEST:,}, or None for no limit."
            )

    @abc.abstractmethod
    def init(self, key: Key) -> State:
        """The first state of an episode, with `time = 0`. `key` is consumed."""

    def noise(self, key: Key) -> Any:
        """All randomness of one step; None where the dynamics are deterministic. `key` is consumed."""
        del key

    @abc.abstractmethod
    def transition(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """The dynamics: (next state, reward, terminated, info). `state.time` already counts this step."""

    @abc.abstractmethod
    def observe(self, state: State) -> Observation:
        """What the agent sees of a state, in the smallest honest dtype."""

    def action_mask(self, state: State) -> Bool[Array, "A"] | None:
        """Which actions are allowed in a state; None where all always are."""
        del state
        return None

    def carry_over(self, ended: State, fresh: State) -> State:
        """What survives from an ended episode into the fresh state that follows it in a rollout. Default: nothing."""
        del ended
        return fresh

    def render(self, state: State) -> Any:
        """A picture of one concrete state: uint8 [H, W, 3]. Runs on the host."""
        raise NotImplementedError(f"{type(self).__name__} has no picture: define render(state) -> uint8 [H, W, 3].")

    @property
    @abc.abstractmethod
    def observation_space(self) -> Space:
        """Where every observation lies."""

    @property
    @abc.abstractmethod
    def action_space(self) -> Space:
        """Which actions exist."""

    # Derived; never overridden.

    def advance(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """One step under given noise: (state, reward, terminated, truncated, info).

        `truncated` is the time limit alone; both flags may be true, and then termination decides the bootstrap.
        """
        state = state.replace(time=state.time + 1)
        state, reward, terminated, info = self.transition(state, action, noise)
        if self.max_steps is None:
            truncated = jnp.zeros_like(terminated)
        else:
            truncated = state.time >= self.max_steps
        return state, reward, terminated, truncated, info

    def reset(self, key: Key) -> tuple[Observation, State]:
        """The first observation and state of an episode. `key` is consumed."""
        state = self.init(key)
        return self.observe(state), state

    def step(
        self, key: Key, state: State, action: Any
    ) -> tuple[Observation, State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """One step: (observation, state, reward, terminated, truncated, info). `key` is consumed.

        It never resets: after the end of an episode call `reset`, or use `shoal.rollout`, which does both. `action` is
        an element of `action_space`; a Python or NumPy number is converted to its dtype. Raises ValueError for an
        action of the wrong shape or dtype, and, where the action is a number that can be looked at (outside `jit` and
        `vmap`), for one out of bounds. Compiled code pays nothing for this.
        """
        action = as_element(self.action_space, action)
        _check_action(self, action)
        state, reward, terminated, truncated, info = self.advance(state, action, self.noise(key))
        return self.observe(state), state, reward, terminated, truncated, info


def _check_action(env: Env, action: Any) -> None:
    space = env.action_space
    looked_at = explain if all(is_concrete(leaf) for leaf in jax.tree.leaves(action)) else misfit
    reason = looked_at(space, action, "action")
    if reason:
        raise ValueError(
            f"{reason}. The action space of {type(env).__name__} is {space}; "
            "`env.action_space.sample(key)` draws an example."
        )


def episode_limit(env: Env) -> int | None:
    """Steps after which an episode is over at the latest, by the world's time limit or by itself; None: maybe never.

    The largest of several numbers, and None for one that is being traced.
    """
    known = [x for x in (env.max_steps, env.longest_episode) if x is not None and is_concrete(x)]
    return min((int(np.max(x)) for x in known), default=None)
