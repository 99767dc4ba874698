"""The members of a run: their arrays on the devices, and the compiled programs that begin, train and evaluate them.

If not all members fit in the memory of the devices, they are trained in waves, one after another. The members of the
other waves are kept on the host.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.env import Key
from shoal.core.form import CPU, Form, in_form
from shoal.core.keys import stream
from shoal.ops.gradients import moments_like
from shoal.ops.linear_algebra import can_wait_forever, check_never_waits, one_matrix_at_a_time
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.roster import Roster
from shoal.specs.selector import FRESH, REST
from shoal.training.memory import memory_errors
from shoal.training.placement import joined_leaves
from shoal.training.plan import Plan
from shoal.training.program import (
    Member,
    begin,
    evaluator,
    no_metrics,
    reseed,
    reseed_in_new_episodes,
    rest,
    train_chunk,
)


class Programs(NamedTuple):
    """The compiled programs of a run, and the seconds that compiling them took."""

    begin: Any
    train: Any
    evaluate: Any
    no_metrics: Any  # `Metrics` with which every call of `train` begins a record
    seconds: float


class Population:
    """The members of M slots on the devices. Trees that its methods return have NumPy leaves [M, ...]."""

    def __init__(self, plan: Plan, run_key: Key) -> None:
        """Set up an empty population. Nothing is compiled, and no member begins."""
        self.plan, self.key = plan, run_key
        self.set_roster(plan.roster)
        self.stop_signal = 0  # of a request to stop that reached another process of the run
        # The members of each wave: with one wave a list of parts on the device (see `Placement`), with several waves
        # one tree on the host.
        self._waves: list[Any] = [None] * len(plan.waves)
        # The metrics of each wave since the last record, as parts on the device; None before the first update.
        self._totals: list[Any] = [None] * len(plan.waves)
        self.programs: Programs | None = None

    def compile(self) -> float:
        """Compile all programs, unless there are some, and return the seconds that this took."""
        started = time.perf_counter()
        if self.programs is not None:
            return 0.0
        placement, plan = self.plan.placement, self.plan
        first = plan.waves[0]
        agent, env, seed = (self._spread(x, first)[0] for x in (self._agents, self._envs, self.roster.seed_index))
        begin_all = self._over_members(begin, 3, Member)
        to_begin = jax.jit(begin_all)
        train_all = self._over_members(train_chunk, 4, (Member, Metrics))
        to_train = jax.jit(train_all, donate_argnums=0)
        to_evaluate = jax.jit(self._over_members(evaluator(plan.spec.eval_episodes, plan.horizon, greedy=True), 4))
        member = placement.shapes(jax.eval_shape(to_begin, agent, env, seed, self.key))
        clock = np.int32(0)
        total = self._no_metrics(jax.eval_shape(train_all, member, agent, env, None, clock, clock)[1])
        # A jaxlib bug makes some initializers of user networks deadlock on a CPU: see `linear_algebra.py`.
        if can_wait_forever(to_begin.trace(agent, env, seed, self.key)):
            to_begin = jax.jit(one_matrix_at_a_time(begin_all))
        traces = [
            lambda: to_train.trace(member, agent, env, total, clock, clock),
            lambda: to_begin.trace(agent, env, seed, self.key),
            lambda: to_evaluate.trace(member, agent, env, seed, self.key),
        ]
        pool = ThreadPoolExecutor()  # XLA compiles without Python's lock, so the three compilations overlap
        compiling = []
        try:
            for trace in traces:
                program = trace()
                check_never_waits(program)
                compiling.append(pool.submit(program.lower().compile, placement.compiler_options))
            with memory_errors(plan.members_at_a_time, plan.member_bytes, placement):
                train, start, evaluate = (c.result() for c in compiling)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # so that Ctrl-C does not wait for the compiler
        seconds = time.perf_counter() - started
        self.programs = Programs(start, train, evaluate, total, seconds)
        return seconds

    def begin(self) -> None:
        """Begin a new member in every slot."""
        for wave, slots in enumerate(self.plan.waves):
            self._store(wave, self._new_members(slots))

    def advance(self, clock: int, updates: int) -> None:
        """Train every member for `updates` updates; `clock` is the number of updates that the run has done before."""
        assert self.programs is not None
        for wave, slots in enumerate(self.plan.waves):
            arguments = self._on_device(wave, slots)
            # A call in which all slots are idle runs the same program with no updates.
            busy = self.plan.placement.calls_with(~self.roster.is_idle[slots])
            counts = [np.int32(updates if call in busy else 0) for call in range(len(arguments[0]))]
            clocks = [np.int32(clock)] * len(counts)
            totals = self._totals[wave] or [self.programs.no_metrics] * len(counts)
            results = self._call(self.programs.train, (*arguments, totals, clocks, counts), ())
            self._store(wave, [member for member, _ in results])
            self._totals[wave] = [total for _, total in results]

    def end_record(self) -> tuple[Metrics, np.ndarray]:
        """Return the metrics of all updates since the last record, and begin those of the next one.

        They are (metrics [M], whether the losses and weights of the members are finite [M]).
        """
        metrics, self._totals = self.totals(), [None] * len(self._totals)
        return metrics, self._of_members(lambda member: member.alive)

    def totals(self) -> Metrics:
        """Return the sums of metrics since the last record on the host, to continue the record: leaves [M, ...]."""
        return joined([self._gather(slots, parts) for slots, parts in zip(self.plan.waves, self._totals, strict=True)])

    def load_totals(self, totals: Metrics) -> None:
        """Continue a record with the sums that came from `totals`."""
        self._totals = [self._spread(totals, slots) for slots in self.plan.waves]

    def no_totals(self) -> Metrics:
        """Return the totals before the first update of a record. Only after `compile`."""
        assert self.programs is not None
        one_call = self.plan.placement.gather([self.programs.no_metrics], 1)
        return jax.tree.map(lambda x: np.repeat(x, self.plan.members), one_call)

    def evaluate(self, key: Key) -> tuple[Evaluation, Any]:
        """Run N episodes with each member's greedy policy: (evaluation [M, N], policies [M]). `key` is consumed."""
        assert self.programs is not None
        parts = []
        for wave, slots in enumerate(self.plan.waves):
            arguments = (*self._on_device(wave, slots), self._spread(self.roster.seed_index, slots))
            parts.append(self._gather(slots, self._call(self.programs.evaluate, arguments, (key,))))
        return joined(parts)

    def apply(self, source: np.ndarray, roster: Roster, *, new_episodes: bool = False) -> None:
        """Carry out a turnover: copy, begin and stop members. `source` [M] is as in `Turnover`, `roster` the new one.

        A copied member gets another random key, which is derived from the number of its occupant. With `new_episodes`
        its environments begin new episodes.
        """
        slots = np.arange(self.plan.members)
        copied = (source >= 0) & (source != slots)
        rows = np.where(copied, source, slots)
        if copied.any() and len(self.plan.waves) > 1:  # members may come from another wave
            self.load(jax.tree.map(lambda x: x[rows], self.to_host()), roster)
        elif copied.any():
            self._waves[0] = self.plan.placement.exchange(self._waves[0], rows)
        self.renew(new_episodes, copied, source == FRESH, source == REST, roster)

    def renew(
        self, new_episodes: bool, copied: np.ndarray, fresh: np.ndarray, idle: np.ndarray, roster: Roster
    ) -> None:
        """Complete a turnover after members were copied, with flags [M] for its slots and the new roster.

        Copies get new random keys, and with `new_episodes` begin new episodes. New members begin, and members of idle
        slots are marked as no longer trained.
        """
        self.set_roster(roster)
        for wave, slots in enumerate(self.plan.waves):
            of_wave = (copied[slots], fresh[slots], idle[slots])
            if np.any(of_wave):
                self._store(wave, self._renewed(slots, self._on_device(wave, slots)[0], *of_wave, new_episodes))

    def set_roster(self, roster: Roster) -> None:
        """Use the hyperparameters, seeds and occupants of a roster from now on. No member changes."""
        self.roster = roster
        agents, self._envs = self.plan.batched(roster)
        split = self.plan.placement.split
        self._agents = agents.split(split.devices) if split else agents

    def ages(self) -> np.ndarray:
        """Return the number of updates that each member was trained for, [M]."""
        return self._of_members(lambda member: member.state.age)

    def to_host(self) -> Member:
        """Return all members on the host, with everything that is needed to continue training: leaves [M, ...]."""
        one_wave = len(self.plan.waves) == 1
        members = self._gather(self.plan.waves[0], self._waves[0]) if one_wave else joined(self._waves)
        return members if self.plan.placement.form.flat_weights else moments_like(members, self.shapes())

    def load(self, members: Member, roster: Roster) -> None:
        """Replace all members by `members`, which come from `to_host`, and the roster by theirs."""
        self.set_roster(roster)
        form = self.plan.placement.form
        members = members if form.flat_weights else moments_like(members, self._shapes(form))
        for wave, slots in enumerate(self.plan.waves):
            of_wave = jax.tree.map(lambda x, s=slots: x[s], members)
            self._waves[wave] = of_wave if len(self.plan.waves) > 1 else self.plan.placement.spread(of_wave)

    def shapes(self) -> Member:
        """Return the shapes and dtypes of `to_host()`, without running anything."""
        return self._shapes(CPU)  # whose moments are flat

    def _shapes(self, form: Form) -> Member:
        """Return the shapes and dtypes of all members in a form."""
        begin_all = jax.vmap(in_form(begin, form, kind_of(self.plan)), in_axes=(0, 0, 0, None))
        return jax.eval_shape(begin_all, *self.plan.batched(self.roster), self.roster.seed_index, self.key)

    # Steps of a turnover.

    def _renewed(
        self, slots: slice, parts: list[Any], copied: Any, fresh: Any, idle: Any, new_episodes: bool
    ) -> list[Any]:
        """Return the parts of a wave after a turnover; the flags are those of its slots."""
        roster = self.roster
        if copied.any():
            occupants = np.maximum(roster.occupant, 0).astype(np.int32)
            values = [self._agents, self._envs, occupants] if new_episodes else [self._agents, occupants]
            program = reseed_in_new_episodes if new_episodes else reseed
            shared = (stream(self.key, "turnover"),)
            parts = self._replaced(parts, copied, slots, self._jitted(program, 1 + len(values)), values, shared, True)
        if fresh.any():
            assert self.programs is not None
            values = [self._agents, self._envs, roster.seed_index]
            parts = self._replaced(parts, fresh, slots, self.programs.begin, values, (self.key,))
        if idle.any():
            parts = self._replaced(parts, idle, slots, self._jitted(rest, 1), [], (), True)
        return parts

    def _replaced(
        self,
        parts: list[Any],
        flag: np.ndarray,
        slots: slice,
        program: Any,
        values: list[Any],
        shared: tuple,
        takes_member: bool = False,
    ) -> list[Any]:
        """Return the parts of a wave with the members where `flag` is true replaced by results of a program.

        `flag` has the slots of the wave. The arguments of the program are the member (if it `takes_member`), `values`
        with leaves [M, ...], and the `shared` ones. Calls without such a member do not run.
        """
        placement = self.plan.placement
        calls = placement.calls_with(flag)
        members = [[parts[call] for call in calls]] * takes_member
        arguments = [*members, *(self._spread(value, slots, calls) for value in values)]
        new = dict(zip(calls, self._call(program, arguments, shared), strict=True))
        return placement.merge(parts, [new.get(call) for call in range(len(parts))], flag)

    def _jitted(self, function: Any, per_member: int) -> Any:
        return jax.jit(self._over_members(function, per_member, Member))

    def _over_members(self, function: Any, per_member: int, returns: Any = object) -> Any:
        return self.plan.placement.over_members(function, per_member, returns, kind_of(self.plan))

    def _new_members(self, slots: slice) -> list[Any]:
        assert self.programs is not None
        arguments = [self._spread(x, slots) for x in (self._agents, self._envs, self.roster.seed_index)]
        return self._call(self.programs.begin, arguments, (self.key,))

    def _no_metrics(self, like: Metrics) -> Metrics:
        """Return the metrics of no update as an argument of a call; `like` has their dtypes."""
        of_members = jax.tree.map(lambda x: np.full(self.plan.members, x), no_metrics(like))
        return jax.device_put(self._spread(of_members, self.plan.waves[0])[0])

    # Moving members between host and device.

    def _of_members(self, read: Callable[[Member], Any]) -> np.ndarray:
        """Return a part of all members on the host, [M]."""
        if len(self.plan.waves) > 1:
            return np.concatenate([read(wave) for wave in self._waves])
        return self._gather(self.plan.waves[0], [read(part) for part in self._waves[0]])

    def _call(self, program: Any, per_call: Any, shared: Any) -> list[Any]:
        plan = self.plan
        with memory_errors(plan.members_at_a_time, plan.member_bytes, plan.placement):
            return plan.placement.call(program, per_call, shared, in_threads=True)

    def _on_device(self, wave: int, slots: slice) -> tuple[list[Any], list[Any], list[Any]]:
        members = self._waves[wave]
        if len(self.plan.waves) > 1:
            members = self.plan.placement.spread(members)
        return members, self._spread(self._agents, slots), self._spread(self._envs, slots)

    def _store(self, wave: int, parts: list[Any]) -> None:
        self._waves[wave] = parts if len(self.plan.waves) == 1 else self._gather(self.plan.waves[wave], parts)

    def _spread(self, tree: Any, slots: slice, calls: list[int] | None = None) -> list[Any]:
        return self.plan.placement.spread(jax.tree.map(lambda x: x[slots], tree), slots.stop - slots.start, calls)

    def _gather(self, slots: slice, parts: list[Any]) -> Any:
        return self.plan.placement.gather(parts, slots.stop - slots.start)


def kind_of(plan: Plan) -> Any:
    """The structure of the agent and the environment, which all programs of a plan have in common; see `in_form`."""
    return jax.tree.structure((plan.agent, plan.env))


def joined(waves: Sequence[Any]) -> Any:
    """Join trees of members, with leaves [M, ...], to one on the host. Typed keys stay typed keys."""
    if len(waves) == 1:
        return waves[0]
    return jax.tree.map(lambda *xs: joined_leaves(np.concatenate, xs), *waves)
