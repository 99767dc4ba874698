"""The base class of agents. An agent is a value: its `hyper` fields are traced, its `static` fields shape the program.

An agent's hooks are written for one member. The training program batches them over the members of a population with
`jax.vmap`, and repeats `update` in a loop.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.aliases import OTHER_METHODS
from shoal.core.env import Env, Key, Observation
from shoal.core.errors import Unsuited, refuse_attributes
from shoal.core.schedules import EXAMPLE, NUMBER, Scheduled, steps_taken
from shoal.core.struct import (
    Number,
    Struct,
    Value,
    hyper_fields,
    info_of,
    is_concrete,
    is_number,
    number_fields,
    schedules_in,
    static_fields,
    struct,
)

# A struct with `age: Int[Array, ""]`, the number of updates since this member began, and `key: Key`, the random key
# from which all its later random numbers derive.
AgentState = Any


MOST_LAYERS = 64  # of a network; XLA takes longer than linearly in their number
MOST = 2**31 - 1  # of a count: programs count with 32 bits
# Fields that say how another field changes during a run, in the agents that have them.
SCHEDULES = ("anneal", "epsilon_start", "epsilon_end", "exploration", "learning_rate_decay", "sigma_decay", "horizon")


class Buffer(Struct):
    """The base class of parts of an agent state that are too large to copy, such as a replay buffer.

    If the result of an update is not finite, the state from before the update is restored. Buffers are an exception:
    they keep their new content, because choosing between the old and the new content would copy both.
    """


class Guarded(Struct):
    """The base class of agent states whose weights a stopped member keeps without a choice after the update.

    If the losses or weights of an update are not finite, its member is stopped, and the state from before the update is
    restored: a pass over all weights and moments. A state of this class can do without. Before an update the runner may
    set its field `is_stopped: Bool[Array, ""] | None = None`, which is None between updates. Then the gradient steps of
    a stopped member change nothing, a gradient that is not finite stops it (`ops.gradients.descend`), and the update
    returns the flag. Nothing but these gradient steps, and averages of their results, changes the fields `guarded`.
    """

    guarded: ClassVar[tuple[str, ...]] = ()
    is_stopped: Bool[Array, ""] | None


@struct
class Metrics(Struct):
    """The metrics of one update, of a fixed size: sums over episodes and averages of losses, never trajectories."""

    episodes: Any  # sums over the episodes that ended (`rollouts.episodes.EpisodeStats`)
    losses: dict[str, Float[Array, ""]]  # averages over the update
    weight: Any = 1.0  # weight of `losses` in an average over updates: the number of gradient steps, where it varies
    rounding: Any = None  # of the sums of losses and weights over many updates (`ops.sums`); None for one update

    @property
    def mean_losses(self) -> dict[str, np.ndarray]:
        """The losses averaged over all updates, of sums on the host; NaN where there was no gradient step."""
        with np.errstate(invalid="ignore"):
            weight = np.asarray(self.weight)
            return {name: np.asarray(np.asarray(loss) / weight) for name, loss in self.losses.items()}


Bound = TypeVar("Bound")


class Actor(Struct, abc.ABC):
    """The base class of everything that chooses actions: agents, the random policy, functions of the user."""

    def initial_carry(self) -> Any:
        """Return the recurrent carry at the start of an episode; None for policies without one."""
        return None

    @abc.abstractmethod
    def act(
        self, state: AgentState, obs: Observation, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """Return (action, next carry) for one observation, unbatched.

        `state` is an agent state or the part of it that `Agent.policy_state` returns. With `greedy` the action is the
        best one, otherwise it is sampled. `key` is consumed, and not used when greedy.
        """


class Agent(Actor):
    """A learning algorithm with its hyperparameters. Subclass it, decorate the class with `@struct`, write the hooks.

    Fields that an agent takes from its environment are declared with `filled_by_bind()`. While one of them is empty,
    `init`, `update`, `act` and `value` raise ValueError.

    A hyperparameter may hold a schedule (`core.schedules`). The hooks never see it: those with a state are called on
    `at(state.age)`, whose fields hold the numbers of now, and `bind` on an agent whose fields hold the lowest and the
    highest number, so that sizes hold for both.
    """

    takes_schedules = True

    rollout: Any = None  # the sizes of a bound agent's rollouts (`rollouts.rollout.Rollout`); None without rollouts

    def __new__(cls: type[Value], *args: Any, **fields: Any) -> Value:
        """Raise TypeError for arguments that agents of other libraries take: an environment, a schedule."""
        agent = super().__new__(cls, *args, **fields)
        _check_arguments(cls, args, fields)
        return agent

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the hooks that need a bound agent check that it is bound, and see numbers in the place of schedules."""
        super().__init_subclass__(**options)
        for name in ("init", "update", "act", "value"):
            if name in cls.__dict__:
                setattr(cls, name, _only_bound(_with_numbers(cls.__dict__[name])))
        for name in ("policy_state", "with_policy", "reseed", "new_episodes"):
            if name in cls.__dict__:
                setattr(cls, name, _with_numbers(cls.__dict__[name]))
        if "bind" in cls.__dict__:
            cls.bind = _binding_numbers(cls.__dict__["bind"])  # type: ignore[method-assign]  # as wrapped

    @abc.abstractmethod
    def bind(self: Bound, env: Env) -> Bound:
        """Return this agent with the spaces and sizes of an environment filled in. Only a bound agent can be used.

        Nothing is compiled. Raises Unsuited if the agent cannot be used with this environment, whatever its fields
        are (the message to the user then lists the agents that can), and ValueError for sizes or choices that do not
        fit.
        """

    @abc.abstractmethod
    def init(self, key: Key, env: Env) -> AgentState:
        """Return the state of a new member. `key` is consumed; all random numbers of the member derive from it."""

    @abc.abstractmethod
    def update(self, state: AgentState, env: Env, clock: Int[Array, ""]) -> tuple[AgentState, Metrics]:
        """Do one training iteration of one member: collect and learn.

        `clock` is the index of this update in the run, the same for all members; schedules follow `state.age`.
        """

    @abc.abstractmethod
    def policy_state(self, state: AgentState) -> Any:
        """Return the part of a state that `act` reads. `act` accepts it in place of the whole state."""

    def with_policy(self, state: AgentState, policy: Any) -> AgentState:
        """Return the `state` of a new member with the weights of a `policy` (from `policy_state` of another member).

        By default every field of the policy replaces the field of that name in the state, except `age`, which
        schedules follow. Raises TypeError if the state lacks such a field; the agent then overrides this method.
        """
        learned = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.name != "age"}
        if missing := [name for name in learned if not hasattr(state, name)]:
            raise TypeError(f"{type(self).__name__} cannot begin with a policy: its state has no {missing[0]}.")
        return state.replace(**learned)

    @property
    def revision(self) -> int:
        """The revision of the meaning of this agent's weights, which every checkpoint holds. Default: 1.

        An agent that acts otherwise with the weights that it had learned before has a higher one.
        """
        return 1

    def upgraded(self, policy: Any, revision: int) -> Any:
        """Return a policy [M, ...] that another revision of this agent learned, so that it acts as it did then.

        Raises ValueError if that is not possible, which is the default.
        """
        raise ValueError(
            f"these weights are of revision {revision} of {type(self).__name__}, and here it has revision "
            f"{self.revision}, which would act otherwise with them: train it again."
        )

    @property
    @abc.abstractmethod
    def steps_per_update(self) -> int:
        """The number of environment steps that one `update` takes. Static."""

    def at(self: Value, age: Int[Array, ""] | None) -> Value:
        """Return this bound agent of one member with the numbers that its schedules have at an age; None: at their end.

        An agent without schedules is returned as it is.
        """
        if not (schedules := schedules_in(self)):
            return self
        of_run = [getattr(self, name) for name, field in hyper_fields(self).items() if info_of(field).spans_run]
        horizon = of_run[0] if of_run else 0.0

        def number(schedule: Scheduled) -> Any:
            if age is None:
                return schedule.at(jnp.float32(1))
            return schedule.after(steps_taken(age, self.steps_per_update), horizon)  # type: ignore[attr-defined]  # an agent

        numbers = {name: number(schedule) for name, schedule in schedules.items()}
        for name, field in hyper_fields(self).items():
            if (replaced := schedules.get(info_of(field).schedule_of)) is not None:
                numbers[name] = jnp.where(replaced.kind == NUMBER, getattr(self, name), 0.0)
        return self.replace(**numbers)  # type: ignore[attr-defined]  # a struct

    def reseed(self, state: AgentState, key: Key) -> AgentState:
        """Return the state with another random key. A copy of a member needs one. `key` is consumed."""
        return state.replace(key=key)

    def new_episodes(self, state: AgentState, env: Env, key: Key) -> AgentState:
        """Return the state with all environments at the start of new episodes, for a copy of a member.

        Weights, optimizer and statistics stay. `key` is consumed. Default: the state as it is, for agents that keep no
        environment states between updates, and for agents with a replay buffer, whose newest samples are completed by
        the next step of the same episodes.
        """
        del env, key
        return state

    def split(self: Bound, devices: int) -> Bound:
        """Return this bound agent as each of `devices` devices runs it, with its share of the environments.

        Its `init` and `update` then run on every device under `shard_map` and reduce over the devices (`ops.devices`):
        leaves of the state without an axis of environments must be equal on all of them. Raises ValueError for sizes
        that cannot be divided equally, and Unsuited if the agent cannot be split, which is the default.
        """
        raise Unsuited("it cannot be split over devices.")

    @property
    def learns_from(self) -> Number:
        """The number of environment steps before the first gradient step; in a shorter run nothing is learned."""
        return 0

    @property
    def members_per_call(self) -> int:
        """How many members of a large population one call on a CPU core should train together. Static.

        More than one is faster only if an update takes less time than the overhead of a call.
        """
        return 1

    @property
    def weights_per_step(self) -> int:
        """The number of weights that one member's networks use in one environment step; 0: too few to matter. Static.

        For many weights the CPU compiler is told to use a library for matrix products. That is faster, but then the
        loop over steps is not compiled into one kernel (`training.placement`).
        """
        return 0


refuse_attributes(Agent, OTHER_METHODS)


def _check_arguments(cls: type, args: Sequence[Any], fields: Mapping[str, Any]) -> None:
    """Raise TypeError for an environment or a network in the place of a number, and for a function as a schedule."""
    numbers = number_fields(cls)
    by_position = dict(zip((field.name for field in dataclasses.fields(cls)), args, strict=False))
    for name, value in {**by_position, **fields}.items():
        if name not in numbers or is_number(value):
            continue
        if callable(value) and not isinstance(value, type):
            schedules = [schedule for schedule in SCHEDULES if schedule in numbers]
            are_set = f" Further schedules of {cls.__name__} are set by {', '.join(schedules)}." if schedules else ""
            raise TypeError(
                f"{cls.__name__}.{name} is a function: write a number, or a schedule as a text such as {EXAMPLE!r}."
                f"{are_set}"
            )
        if name in by_position:
            kind = value.__name__ if isinstance(value, type) else type(value).__name__
            what = repr(value) if isinstance(value, str) else f"a value of {kind}"
            raise TypeError(
                f"{cls.__name__}.{name} is {what}, not a number. Give fields by name, as in {cls.__name__}("
                f"{name}={numbers[name].default}), and the environment to train: shoal.train({cls.__name__}(), env)."
            )


def check_bound(agent: Agent) -> None:
    """Raise ValueError for an agent that is not bound to an environment."""
    empty = [n for n, field in static_fields(agent).items() if info_of(field).bind and getattr(agent, n) is None]
    if empty:
        raise ValueError(
            f"this {type(agent).__name__} was not bound to an environment: call `agent = agent.bind(env)` first, and "
            "use the agent that it returns. shoal.train does so itself."
        )


def check_choices(agent: Struct) -> None:
    """Raise ValueError for a static field whose value is not one of its declared `choices`.

    A field of type Any also accepts a function of the user's own. For a number, `choices` are the values worth
    searching, and any other number is accepted too.
    """
    for name, field in static_fields(agent).items():
        value, choices = getattr(agent, name), info_of(field).choices
        is_number = isinstance(field.default, (int, float)) and not isinstance(field.default, bool)
        is_function = field.type is Any and callable(value)
        if choices and not is_number and not is_function and value not in choices:
            raise ValueError(f"{name}={value!r} is unknown. Choose one of {', '.join(map(str, choices))}.")


def check_counts(agent: Struct, *names: str) -> None:
    """Raise ValueError if a count, or one item of a tuple of counts, is below 1. `names` are names of fields.

    So is a tuple of more than MOST_LAYERS: its program would take minutes to plan. Raises TypeError if a field whose
    default is a tuple holds a single number.
    """
    for name in names:
        value = getattr(agent, name)
        if isinstance(static_fields(agent)[name].default, tuple) and not isinstance(value, tuple):
            raise TypeError(f"{name}={value!r} must be a tuple, such as ({value}, {value}).")
        if isinstance(value, tuple) and len(value) > MOST_LAYERS:
            raise ValueError(f"{name} has {len(value):,} layers: at most {MOST_LAYERS} can be compiled in good time.")
        if isinstance(value, tuple) and min(value, default=1) < 1:
            raise ValueError(f"{name}={value} has a layer without units: each must be at least 1.")
        if not isinstance(value, tuple) and not 1 <= value <= MOST:
            raise ValueError(f"{name}={value} must be at least 1{f', at most {MOST:,}' * (value > 1)}.")


def refuse_ignored(agent: Agent, reason: str, *names: str) -> None:
    """Raise ValueError if a field that has no effect differs from its default; `reason` says why it has no effect."""
    fields = {**hyper_fields(agent), **static_fields(agent)}
    for name in names:
        value, default = getattr(agent, name), fields[name].default
        is_comparable = is_concrete(value) or isinstance(value, (str, tuple))
        if is_comparable and np.any(np.asarray(value != default)):
            raise ValueError(
                f"{name}={value} changes nothing {reason}: leave it out, or, where a preset sets it, write "
                f"{name}={default}."
            )


def both_ends(agent: Value) -> list[Value]:
    """Return the agent with the lowest, and with the highest numbers of its schedules; without schedules as it is."""
    if not (schedules := schedules_in(agent)):
        return [agent]
    ends = ({n: s.lowest for n, s in schedules.items()}, {n: s.highest for n, s in schedules.items()})
    return [agent.replace(**end) for end in ends]  # type: ignore[attr-defined]  # a struct


def _only_bound(hook: Callable) -> Callable:
    @functools.wraps(hook)
    def checked(agent: Agent, *args: Any, **kwargs: Any) -> Any:
        check_bound(agent)
        return hook(agent, *args, **kwargs)

    return checked


def _with_numbers(hook: Callable) -> Callable:
    """Return a hook that is called on the agent with the numbers of now; its first argument is a state or a policy."""

    @functools.wraps(hook)
    def called(agent: Agent, *args: Any, **kwargs: Any) -> Any:
        if schedules_in(agent):
            is_new = hook.__name__ == "init"
            agent = agent.at(jnp.int32(0) if is_new else getattr((*args, *kwargs.values())[0], "age", None))
        return hook(agent, *args, **kwargs)

    return called


def _binding_numbers(bind: Callable) -> Callable:
    """Return a `bind` that binds an agent with schedules as one with their lowest and highest numbers."""

    @functools.wraps(bind)
    def binding(agent: Any, env: Env) -> Any:
        if not (schedules := schedules_in(agent)):
            return bind(agent, env)
        bound = bind(agent.replace(**{n: np.stack([s.lowest, s.highest]) for n, s in schedules.items()}), env)
        for name, schedule in schedules.items():
            initial = info_of(hyper_fields(bound)[name]).initial
            if callable(initial) and initial(bound):
                raise ValueError(f"{name}={schedule}: only a member that begins reads it here, so write a number.")
        return bound.replace(**schedules)

    return binding
