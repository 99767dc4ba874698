"""The members of a run: their arrays on the devices, and the compiled programs that begin, train and evaluate them.

Where not all members fit into the memory of the devices at once they are trained in waves: those of the other waves
wait on the host.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.env import Key
from shoal.core.keys import is_key, stream
from shoal.rollouts.evaluate import Evaluation
from shoal.training.linear_algebra import can_wait_forever, check_never_waits, one_matrix_at_a_time
from shoal.training.plan import Plan
from shoal.training.program import Member, begin, evaluator, reseed, rest, train_chunk
from shoal.training.roster import Roster
from shoal.training.selector import FRESH, REST


class Programs(NamedTuple):
    """Compiled executables, for members in the order of a placement."""

    begin: Any
    train: Any
    evaluate: Any
    seconds: float


class Population:
    """M slots on the devices. Everything that is read from it is on the host, with leaves [M]."""

    def __init__(self, plan: Plan, run_key: Key) -> None:
        """Set up; nothing is compiled or begun yet."""
        self.plan, self.key = plan, run_key
        self.roster = plan.roster
        self._agents, self._envs = plan.batched(plan.roster)
        self._waves: list[Any] = [None] * len(plan.waves)  # lists of parts on the device; trees on the host with waves
        self.programs: Programs | None = None

    def compile(self) -> float:
        """Compile every program, and return the seconds that it took."""
        begun = time.perf_counter()
        place, plan = self.plan.placement, self.plan
        first = plan.waves[0]
        agent, env, seed = (self._spread(x, first)[0] for x in (self._agents, self._envs, self.roster.seed_index))
        to_begin = jax.jit(place.over_members(begin, 3))
        to_train = jax.jit(place.over_members(train_chunk, 3), donate_argnums=0)
        to_evaluate = jax.jit(place.over_members(evaluator(plan.spec.eval_episodes, plan.horizon, greedy=True), 4))
        member = place.shapes(jax.eval_shape(to_begin, agent, env, seed, self.key))
        clock = np.int32(0)
        if can_wait_forever(to_begin.trace(agent, env, seed, self.key)):
            to_begin = jax.jit(one_matrix_at_a_time(place.over_members(begin, 3)))
        traced = [
            to_train.trace(member, agent, env, clock, clock),
            to_begin.trace(agent, env, seed, self.key),
            to_evaluate.trace(member, agent, env, seed, self.key),
        ]
        for program in traced:
            check_never_waits(program)
        pool = ThreadPoolExecutor()  # XLA compiles outside Python's lock, so the three overlap
        try:
            compiling = [pool.submit(program.lower().compile, place.compiler_options) for program in traced]
            train, start, evaluate = (c.result() for c in compiling)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C is not to wait for a compiler
        seconds = time.perf_counter() - begun
        self.programs = Programs(start, train, evaluate, seconds)
        return seconds

    def begin(self) -> None:
        """Begin a fresh member in every slot."""
        for wave, span in enumerate(self.plan.waves):
            self._keep(wave, self._begun(span))

    def advance(self, clock: int, updates: int) -> tuple[Metrics, np.ndarray]:
        """Train every member for some updates, the first of which is number `clock` of the run.

        Returns (their metrics [M], whether their numbers are finite [M]).
        """
        assert self.programs is not None
        parts = []
        for wave, span in enumerate(self.plan.waves):
            mine = self._on_device(wave, span)
            # An idle slot goes through the same program, with nothing to do.
            counts = [np.int32(updates if is_busy else 0) for is_busy in self._busy_calls(span)]
            clocks = [np.int32(clock)] * len(counts)
            done = self._call(self.programs.train, (*mine, clocks, counts), ())
            self._keep(wave, [member for member, _ in done])
            parts.append(self._host(span, [(metrics, member.alive) for member, metrics in done]))
        return _joined(parts)

    def evaluate(self, key: Key) -> tuple[Evaluation, Any]:
        """(first episodes of fresh environments [M, N], the policies that played them [M]). `key` is consumed."""
        assert self.programs is not None
        parts = []
        for wave, span in enumerate(self.plan.waves):
            mine = (*self._on_device(wave, span), self._spread(self.roster.seed_index, span))
            parts.append(self._host(span, self._call(self.programs.evaluate, mine, (key,))))
        return _joined(parts)

    def apply(self, source: np.ndarray, roster: Roster) -> None:
        """Put a turnover into effect: `source` as in `Turnover`, and the roster after it.

        A copy gets random numbers of its own, which follow from its occupant's number.
        """
        self.roster = roster
        self._agents, self._envs = self.plan.batched(roster)
        slots = np.arange(self.plan.members)
        copied, fresh = (source >= 0) & (source != slots), source == FRESH
        if not (copied.any() or fresh.any() or (source == REST).any()):
            return
        if len(self.plan.waves) > 1:  # members may come from another wave
            everyone = self.to_host()
            rows = np.where(copied, source, slots)
            everyone = jax.tree.map(lambda x: x[rows], everyone)
            for wave, span in enumerate(self.plan.waves):
                parts = self.plan.placement.spread(jax.tree.map(lambda x, s=span: x[s], everyone))
                self._keep(wave, self._turned(span, parts, source, copied, fresh))
            return
        place, (span,) = self.plan.placement, self.plan.waves
        parts = place.exchange(self._waves[0], np.where(copied, source, slots))
        self._waves[0] = self._turned(span, parts, source, copied, fresh)

    def ages(self) -> np.ndarray:
        """Updates that each member was trained for, [M]."""
        if len(self.plan.waves) > 1:
            return np.concatenate([wave.state.age for wave in self._waves])
        return self._host(self.plan.waves[0], [part.state.age for part in self._waves[0]])

    def policies(self) -> Any:
        """What acting reads of every member, [M]."""
        return self.policies_of(self.to_host())

    def policies_of(self, members: Member) -> Any:
        """What acting reads of members [M]."""
        return jax.vmap(type(self.plan.agent).policy_state)(self._agents, members.state)

    def to_host(self) -> Member:
        """All members, with everything that they need to train on."""
        if len(self.plan.waves) > 1:
            return _joined(self._waves)
        return self._host(self.plan.waves[0], self._waves[0])

    def load(self, members: Member, roster: Roster) -> None:
        """Take over members [M], as `to_host` gave them, and their roster."""
        self.roster = roster
        self._agents, self._envs = self.plan.batched(roster)
        for wave, span in enumerate(self.plan.waves):
            mine = jax.tree.map(lambda x, s=span: x[s], members)
            self._waves[wave] = mine if len(self.plan.waves) > 1 else self.plan.placement.spread(mine)

    def shapes(self) -> Member:
        """Shapes and dtypes of `to_host`. Nothing runs."""
        begin_all = jax.vmap(begin, in_axes=(0, 0, 0, None))
        return jax.eval_shape(begin_all, self._agents, self._envs, self.roster.seed_index, self.key)

    # Steps of a turnover.

    def _turned(self, span: slice, parts: list[Any], source: Any, copied: Any, fresh: Any) -> list[Any]:
        """The parts of a wave after its copies were made: copies get keys, fresh members begin, idle slots rest."""
        place, mine = self.plan.placement, source[span]
        if copied[span].any():
            occupants = self._spread(np.maximum(self.roster.occupant, 0).astype(np.int32), span)
            program = jax.jit(place.over_members(reseed, 3))
            agents = self._spread(self._agents, span)
            changed = self._call(program, (parts, agents, occupants), (stream(self.key, "turnover"),))
            parts = place.merge(parts, changed, copied[span])
        if fresh[span].any():
            parts = place.merge(parts, self._begun(span), fresh[span])
        if (mine == REST).any():
            idle = self._call(jax.jit(place.over_members(rest, 1)), (parts,), ())
            parts = place.merge(parts, idle, mine == REST)
        return parts

    def _begun(self, span: slice) -> list[Any]:
        assert self.programs is not None
        mine = [self._spread(x, span) for x in (self._agents, self._envs, self.roster.seed_index)]
        return self._call(self.programs.begin, mine, (self.key,))

    def _busy_calls(self, span: slice) -> list[bool]:
        """For each call of a wave, whether any of its slots has a member to train."""
        busy = ~self.roster.is_idle[span]
        size = len(busy) if self.plan.placement.mesh else self.plan.placement.block
        return [bool(busy[start : start + size].any()) for start in range(0, len(busy), size)]

    # Moving members between host and device.

    def _call(self, program: Any, mine: Any, shared: Any) -> list[Any]:
        return self.plan.placement.call(program, mine, shared, in_threads=True)

    def _on_device(self, wave: int, span: slice) -> tuple[list[Any], list[Any], list[Any]]:
        members = self._waves[wave]
        if len(self.plan.waves) > 1:
            members = self.plan.placement.spread(members)
        return members, self._spread(self._agents, span), self._spread(self._envs, span)

    def _keep(self, wave: int, parts: list[Any]) -> None:
        self._waves[wave] = parts if len(self.plan.waves) == 1 else self._host(self.plan.waves[wave], parts)

    def _spread(self, tree: Any, span: slice) -> list[Any]:
        return self.plan.placement.spread(jax.tree.map(lambda x: x[span], tree), span.stop - span.start)

    def _host(self, span: slice, parts: list[Any]) -> Any:
        return self.plan.placement.gather(parts, span.stop - span.start)


def _joined(waves: list[Any]) -> Any:
    if len(waves) == 1:
        return waves[0]
    return jax.tree.map(lambda *xs: jnp.concatenate(xs) if is_key(xs[0]) else np.concatenate(xs), *waves)
