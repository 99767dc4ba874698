"""The loop of a run: compile once, then chunk by chunk train, evaluate, record, save.

Between chunks the host does everything that has effects; inside a chunk nothing leaves the device. A run that stops
anywhere goes on from its last chunk, and ends with the same bits as one that was not.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import make_key, stream
from shoal.rollouts.evaluate import Evaluation
from shoal.tracking.reporter import Reporter
from shoal.training import checkpoint
from shoal.training.claim import claimed
from shoal.training.folder import RunFolder, json_ready, provenance
from shoal.training.placement import is_key
from shoal.training.plan import Plan
from shoal.training.program import begin, evaluator, train_chunk
from shoal.training.records import Records, member_scores, score_summary
from shoal.training.spec import opaque_fields, plain


class Programs(NamedTuple):
    """Compiled executables, for members in the order of a placement."""

    begin: Any
    train: Any
    evaluate: Any
    seconds: float


class Stopped(Exception):
    """The user asked a run to stop; its checkpoint is written."""


class Run:
    """One run in memory: members, records and clock, with the folder they are written to."""

    def __init__(self, plan: Plan, folder: RunFolder, reporter: Reporter | None = None) -> None:
        """Set up; nothing is compiled or written yet."""
        self.plan = plan
        self.folder = folder
        self.reporter = reporter or Reporter()
        self.key = make_key(plan.spec.seed, plan.spec.prng)
        self.records = Records(plan.members)
        self.updates_done = 0
        self.train_seconds = 0.0
        self.eval_seconds = 0.0
        self.best_return = np.full(plan.members, -np.inf)
        self.best_policy: Any = None
        self.last_policy: Any = None
        self.members: list[Any] = [None] * len(plan.waves)  # a population each, on the device where there is one wave
        self._known_dead: set[int] = set()

    def train(self, *, resume: bool = False) -> dict[str, Any]:
        """Train to the end and return the summary. Raises Stopped after Ctrl-C, with everything saved.

        Raises FileExistsError where another run is at work in the folder, or a new one would be the second in it.
        """
        with claimed(self.folder.path):
            if not resume:
                self.folder.check_unused()  # again: one may have come and gone since the folder was made
            return self._to_the_end(resume)

    def _to_the_end(self, resume: bool) -> dict[str, Any]:
        started = time.perf_counter()
        self.programs = self._compile()
        if resume:
            self._restore()
            self._report_revision()
            if changed := self.folder.made_otherwise(self._provenance()):
                self.reporter.message(f"resumed elsewhere, so last bits may differ: {'; '.join(changed)}")
        else:
            self._begin()
            self.folder.write_json("provenance.json", self._provenance())
            self.folder.write_json("spec.json", self.plan.spec.to_json())  # last: with it the folder holds a run
        self.started = started - (self._recorded_seconds() if resume else 0.0)
        with stop_requests(self.reporter.message) as stop:
            while self.updates_done < self.plan.updates:
                self._chunk()
                if stop.is_set() and self.updates_done < self.plan.updates:
                    raise Stopped(f"stopped. Continue with: shoal train --resume {self.folder.path}")
            summary = self.summary()
            self.folder.write_json("summary.json", summary)
            self.reporter.finished(summary)
            if stop.is_set():  # others may be waiting behind this run
                raise Stopped(f"stopped when all was trained. To draw it: shoal train --resume {self.folder.path}")
        return summary

    def summary(self) -> dict[str, Any]:
        """Scores of the last weights and of the best, overall, per setting and per member, and the time it took."""
        curves = self.records.arrays()
        last = member_scores(curves)
        names, seeds = self.plan.member_names(), self.plan.spec.seeds
        return {
            "agent": self.plan.spec.agent,
            "env": self.plan.spec.env,
            "steps_per_member": self.plan.steps,
            "members": self.plan.members,
            "last": score_summary(last),
            "best": score_summary(np.where(np.isfinite(self.best_return), self.best_return, np.nan)),
            "settings": [
                {"setting": plain(setting), **score_summary(last[i * seeds : (i + 1) * seeds])}
                for i, setting in enumerate(self.plan.settings)
            ],
            "per_member": [
                {"member": m, "name": names[m], "last": last[m], "best": self.best_return[m], "alive": bool(alive)}
                for m, alive in enumerate(curves["alive"][-1])
            ],
            "episodes_per_evaluation": self.plan.spec.eval_episodes,
            "steps_per_second": self.plan.steps * self.plan.members / max(self.train_seconds, 1e-9),
            "compile_seconds": self.programs.seconds,
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            "total_seconds": time.perf_counter() - self.started,
        }

    def policies(self) -> Any:
        """The policies of all members as they are now, on the host; evaluated or not."""
        if self.last_policy is not None:
            return self.last_policy
        members = self._all_members()
        return jax.vmap(type(self.plan.agent).policy_state)(self.plan.agent, members.state)

    def states(self) -> Any:
        """The learners of all members as they are now, on the host, with the worlds that they are in."""
        return self._all_members().state

    # One chunk, in order.

    def _chunk(self) -> None:
        record = len(self.records)
        until = self.plan.boundaries[record]
        begun = time.perf_counter()
        metrics, alive = self._train(until - self.updates_done)
        took = time.perf_counter() - begun
        self.train_seconds += took
        rate = (until - self.updates_done) * self.plan.agent.steps_per_update * self.plan.members / took
        self.updates_done = until
        evaluation = self._evaluate(record) if record in self.plan.eval_records else None
        line = self.records.append(
            until * self.plan.agent.steps_per_update,
            time.perf_counter() - self.started,
            metrics,
            alive,
            evaluation,
        )
        self.records.save(self.folder, line)
        self._report_dead(alive)
        self._save(record)
        elapsed, left = self.train_seconds + self.eval_seconds, self.plan.updates - until
        self.reporter.record(until, line, rate, elapsed / until * left)

    def _train(self, updates: int) -> tuple[Metrics, np.ndarray]:
        parts = []
        clock = (np.int32(self.updates_done), np.int32(updates))
        for wave, span in enumerate(self.plan.waves):
            done = self._call(self.programs.train, self._on_device(wave, span), clock)
            self._keep(wave, [member for member, _ in done])
            parts.append(self._host(span, [(metrics, member.alive) for member, metrics in done]))
        return _joined(parts)

    def _evaluate(self, record: int) -> Evaluation:
        begun = time.perf_counter()
        key = jax.random.fold_in(stream(self.key, "evaluate"), record)
        parts = []
        for wave, span in enumerate(self.plan.waves):
            mine = (*self._on_device(wave, span), self._spread(self.plan.seed_index, span))
            parts.append(self._host(span, self._call(self.programs.evaluate, mine, (key,))))
        evaluation, policy = _joined(parts)
        self._keep_best(evaluation, policy)
        self.last_policy = policy
        self.eval_seconds += time.perf_counter() - begun
        return evaluation

    def _keep_best(self, evaluation: Evaluation, policy: Any) -> None:
        score = np.asarray(evaluation.episode_return).mean(axis=1)
        better = score > self.best_return
        self.best_return = np.where(better, score, self.best_return)
        old = policy if self.best_policy is None else self.best_policy
        self.best_policy = jax.tree.map(lambda new, kept: _rows_where(better, new, kept), policy, old)
        about = {"returns": json_ready(self.best_return), "updates": self.updates_done}
        checkpoint.save(self.folder.best, {checkpoint.POLICIES: self.best_policy}, self.folder.spec_hash, about)

    def _save(self, record: int) -> None:
        members = self._all_members()
        about = {
            "updates": self.updates_done,
            "env_revision": self.plan.env.revision,
            "records": record + 1,
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            "best_return": json_ready(self.best_return),
        }
        target = self.folder.checkpoints / f"step-{self.updates_done:012d}"
        policies = jax.vmap(type(self.plan.agent).policy_state)(self.plan.agent, members.state)
        parts = {checkpoint.LEARNERS: members, checkpoint.POLICIES: policies}
        checkpoint.save(target, parts, self.folder.spec_hash, about)
        checkpoint.keep_newest(self.folder.checkpoints, 2)

    def _report_dead(self, alive: np.ndarray) -> None:
        names = self.plan.member_names()
        for m in np.flatnonzero(~alive):
            if m not in self._known_dead:
                self._known_dead.add(int(m))
                self.reporter.message(
                    f"member {m} ({names[m]}) stopped: its numbers are not finite. Its last good weights are kept; "
                    f"the others go on."
                )

    def _report_revision(self) -> None:
        now = self.plan.env.revision
        if (was := self.folder.read_json("provenance.json").get("env_revision", now)) != now:
            self.reporter.message(
                f"{self.plan.spec.env} is in revision {now} and was in revision {was} when this run began: what it "
                f"does has changed, and the curves go on with the change"
            )

    # Setting up.

    def _compile(self) -> Programs:
        self.reporter.compiling(self.plan)
        begun = time.perf_counter()
        place, plan = self.plan.placement, self.plan
        first = plan.waves[0]
        agent, env, seed = (self._spread(x, first)[0] for x in (plan.agent, plan.env, plan.seed_index))
        to_begin = jax.jit(place.over_members(begin, 3))
        to_train = jax.jit(place.over_members(train_chunk, 3), donate_argnums=0)
        to_evaluate = jax.jit(place.over_members(evaluator(plan.spec.eval_episodes, plan.horizon, greedy=True), 4))
        member = self._member_shapes(jax.eval_shape(to_begin, agent, env, seed, self.key))
        clock = np.int32(0)
        lowered = [
            lambda: to_train.lower(member, agent, env, clock, clock),
            lambda: to_begin.lower(agent, env, seed, self.key),
            lambda: to_evaluate.lower(member, agent, env, seed, self.key),
        ]
        pool = ThreadPoolExecutor()  # XLA compiles outside Python's lock, so the three overlap
        try:
            compiling = [pool.submit(low().compile, place.compiler_options) for low in lowered]
            train, start, evaluate = (c.result() for c in compiling)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C is not to wait for a compiler
        seconds = time.perf_counter() - begun
        self.reporter.compiled(seconds)
        return Programs(start, train, evaluate, seconds)

    def _begin(self) -> None:
        plan = self.plan
        for wave, span in enumerate(plan.waves):
            mine = [self._spread(x, span) for x in (plan.agent, plan.env, plan.seed_index)]
            self._keep(wave, self._call(self.programs.begin, mine, (self.key,)))

    def _restore(self) -> None:
        """Go on from the newest checkpoint that is whole, or from the start where there was none yet."""
        kept = checkpoint.complete(self.folder.checkpoints)
        for found in kept:
            try:
                return self._restore_from(found)
            except DamagedError as error:
                if found == kept[-1]:
                    raise
                self.reporter.message(f"{error} Going on from the checkpoint before it")
        self._begin()
        self.records = Records.load(self.folder, self.plan.members, 0)

    def _restore_from(self, found: Path) -> None:
        about = checkpoint.read_about(found)
        plan = self.plan
        begin_all = jax.vmap(begin, in_axes=(0, 0, 0, None))
        like = jax.eval_shape(begin_all, plan.agent, plan.env, plan.seed_index, self.key)
        members = checkpoint.restore(found, checkpoint.LEARNERS, like, self.folder.spec_hash)
        self.records = Records.load(self.folder, self.plan.members, about["records"])
        for wave, span in enumerate(self.plan.waves):
            mine = jax.tree.map(lambda x, s=span: x[s], members)
            self.members[wave] = mine if len(self.plan.waves) > 1 else self.plan.placement.spread(mine)
        self.updates_done = about["updates"]
        self.train_seconds, self.eval_seconds = about["train_seconds"], about["eval_seconds"]
        self.best_return = np.asarray([-np.inf if best is None else best for best in about["best_return"]])
        self._restore_best(members)

    def _restore_best(self, members: Any) -> None:
        if not any(record < len(self.records) for record in self.plan.eval_records):
            return  # none was evaluated yet
        agent = self.plan.agent
        like = jax.eval_shape(lambda m: jax.vmap(type(agent).policy_state)(agent, m.state), members)
        try:
            self.best_policy = checkpoint.restore(self.folder.best, checkpoint.POLICIES, like, self.folder.spec_hash)
        except CheckpointError as error:
            self.best_return[:] = -np.inf
            self.reporter.message(f"{error} The best policies so far are lost; they are collected anew from here")

    # Moving members between host and device.

    def _call(self, program: Any, mine: Any, shared: Any) -> list[Any]:
        return self.plan.placement.call(program, mine, shared, in_threads=True)

    def _on_device(self, wave: int, span: slice) -> tuple[list[Any], list[Any], list[Any]]:
        members = self.members[wave]
        if len(self.plan.waves) > 1:
            members = self.plan.placement.spread(members)
        return members, self._spread(self.plan.agent, span), self._spread(self.plan.env, span)

    def _keep(self, wave: int, parts: list[Any]) -> None:
        self.members[wave] = parts if len(self.plan.waves) == 1 else self._host(self.plan.waves[wave], parts)

    def _spread(self, tree: Any, span: slice) -> list[Any]:
        return self.plan.placement.spread(jax.tree.map(lambda x: x[span], tree), span.stop - span.start)

    def _all_members(self) -> Any:
        if len(self.plan.waves) > 1:
            return _joined(self.members)
        return self._host(self.plan.waves[0], self.members[0])

    def _host(self, span: slice, parts: list[Any]) -> Any:
        return self.plan.placement.gather(parts, span.stop - span.start)

    def _member_shapes(self, member: Any) -> Any:
        mesh = self.plan.placement.mesh
        if mesh is None:
            return member
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("members"))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), member)

    def _provenance(self) -> dict[str, Any]:
        place = self.plan.placement
        devices = list(place.mesh.devices.flat) if place.mesh else jax.local_devices()[:1]
        made = provenance(place.block, place.workers, devices)
        return {**made, "env_revision": self.plan.env.revision, "only_in_python": opaque_fields(self.plan.spec)}

    def _recorded_seconds(self) -> float:
        seconds = self.records.columns.get("wall_seconds", [0.0])
        return float(seconds[-1]) if seconds else 0.0


@contextmanager
def stop_requests(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C interrupts at once. Outside the main thread it is never set.

    Calls that run already end by themselves, and a script that ends waits for them; the `shoal` command does not.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(signum: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        text = "stopping when this chunk is saved; Ctrl-C again stops at once"
        threading.Thread(target=say, args=(text,)).start()  # a signal may have come in the middle of a print

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _joined(waves: list[Any]) -> Any:
    if len(waves) == 1:
        return waves[0]
    return jax.tree.map(lambda *xs: jnp.concatenate(xs) if is_key(xs[0]) else np.concatenate(xs), *waves)


def _rows_where(flag: np.ndarray, new: Any, old: Any) -> Any:
    return np.where(flag.reshape(flag.shape + (1,) * (np.ndim(new) - 1)), new, old)
