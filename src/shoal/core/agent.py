"""The agent contract: a value whose `hyper` fields are traced and whose `static` fields shape the program.

One member is written, the runner vmaps: over members (settings x seeds) inside, scanning over updates outside.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Float, Int

from shoal.core.env import Env, Key, Observation
from shoal.core.struct import Number, Struct, hyper_fields, is_concrete, static_fields, struct

# A struct with `age: Int[Array, ""]`, the updates done since this member began, and `key: Key`, which every random
# number that it draws from now on derives from.
AgentState = Any


class Buffer(Struct):
    """A base for parts of a state that are too large to copy, such as a replay.

    An update that the runner undoes keeps the new one: to choose between old and new would copy both.
    """


@struct
class Metrics(Struct):
    """What one update reports: of fixed size, already reduced."""

    episodes: Any  # sums over the episodes that ended (`rollouts.episodes.EpisodeStats`)
    losses: dict[str, Float[Array, ""]]  # averages over the update
    weight: Any = 1.0  # of these averages in one over many updates: the gradient steps that were made, where they vary


Bound = TypeVar("Bound")


class Actor(Struct, abc.ABC):
    """What an evaluation or a rollout needs of a policy: a learner has it, and so has pure chance."""

    def initial_carry(self) -> Any:
        """The policy's memory at the start of an episode; None for policies without one."""
        return None

    @abc.abstractmethod
    def act(
        self, state: AgentState, obs: Observation, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry) for one observation. Unbatched. `key` is consumed (and ignored when greedy)."""


class Agent(Actor):
    """A learner. Subclass it, decorate the class with `@struct`, and write the hooks.

    What an agent takes from its environment is declared with `filled_by_bind()`. Where one of these fields is empty,
    `init`, `update`, `act` and `value` raise ValueError.
    """

    rollout: Any = None  # how a bound agent rolls out (`rollouts.rollout.Rollout`); None for one that does not

    def __init_subclass__(cls, **given: Any) -> None:
        """Let the hooks that need an environment say so."""
        super().__init_subclass__(**given)
        for name in ("init", "update", "act", "value"):
            if name in cls.__dict__:
                setattr(cls, name, _checked(cls.__dict__[name]))

    @abc.abstractmethod
    def bind(self: Bound, env: Env) -> Bound:
        """This agent, fitted to an environment: static spaces and sizes are filled in. The only way to a usable agent.

        Before anything compiles: raises Unsuited where no setting would make the two work together (the runner then
        says which agents can), and ValueError where sizes or choices do not fit.
        """

    @abc.abstractmethod
    def init(self, key: Key, env: Env) -> AgentState:
        """A new member. `key` is consumed; everything random that the member ever does derives from it."""

    @abc.abstractmethod
    def update(self, state: AgentState, env: Env, clock: Int[Array, ""]) -> tuple[AgentState, Metrics]:
        """One iteration of one member. `clock` is the runner's unbatched loop index; `state.age` drives schedules."""

    @abc.abstractmethod
    def policy_state(self, state: AgentState) -> Any:
        """The part of a state that `act` reads, small enough to share; `act` accepts it in place of a state."""

    def with_policy(self, state: AgentState, policy: Any) -> AgentState:
        """A fresh member that begins with what a policy has learned: `policy` is what `policy_state` gave for another.

        By default the fields of the policy replace those of the same name, but `age`, which schedules run by.
        Raises TypeError where a state does not hold them under these names: then an agent writes this itself.
        """
        learned = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.name != "age"}
        if missing := [name for name in learned if not hasattr(state, name)]:
            raise TypeError(f"{type(self).__name__} cannot begin with a policy: its state has no {missing[0]}.")
        return state.replace(**learned)

    @property
    @abc.abstractmethod
    def steps_per_update(self) -> int:
        """Environment steps that one `update` takes. Static."""

    def reseed(self, state: AgentState, key: Key) -> AgentState:
        """The same member with random numbers of its own from here on, such as a copy of another. `key` is consumed."""
        return state.replace(key=key)

    @property
    def learns_from(self) -> Number:
        """Environment steps before the first gradient step: a member whose run is no longer learns nothing."""
        return 0

    @property
    def members_per_call(self) -> int:
        """How many members of a large population a CPU core should train side by side. Static.

        One, unless an update is so little work that calling it is more.
        """
        return 1

    @property
    def weights_per_step(self) -> int:
        """Weights that the networks of one member multiply with in a step of its environments, if very many. Static.

        On a CPU a library then computes the products, which is faster, but rules out one kernel for the whole loop.
        """
        return 0


def check_bound(agent: Agent) -> None:
    """Raise ValueError for an agent that was not fitted to an environment."""
    empty = [n for n, field in static_fields(agent).items() if "bind" in field.metadata and getattr(agent, n) is None]
    if empty:
        raise ValueError(
            f"this {type(agent).__name__} was not bound to an environment: call `agent = agent.bind(env)` first, and "
            "use what it gives. shoal.train does so itself."
        )


def check_choices(agent: Agent) -> None:
    """Raise ValueError for a name or a flag that is none of its choices.

    Where a field is declared as Any, a function of the user's own is as good; the choices of a number are those worth
    searching, and others are as good.
    """
    for name, field in static_fields(agent).items():
        given, choices = getattr(agent, name), field.metadata["choices"]
        is_number = isinstance(field.default, (int, float)) and not isinstance(field.default, bool)
        is_own = field.type is Any and callable(given)
        if choices and not is_number and not is_own and given not in choices:
            raise ValueError(f"{name}={given!r} is unknown. Choose one of {', '.join(map(str, choices))}.")


def check_counts(agent: Agent, *names: str) -> None:
    """Raise ValueError where a field that counts something, or one number of a tuple of such, is below 1.

    TypeError where a number stands in the place of a tuple.
    """
    for name in names:
        given = getattr(agent, name)
        if isinstance(static_fields(agent)[name].default, tuple) and not isinstance(given, tuple):
            raise TypeError(f"{name}={given!r} must be a tuple, such as ({given}, {given}).")
        if isinstance(given, tuple) and min(given, default=1) < 1:
            raise ValueError(f"{name}={given} has a layer without units: each must be at least 1.")
        if not isinstance(given, tuple) and given < 1:
            raise ValueError(f"{name}={given} must be at least 1.")


def refuse_ignored(agent: Agent, reason: str, *names: str) -> None:
    """Raise ValueError where a field was given a value although it changes nothing, for a `reason`."""
    fields = {**hyper_fields(agent), **static_fields(agent)}
    for name in names:
        given, default = getattr(agent, name), fields[name].default
        is_known = is_concrete(given) or isinstance(given, (str, tuple))
        if is_known and np.any(np.asarray(given != default)):
            raise ValueError(
                f"{name}={given} changes nothing {reason}: leave it out, or take back a preset's with {name}={default}."
            )


def _checked(hook: Callable) -> Callable:
    @functools.wraps(hook)
    def checked(agent: Agent, *given: Any, **named: Any) -> Any:
        check_bound(agent)
        return hook(agent, *given, **named)

    return checked


def by_name(table: Mapping[str, Callable], choice: str | Callable) -> Callable:
    """The function that a field names, or is."""
    return choice if callable(choice) else table[choice]
