"""The base class of environments. An environment is a value whose hooks are pure functions of one unbatched state.

The caller batches with `jax.vmap`. All random numbers of a step are sampled by one hook (`noise`), so the dynamics
(`transition`) are a pure function of state, action and noise. A test can therefore give the same noise to a reference
implementation, and a rollout can sample the noise of many steps at once, outside its loop over steps.
"""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.aliases import GYMNAX_ATTRIBUTES, GYMNAX_CONSTANTS
from shoal.core.errors import refuse_attributes
from shoal.core.keys import Key, is_key
from shoal.core.process import check_process
from shoal.core.spaces import Space, as_element, explain, misfit
from shoal.core.struct import Number, Struct, is_concrete, struct

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

Observation = Any
NAN_STATE = "a reward, or a number in the state of the environment, was NaN"  # why a return is NaN
MOST_SEARCHED = 64  # numbers of a state in whose arrays NaN is looked for: in each step, so it must cost nothing
MAX_INT = 2**31 - 1  # the largest int32
MAX_TIME = MAX_INT  # the largest number of steps that `State.time`, an int32, can hold


@struct
class State(Struct):
    """The base class of environment states. Subclass it with `@struct` and add fields."""

    time: Int[Array, ""]  # steps taken in this episode


StateOf = TypeVar("StateOf", bound=State)
# The result of `Env.transition`: (next state, reward, terminated, info).
Transition = tuple[StateOf, Float[Array, ""], Bool[Array, ""], dict[str, Any]]


def _called_as(call: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """A method of `Env` that raises TypeError with the right `call` for the arguments of Gymnasium or of gymnax.

    Gymnasium gives no random key, and gymnax gives the constants of the environment after the other arguments.
    """

    def decorate(method: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        bind, parameters = inspect.signature(method).bind, len(inspect.signature(method).parameters)

        @functools.wraps(method)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            check_process()
            try:
                key = bind(*args, **kwargs).arguments["key"]
            except TypeError:
                key = None
            if len(args) > parameters or {"params", "env_params"} & {*kwargs}:
                raise TypeError(f"the call is {call}, without params: {GYMNAX_CONSTANTS}.")
            if not is_key(key) and not getattr(key, "shape", ()):
                raise TypeError(
                    f"the call is {call}, with a random key such as shoal.make_key(0): an environment is a value and "
                    f"keeps neither its state nor a seed."
                )
            return method(*args, **kwargs)

        return checked

    return decorate


class Env(Struct, abc.ABC):
    """An environment. Subclass it, decorate the class with `@struct`, and write the hooks.

    Required hooks: `init`, `transition`, `observe`, `observation_space`, `action_space`. Optional ones: `noise`,
    `action_mask`, `carry_over`, `limit_of`, `render`, and a field `max_steps`. This class derives `advance`, `reset`
    and `step` from them; do not override these three.
    """

    # The version of this environment in shoal. It is raised when the behaviour changes, and every run stores it.
    revision: ClassVar[int] = 1
    # The approximate number of steps of an episode under a random policy. Rollouts compute the size of their reset bank
    # from it. A contract test checks that less than 1 % of the resets need a state of the bank a second time.
    reset_every: ClassVar[int] = 8
    # The names of fields in which infinity has a meaning: no bound. All other numbers of an environment are finite.
    may_be_infinite: ClassVar[tuple[str, ...]] = ()
    # A short name for each discrete action ("left", "fire"), which `shoal play` shows.
    action_names: ClassVar[tuple[str, ...]] = ()
    # A time limit in steps (an episode that reaches it is truncated), or None. Declare it as a field to make it traced.
    max_steps: Number | None = None

    @property
    def longest_episode(self) -> int | None:
        """The largest number of steps that an episode can have by the rules, without `max_steps`; None: no bound."""
        return None

    @property
    def limit_range(self) -> tuple[Number, Number] | None:
        """The smallest and the largest time limit that an episode can have; None: episodes have no time limit.

        Default: `max_steps`, twice. Define it together with `limit_of`.
        """
        return None if self.max_steps is None else (self.max_steps, self.max_steps)

    @property
    def earliest_truncation(self) -> Number | None:
        """The smallest number of steps after which an episode can be truncated; None: never. It may be an array.

        Default: the smallest time limit.
        """
        return None if self.limit_range is None else self.limit_range[0]

    def inner_envs(self) -> Sequence["Env"]:
        """Return the environments that this one is made of, for `check_fields`. Default: those in its fields."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]  # a struct
        return [value for value in values if isinstance(value, Env)]

    def __post_init__(self) -> None:
        limit = self.max_steps
        limits = np.ravel(limit).tolist() if limit is not None and is_concrete(limit) else []
        invalid = [x for x in limits if not (1 <= x <= MAX_TIME and x == int(x))]
        if invalid:
            raise ValueError(
                f"{type(self).__name__}.max_steps={invalid[0]} is not a valid time limit: it must be a whole number of "
                f"steps from 1 to {MAX_TIME:,}, or None for the environment's own limit, if it has one."
            )

    def _check_last(self) -> None:
        _check_constants(self)

    @abc.abstractmethod
    def init(self, key: Key) -> State:
        """Return the first state of an episode, with `time = 0`. `key` is consumed."""

    def noise(self, key: Key) -> Any:
        """Sample all random numbers of one step. Default: None, for deterministic dynamics. `key` is consumed."""
        del key

    @abc.abstractmethod
    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """Return (next state, reward, terminated, info). `state.time` already counts this step."""

    @abc.abstractmethod
    def observe(self, state: State) -> Observation:
        """Return the observation of a state, in the smallest dtype that holds its values (bool or uint8 images)."""

    def action_mask(self, state: State) -> Bool[Array, "A"] | None:
        """Return which actions are allowed in a state, as bool [A]. Default: None, all actions are always allowed."""
        del state
        return None

    def carry_over(self, ended: State, fresh: State) -> State:
        """Return the first state of the next episode: `fresh`, with the fields that a reset keeps copied from `ended`.

        `ended` is the final state of the previous episode. Rollouts call this hook at every reset. Default: `fresh`.
        """
        del ended
        return fresh

    def limit_of(self, state: State) -> Number | None:
        """Return the time limit of the episode that a state belongs to; None: no time limit. Default: `max_steps`.

        An environment whose limit differs between episodes keeps it in its state. It then leaves `max_steps` at None,
        so that a user can give one limit for all episodes, and defines `limit_range` too.
        """
        del state
        return self.max_steps

    def render(self, state: State) -> Any:
        """Return a picture of one concrete state, uint8 [H, W, 3]. It runs on the host, outside `jit`."""
        raise NotImplementedError(f"{type(self).__name__} has no picture: define render(state) -> uint8 [H, W, 3].")

    def mission_text(self, state: State) -> str:
        """Return the instruction of one concrete state in words; "" if there is none. It runs outside `jit`."""
        del state
        return ""

    @property
    @abc.abstractmethod
    def observation_space(self) -> Space:
        """The space that contains every observation."""

    @property
    @abc.abstractmethod
    def action_space(self) -> Space:
        """The space that contains every action."""

    # Derived from the hooks; do not override.

    def advance(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Take one step with noise that was sampled before. Returns (state, reward, terminated, truncated, info).

        `truncated` says whether the time limit is reached. Both flags may be true; the episode then counts as
        terminated, so a learner does not bootstrap from the final observation. If a number in the next state is NaN, so
        are the reward and the return of the episode: comparisons with NaN are false, so the episode might otherwise
        never end, and get a perfect return.
        """
        state = state.replace(time=state.time + 1)
        state, reward, terminated, info = self.transition(state, action, noise)
        reward = _or_nan(reward, state)
        limit = self.limit_of(state)
        truncated = jnp.zeros_like(terminated) if limit is None else state.time >= limit
        return state, reward, terminated, truncated, info

    @_called_as("obs, state = env.reset(key)")
    def reset(self, key: Key) -> tuple[Observation, State]:
        """Begin an episode. Returns (first observation, first state). `key` is consumed."""
        state = self.init(key)
        return self.observe(state), state

    @_called_as("obs, state, reward, terminated, truncated, info = env.step(key, state, action)")
    def step(
        self, key: Key, state: State, action: Any
    ) -> tuple[Observation, State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Take one step. Returns (observation, state, reward, terminated, truncated, info). `key` is consumed.

        It never resets: after the end of an episode call `reset`, or use `shoal.rollout`, which resets by itself.
        `action` is an element of `action_space`; a Python or NumPy number is converted to its dtype. Raises ValueError
        for an action of the wrong shape or dtype and, outside `jit` and `vmap`, where its value is known, for an action
        out of bounds. These checks add nothing to compiled code.
        """
        if not isinstance(state, State):
            raise TypeError(
                f"state is of type {type(state).__name__}, not a state of {type(self).__name__}: the call is "
                f"env.step(key, state, action), and reset returns (observation, state)."
            )
        action = as_element(self.action_space, action)
        _check_action(self, action)
        state, reward, terminated, truncated, info = self.advance(state, action, self.noise(key))
        return self.observe(state), state, reward, terminated, truncated, info


def _refuse_unpacking(env: Env) -> NoReturn:
    """Raise TypeError: `Env.__iter__` exists only to explain `env, params = shoal.make(...)`, as gymnax has it."""
    raise TypeError(
        f"an environment is one value: write env = shoal.make(...), without params. In shoal {GYMNAX_CONSTANTS}."
    )


# Set here, so that type checkers do not see them.
refuse_attributes(Env, GYMNAX_ATTRIBUTES)
Env.__iter__ = _refuse_unpacking  # type: ignore[attr-defined]


def _check_action(env: Env, action: Any) -> None:
    space = env.action_space
    check = explain if all(is_concrete(leaf) for leaf in jax.tree.leaves(action)) else misfit
    reason = check(space, action, "action")
    if reason:
        raise ValueError(
            f"{reason}. The action space of {type(env).__name__} is {space}; "
            "`env.action_space.sample(key)` gives an example."
        )


def _or_nan(reward: Float[Array, ""], state: State) -> Float[Array, ""]:
    """Return the reward, or NaN if a number in the state is NaN.

    Of a state with more than `MOST_SEARCHED` numbers, such as the weights of a learner, arrays are not searched.
    """
    numbers = [x for x in jax.tree.leaves(state) if jnp.issubdtype(getattr(x, "dtype", type(x)), jnp.floating)]
    if sum(np.size(x) for x in numbers) > MOST_SEARCHED:
        numbers = [x for x in numbers if np.ndim(x) == 0]
    found = [jnp.any(jnp.isnan(x)) if np.ndim(x) else jnp.isnan(x) for x in numbers]
    return jnp.where(functools.reduce(jnp.logical_or, found), jnp.nan, reward) if found else reward


def check_fields(env: Env) -> None:
    """Check the fields of an environment again, and those of the environments in it.

    An environment that JAX has made, as the result of `vmap` for example, was not checked when it was made. Raises what
    the constructor raises.
    """
    env.replace()
    for inner in env.inner_envs():
        check_fields(inner)


def _check_constants(env: Any) -> None:
    """Raise ValueError if a constant of an environment is NaN, infinite, or too large for 32 bits.

    Constants that JAX is tracing are not known, so they are not checked.
    """
    for field in dataclasses.fields(env):
        value = getattr(env, field.name)
        if not is_concrete(value) or (kind := np.asarray(value).dtype.kind) not in "iufO":
            continue
        numbers, largest = np.ravel(value), float(np.finfo(np.float32).max) if kind == "f" else MAX_INT
        largest = np.inf if field.name in env.may_be_infinite else largest
        wrong = numbers[~((numbers >= -largest) & (numbers <= largest))]
        if wrong.size:
            advice = "a finite number" if not np.isfinite(float(wrong[0])) else f"at most {largest:g} (32 bits)"
            raise ValueError(f"{type(env).__name__}.{field.name}={wrong[0]} is out of range: give {advice}.")


def episode_limit(env: Env) -> int | None:
    """Return the largest number of steps of an episode, by the time limit or by the rules; None without a bound.

    For an array of time limits it is the largest of them. A traced limit is ignored.
    """
    _, longest = env.limit_range or (None, None)
    limits = [x for x in (longest, env.longest_episode) if x is not None and is_concrete(x)]
    return min((int(np.max(x)) for x in limits), default=None)
