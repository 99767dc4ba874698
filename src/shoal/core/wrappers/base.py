"""The base classes of wrappers. A wrapper has a field `env` and forwards to it every hook that it does not override.

To read or change constants of the inner environment use this field: `wrapper.env.gravity`, `wrapper.replace(env=...)`.
"""

from typing import Any

from jaxtyping import Array, Bool

from shoal.core.env import Env, Observation, State, Transition
from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.core.struct import Number, Value, struct


@struct
class Wrapper(Env):
    """An environment made from another one, with the same states. Override the hooks that differ."""

    env: Env

    def __new__(cls: type[Value], *args: Any, **fields: Any) -> Value:
        """Raise TypeError for an inner environment that is a name, a class, or of another library.

        A subclass that declares `env: Any` checks it itself.
        """
        wrapper = super().__new__(cls, *args, **fields)
        given = [*args[:1], *(value for name, value in fields.items() if name == "env")]
        if given and cls.__dataclass_fields__["env"].type is not Any:  # type: ignore[attr-defined]  # it is a dataclass
            _check_env(cls.__name__, given[0])
        return wrapper

    @property
    def revision(self) -> int:  # type: ignore[override]  # a wrapper has its environment's
        """The revision of the inner environment."""
        return self.env.revision

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # the same
        """Steps between two resets of the inner environment (see `Env.reset_every`)."""
        return self.env.reset_every

    @property
    def max_steps(self) -> Number | None:  # type: ignore[override]  # the same
        """The time limit of the inner environment."""
        return self.env.max_steps

    @property
    def limit_range(self) -> tuple[Number, Number] | None:
        """The smallest and the largest time limit: those of the inner environment, or `max_steps` if it is not None."""
        return self.env.limit_range if self.max_steps is None else (self.max_steps, self.max_steps)

    @property
    def longest_episode(self) -> int | None:
        """The longest episode of the inner environment."""
        return self.env.longest_episode

    @property
    def observation_space(self) -> Space:
        """The observation space of the inner environment."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """The action space of the inner environment."""
        return self.env.action_space

    def init(self, key: Key) -> State:
        """Return the first state of the inner environment."""
        return self.env.init(key)

    def noise(self, key: Key) -> Any:
        """Sample the noise of the inner environment."""
        return self.env.noise(key)

    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """Apply the dynamics of the inner environment."""
        return self.env.transition(state, action, noise)

    def inner_pair(self, state: State) -> tuple[Env, State]:
        """Return the environment that acts in a state, and its own state in it. Default: `env` and the same state."""
        return self.env, state

    def observe(self, state: State) -> Observation:
        """Return the observation of the inner environment."""
        env, inner = self.inner_pair(state)
        return env.observe(inner)

    def action_mask(self, state: State) -> Bool[Array, "A"] | None:
        """Return the action mask of the inner environment."""
        env, inner = self.inner_pair(state)
        return env.action_mask(inner)

    def carry_over(self, ended: State, fresh: State) -> State:
        """Return the next episode's first state with what the inner environment keeps of the last episode."""
        return self.env.carry_over(ended, fresh)

    def limit_of(self, state: State) -> Number | None:
        """Return the time limit of the inner environment's episode, or `max_steps` if it is not None."""
        env, inner = self.inner_pair(state)
        return env.limit_of(inner) if self.max_steps is None else self.max_steps

    def render(self, state: State) -> Any:
        """Return the picture of the inner environment."""
        env, inner = self.inner_pair(state)
        return env.render(inner)

    def mission_text(self, state: State) -> str:
        """Return the instruction of the inner environment."""
        env, inner = self.inner_pair(state)
        return env.mission_text(inner)


def _check_env(wrapper: str, env: Any) -> None:
    if isinstance(env, Env):
        return
    what = "an environment of shoal"
    if isinstance(env, str):
        raise TypeError(f"{wrapper} wraps {what}, not a name: write {wrapper}(shoal.make({env!r}), ...).")
    if isinstance(env, type):
        raise TypeError(f"{wrapper} wraps {what}, not a class: write {wrapper}({env.__name__}(), ...).")
    raise TypeError(f"{wrapper} wraps {what}, not a value of {type(env).__name__}.")


@struct
class WrapperState(State):
    """The base class of states that a wrapper adds fields to. `time` and `inner.time` are equal."""

    inner: State


@struct
class StatefulWrapper(Wrapper):
    """The base class of wrappers with a state of their own, which derives from `WrapperState`.

    Subclasses write `init` and `transition`; `transition` steps the inner environment with `inner_transition`.
    """

    def inner_pair(self, state: WrapperState) -> tuple[Env, State]:
        """Return `env` and the inner state."""
        return self.env, state.inner

    def inner_transition(self, state: WrapperState, action: Any, noise: Any) -> Transition[State]:
        """Apply the inner dynamics after setting `inner.time` to `time`: `advance` increases only the outer one."""
        env, inner = self.inner_pair(state)
        return env.transition(inner.replace(time=state.time), action, noise)

    def carry_over(self, ended: WrapperState, fresh: WrapperState) -> WrapperState:
        """Return `fresh` with what the inner environment keeps; the wrapper's own fields are those of `fresh`."""
        env, inner = self.inner_pair(fresh)
        return fresh.replace(inner=env.carry_over(ended.inner, inner))
