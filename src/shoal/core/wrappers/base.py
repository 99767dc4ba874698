"""What every wrapper shares: a value around a value. What it does not change comes from the environment inside.

Constants of the inner environment are reached through it: `wrapper.env.gravity`, `wrapper.replace(env=...)`.
"""

from typing import Any

from jaxtyping import Array, Bool, Float

from shoal.core.env import Env, Observation, State
from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.core.struct import Number, struct


@struct
class Wrapper(Env):
    """An environment around another one, whose state it shares. Override the hooks that differ."""

    env: Env

    @property
    def revision(self) -> int:  # type: ignore[override]  # a wrapper has its environment's
        """The revision of the environment inside."""
        return self.env.revision

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # the same
        """How often the environment inside resets."""
        return self.env.reset_every

    @property
    def max_steps(self) -> Number | None:  # type: ignore[override]  # the same
        """The time limit of the environment inside."""
        return self.env.max_steps

    @property
    def longest_episode(self) -> int | None:
        """That of the environment inside."""
        return self.env.longest_episode

    @property
    def observation_space(self) -> Space:
        """That of the environment inside."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """That of the environment inside."""
        return self.env.action_space

    def init(self, key: Key) -> State:
        """The first state of the environment inside."""
        return self.env.init(key)

    def noise(self, key: Key) -> Any:
        """The noise of the environment inside."""
        return self.env.noise(key)

    def transition(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """The dynamics of the environment inside."""
        return self.env.transition(state, action, noise)

    def observe(self, state: State) -> Observation:
        """The observation of the environment inside."""
        return self.env.observe(state)

    def action_mask(self, state: State) -> Bool[Array, "A"] | None:
        """The mask of the environment inside."""
        return self.env.action_mask(state)

    def carry_over(self, ended: State, fresh: State) -> State:
        """What the environment inside keeps."""
        return self.env.carry_over(ended, fresh)

    def render(self, state: State) -> Any:
        """The picture of the environment inside."""
        return self.env.render(state)


@struct
class WrapperState(State):
    """A wrapper's own memory around the inner state. Both clocks show the same time."""

    inner: State


@struct
class StatefulWrapper(Wrapper):
    """A wrapper with a memory: its states derive from `WrapperState`.

    Subclasses write `init` and `transition`; they step the inner environment through `inner_transition`.
    """

    def inner_transition(
        self, state: WrapperState, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """The inner dynamics. `advance` has moved the outer clock only; this sets the inner one to it."""
        return self.env.transition(state.inner.replace(time=state.time), action, noise)

    def observe(self, state: WrapperState) -> Observation:
        """The observation of the environment inside."""
        return self.env.observe(state.inner)

    def action_mask(self, state: WrapperState) -> Bool[Array, "A"] | None:
        """The mask of the environment inside."""
        return self.env.action_mask(state.inner)

    def carry_over(self, ended: WrapperState, fresh: WrapperState) -> WrapperState:
        """What the environment inside keeps; the memory starts afresh."""
        return fresh.replace(inner=self.env.carry_over(ended.inner, fresh.inner))

    def render(self, state: WrapperState) -> Any:
        """The picture of the environment inside."""
        return self.env.render(state.inner)
