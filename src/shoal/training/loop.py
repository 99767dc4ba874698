"""The loop of a run: compile once, then for each chunk train, evaluate, record, select, save.

A chunk is one call of the compiled program, or several where it takes long (`pieces`). Files, messages and decisions
happen on the host, between chunks. A run that was stopped, between chunks or between the pieces of one, can be resumed
from its newest checkpoint, and then ends with the same bits as a run without a stop.
"""

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import Key, make_key, stream
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.changes import changes_in_words
from shoal.specs.selector import REST, Turnover
from shoal.specs.sources import keep
from shoal.tracking.events import Closed, Compiled, Finished, Opened, Recorded, Sink, Sinks, Started, Turned
from shoal.tracking.jsonl import JsonLines
from shoal.training import checkpoint, snapshot
from shoal.training.best_policies import BestPolicies
from shoal.training.claim import locked
from shoal.training.extension import change_options, extend
from shoal.training.fine_tuning import first_policies, with_policies
from shoal.training.folder import RunFolder, provenance
from shoal.training.host import unused_gpu
from shoal.training.host_envs import needs_host
from shoal.training.host_population import HostPopulation
from shoal.training.member_warnings import MemberWarnings
from shoal.training.pieces import Pieces
from shoal.training.plan import Plan, make_plan
from shoal.training.policy import Policies, check_complete, policy_states
from shoal.training.population import Population
from shoal.training.processes import ALONE, Group
from shoal.training.records import Records
from shoal.training.run_state import RunState
from shoal.training.selection import Selection
from shoal.training.sharing import SharedPopulation, write_members
from shoal.training.snapshot import Snapshot
from shoal.training.stop_at import reached_goal
from shoal.training.stopping import Stopped, StopRequest, cleaned_up, stop_requests, stopped_at_once
from shoal.training.summary import newest_of_settings, seconds_left, summary_of


class Run:
    """One run: its plan, population, records and state in memory, and the folder where they are written."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        sinks: Sequence[Sink] = (),
        group: Group = ALONE,
        save_share: float | None = None,
    ) -> None:
        """Set up the run in memory. Nothing is compiled or written. `sinks` receive the events of the run.

        The members are shared with the other processes of `group`, in which this one is number 0. A checkpoint is saved
        after every chunk, or with `save_share` so rarely that saving takes at most this share of the time.
        """
        self.plan = plan
        self.folder = folder
        self.sinks = Sinks([JsonLines(folder.path / "metrics.jsonl"), *sinks])
        self.key = make_key(plan.spec.seed, plan.spec.prng)
        self.processes = group.size
        self.population = population_of(plan, self.key, group)
        self.records = Records(plan.members)
        self.state = RunState.first(plan.roster)
        self.best = BestPolicies(folder, plan.agent.revision)
        self.last_policies: Any = None  # [M], those that were evaluated last
        self._selection = Selection(plan, self.key)
        self._warnings = MemberWarnings(plan, self.sinks.say)
        self._save_share, self._is_saved = save_share, True
        self._saved_at, self._save_seconds = -math.inf, 0.0  # of the newest checkpoint of this process
        self._evaluation_seconds = 0.0  # of the newest evaluation of this process
        self._pieces = Pieces(plan.first_learning)
        self._seconds_before = 0.0  # from the start of the run to the checkpoint that it resumes from
        self._was_over = False  # whether the run was complete when the checkpoint that it resumes from was saved
        self.stop = StopRequest()  # the one that `train` listens to

    def train(self, *, resume: bool = False) -> dict[str, Any]:
        """Train to the end and return the summary.

        Raises Stopped after a request to stop (Ctrl-C, SIGTERM), once what is trained so far is saved. Raises
        FileExistsError if another process writes to the folder, or if the run is new and the folder holds another run.
        The folders that were made for a new run are removed again if it ends before it begins to train.
        """
        how = "failed"
        try:
            with locked(self.folder.path), cleaned_up(self.folder.remove_unused):
                if not resume:
                    self.folder.check_unused()  # again: another process may have finished a run here in the meantime
                summary = self._train(resume)
            how = "complete"
            return summary
        except Stopped:
            how = "complete" if self.is_over else "stopped"
            raise
        finally:
            self.close()
            self.sinks.receive(Closed(how))

    def close(self) -> None:
        """End the environments that Python steps. The members can still be read."""
        if isinstance(self.population, HostPopulation):
            self.population.close()

    def _train(self, resume: bool) -> dict[str, Any]:
        self.open(resume=resume)
        again = f"shoal train --resume {self.folder.path}"
        complete = f"stopped after training was complete. To draw the figures: {again}"
        with stop_requests(self.sinks.say, self._pieces.until_saved) as stop:
            self.stop = stop
            while self.step(stop):
                if self._must_stop(stop) and not self.is_over:
                    self.records.save_whole(self.folder)
                    raise Stopped(f"stopped. Continue with: {again}", stop.signal)
            summary = self.write_summary()
            if stop.is_set():  # raised even though the run is complete: more runs may be waiting in this process
                raise Stopped(complete, stop.signal)
        with stopped_at_once(complete):
            self.sinks.receive(Finished(summary))
        return summary

    def open(self, *, resume: bool = False) -> None:
        """Compile; then begin the members, or with `resume` restore them from the newest checkpoint."""
        started = time.perf_counter()
        plan = self.plan
        spec = plan.spec
        notes = f"{plan.notes}, in each of {self.processes} processes" if self.processes > 1 else plan.notes
        what = (spec.agent, spec.env_name, plan.members, plan.steps, plan.expected_updates, notes)
        self.sinks.receive(Opened(*what, changes_in_words(spec)))
        if missing := unused_gpu():
            self.sinks.say(missing)
        compile_seconds = self.population.compile()
        self.sinks.receive(Compiled(compile_seconds))
        if resume:
            self._restore()
            self._report_revision()
            self._extend()
            if others := change_options(self.folder, spec):
                self.sinks.say(others)
            if changed := self.folder.provenance_changes(self.provenance()):
                self.sinks.say(f"resumed on another system, so last digits may differ: {'; '.join(changed)}")
                self.folder.note_resume(self.state.updates, changed)
        else:
            self._begin()
            self.folder.write_json("provenance.json", self.provenance())
            keep(self.folder.path, spec)
            self.folder.write_json("spec.json", spec.to_json())  # last, because a folder with this file is a run
            self.best.save(self.state)
        self.state = self.state.replace(compile_seconds=self.state.compile_seconds + compile_seconds)
        self.started = started - self._seconds_before
        if not self.is_over:
            steps = plan.agent.steps_per_update
            self.sinks.receive(Started(self.state.updates * steps, plan.boundary(len(self.records)) * steps))

    @property
    def is_over(self) -> bool:
        """Whether all updates are done, or the selector has ended the run."""
        return self.state.finished or self.plan.updates is not None and self.state.updates >= self.plan.updates

    def step(self, stop: StopRequest | None = None) -> bool:
        """Do one chunk: fill, train, evaluate, record, select, save, report. Return False if the run was over.

        With `stop`, a long chunk is trained in pieces. After a request it ends with the present piece: the run is saved
        within the record, and the next step, also that of a resumed run, completes the chunk.
        """
        if self.is_over:
            return False
        record, before = len(self.records), self.state
        recorded, last = self._recorded_updates, self.plan.boundary(record)
        if before.updates == recorded:
            self._fill()
        if (trained := self._train_to(last, stop)) is None:
            self.save()
            return True
        metrics, alive = trained
        alive = alive | self.state.has_reached
        evaluation = self._evaluate(record) if self.plan.evaluates(record) else None
        line = self.records.append(
            last * self.plan.agent.steps_per_update,
            time.perf_counter() - self.started,
            metrics,
            alive,
            evaluation,
            self._selection.columns(self.state),
        )
        self.records.save(self.folder)
        self._warnings.check(self.state.roster, metrics, alive, evaluation, last - recorded)
        self._end_where_reached(evaluation, alive)
        busy = self.plan.members - int(self.state.roster.is_idle.sum()) - int(before.has_reached.sum())
        turned = self._select(record, alive)
        if self._is_time_to_save():
            self.save()
        updates, seconds = last - before.updates, self.state.train_seconds - before.train_seconds
        rate = updates * self.plan.agent.steps_per_update * busy / seconds
        left, newest = seconds_left(self.plan, self.state), newest_of_settings(self.plan, self.records)
        self.sinks.receive(Recorded(last, line, rate, left, newest))
        if turned is not None:
            self.sinks.receive(turned)
        return True

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run so far, with the times of this process."""
        return summary_of(self.plan, self.state, self.records, time.perf_counter() - self.started)

    def write_summary(self) -> dict[str, Any]:
        """Write the curves whole, and `summary.json`; return the summary."""
        self.records.save_whole(self.folder)
        summary = self.summary()
        self.folder.write_json("summary.json", summary)
        return summary

    def policies(self) -> Any:
        """Return the policies of all members as they are now: NumPy leaves [M, ...]."""
        return self.policies_of(self.population.to_host()) if self.last_policies is None else self.last_policies

    def policies_of(self, members: Any) -> Any:
        """Return the policies of `members`, a tree with leaves [M, ...]."""
        return policy_states(self.plan.batched(self.state.roster).agent, members.state)

    def states(self) -> Any:
        """Return the agent states of all members as they are now: NumPy leaves [M, ...]."""
        return self.population.to_host().state

    def member_policies(self) -> Policies:
        """Return the policies of all members as they are now, with their agents, environments and names."""
        agents, envs = self.plan.batched(self.state.roster)
        return Policies(agents, self.policies(), envs, self.plan.names(self.state.roster))

    @property
    def updates(self) -> int:
        """The updates that are done."""
        return self.state.updates

    @property
    def train_seconds(self) -> float:
        """The seconds of training so far, in this process and in those before it."""
        return self.state.train_seconds

    @property
    def selector_state(self) -> Any:
        """The state of the selector, which its own methods read and change; None before `open`."""
        return self.state.selector

    @selector_state.setter
    def selector_state(self, changed: Any) -> None:
        self.state = self.state.replace(selector=changed)

    # Parts of a chunk, in order.

    @property
    def _recorded_updates(self) -> int:
        """The number of updates at the newest record."""
        return self.records.env_steps // self.plan.agent.steps_per_update

    @property
    def _is_within_record(self) -> bool:
        """Whether a part of a chunk is done: a request to stop ended it before its record."""
        return self.state.updates > self._recorded_updates

    def _train_to(self, last: int, stop: StopRequest | None) -> tuple[Metrics, np.ndarray] | None:
        """Train until `last` updates are done: (the metrics of the chunk [M], whether members are finite [M]).

        Return None if a request to stop ended the chunk before. A chunk in waves is one piece, because each piece moves
        all members to the device and back.
        """
        started = time.perf_counter()
        is_divided = stop is not None and len(self.plan.waves) == 1
        while (done := self.state.updates) < last:
            updates = self._pieces.next(last - done, done) if is_divided else last - done
            with self._pieces.timed(updates, self._seconds_after(done + updates)):
                self.population.advance(done, updates)
            self.state, self._is_saved = self.state.replace(updates=done + updates), False
            if stop is not None and self._must_stop(stop):
                break
        trained = self.population.end_record() if self.state.updates == last else None
        seconds = self.state.train_seconds + time.perf_counter() - started
        self.state = self.state.replace(train_seconds=seconds)
        return trained

    def _seconds_after(self, updates: int) -> float:
        """Return how long it takes to save the run after so many updates, with the evaluation of a record before it."""
        record = len(self.records)
        is_evaluated = updates == self.plan.boundary(record) and self.plan.evaluates(record)
        return self._save_seconds + is_evaluated * self._evaluation_seconds

    def _must_stop(self, stop: StopRequest) -> bool:
        """Return whether this process or another one of the run was asked to stop."""
        stop.signal = stop.signal or self.population.stop_signal
        return stop.is_set()

    def _fill(self) -> None:
        """Let the selector change the population before the chunk begins."""
        self.state, turnover = self._selection.fill(self.state)
        if turnover is not None:
            self.sinks.receive(self._turn(turnover))

    def _evaluate(self, record: int) -> Evaluation:
        started = time.perf_counter()
        key = jax.random.fold_in(stream(self.key, "evaluate"), record)
        evaluation, self.last_policies = self.population.evaluate(key)
        self._keep_best(evaluation, self.last_policies)
        self._evaluation_seconds = time.perf_counter() - started
        eval_seconds = self.state.eval_seconds + self._evaluation_seconds
        cut = ~np.asarray(evaluation.finished) & ~self.state.roster.is_idle[:, None]
        self.state = self.state.replace(eval_seconds=eval_seconds, eval_cut=int(cut.sum()))
        return evaluation

    def _keep_best(self, evaluation: Evaluation, policies: Any) -> None:
        score = np.asarray(evaluation.episode_return).mean(axis=1)
        better = (score > self.state.best_return) & ~self.state.roster.is_idle
        best = np.where(better, score, self.state.best_return)
        self.state = self.state.replace(best_return=best)
        self.best.keep(policies, better)
        self.best.save(self.state)

    def _end_where_reached(self, evaluation: Evaluation | None, alive: np.ndarray) -> None:
        """End the members whose evaluation reached `stop_at`, and the run if that ends it."""
        if self.plan.spec.stop_at is None or evaluation is None:
            return
        returns = np.asarray(evaluation.episode_return).mean(axis=1)
        new, end = reached_goal(self.plan.spec, self.state, returns, alive)
        if new.any():
            self.state = self.state.with_reached(new)
            self.population.apply(np.where(new, REST, np.arange(len(new))), self.state.roster)
            names = self.plan.names(self.state.roster)
            for m in np.flatnonzero(new):
                self.sinks.say(f"member {m} ({names[m]}) has reached {returns[m]:.4g}, and is not trained any more")
        if end and not self.is_over:
            self.state = self.state.replace(finished=True)
            self.sinks.say(f"the run ends here: {end}")

    def _select(self, record: int, alive: np.ndarray) -> Turned | None:
        """Let the selector change the population every `selector.every` records. Return the event, or None."""
        if self.is_over or not self._selection.is_due(record):
            return None
        ages, columns = self.population.ages(), self.records.columns
        self.state, turnover = self._selection.select(self.state, record, ages, alive, columns)
        turned = self._turn(turnover)
        if found := self._selection.found(self.state):
            self.folder.write_json("found.json", found)
        return turned

    def _turn(self, turnover: Turnover) -> Turned:
        """Carry out a turnover, and return its event."""
        self.state = self.state.after(turnover)
        self.population.apply(np.asarray(turnover.source), self.state.roster, new_episodes=bool(turnover.new_episodes))
        if np.any(turnover.source != np.arange(self.plan.members)):
            self.last_policies = None  # it holds policies of members that were replaced
        new = self.state.roster
        return Turned(self.state.updates, new.occupant.tolist(), new.parent.tolist(), turnover.notes)

    def save(self) -> None:
        """Save a checkpoint, unless the newest update is in one. Only between two calls of `step`."""
        if not self._is_saved:
            started = time.perf_counter()
            self._save()
            self._is_saved, self._saved_at = True, time.perf_counter()
            self._save_seconds = self._saved_at - started

    def _is_time_to_save(self) -> bool:
        if self._save_share is None or self.is_over:
            return True
        return bool(time.perf_counter() - self._saved_at >= self._save_seconds / self._save_share)

    def _save(self) -> None:
        totals = self.population.totals() if self._is_within_record else None
        seconds = time.perf_counter() - self.started
        now = Snapshot(None, self.state, self.records, totals, seconds, self.is_over)
        snapshot.write(now, partial(write_members, self.population), self.plan, self.folder)

    def _report_revision(self) -> None:
        now = self.plan.env.revision
        if (before := self.folder.read_json("provenance.json").get("env_revision", now)) != now:
            self.sinks.say(
                f"{self.plan.spec.env_name} is in revision {now} and was in revision {before} when this run began: its "
                f"behaviour has changed, and the curves from here on show the new one"
            )

    # How a run begins, how it is resumed, and how it gets more steps.

    def _extend(self) -> None:
        """Give a restored run the steps of its spec if they are more than before.

        A complete run has made no turnover after its last record. If it goes on now, it makes it first, as a run that
        was planned with so many steps.
        """
        if self.state.finished:
            return
        if more := extend(self.folder, self.plan.spec, self.plan.agent):
            self.sinks.say(more)
        if self._was_over and (turned := self._select(len(self.records) - 1, self.records.columns["alive"][-1])):
            self.sinks.receive(turned)

    def _begin(self) -> None:
        self.state = self._selection.first_state()
        if self.plan.selector is not None:
            self.population.apply(np.arange(self.plan.members), self.state.roster)
        if self.plan.spec.branch.get("record"):
            self._begin_as_branch()
            return
        self.population.begin()
        if self.plan.spec.init:
            members = with_policies(self.plan, self.population.to_host(), first_policies(self.plan))
            self.population.load(members, self.state.roster)

    def _begin_as_branch(self) -> None:
        """Begin with twins of the members of another run, as they were at one of its checkpoints.

        A member has the seed index of its twin; each further seed is that twin with another random key.
        """
        branch = self.plan.spec.branch
        folder = RunFolder(branch["run"])
        if folder.spec_hash != branch["spec"]:
            raise ValueError(f"{folder.path}, of which this run is a branch, is another run by now.")
        trunk = Run(make_plan(check_complete(folder)), folder)
        trunk.restore(folder.checkpoint(trunk.plan.boundary(branch["record"] - 1)))
        self.take_over(trunk, self.plan.twins(trunk.plan.members))
        self._give_keys(self.plan.roster.seed_index >= trunk.plan.spec.seeds)
        roster = self.state.roster._replace(born=np.full(self.plan.members, self.state.updates))
        self.state = self.state.replace(roster=roster, compile_seconds=0.0, train_seconds=0.0, eval_seconds=0.0)
        self.population.set_roster(roster)
        self._write_lines()

    def _give_keys(self, flag: np.ndarray) -> None:
        """Give the members where `flag` [M] is true random keys that depend on their seed index."""
        roster, no = self.state.roster, np.zeros(len(flag), bool)
        self.population.renew(False, flag, no, no, roster._replace(occupant=roster.seed_index.astype(np.int64)))

    def _write_lines(self) -> None:
        lines = self.records.lines()
        self.folder.replace("metrics.jsonl", lambda path: path.write_text(lines))

    def _restore(self) -> None:
        """Restore the newest checkpoint that is not damaged; if none was saved yet, begin the run."""
        checkpoint.tidy(self.folder.checkpoints)
        saved = checkpoint.saved(self.folder.checkpoints)
        for number, path in enumerate(saved):
            try:
                self.restore(path)
            except DamagedError as error:
                if path == saved[-1]:
                    raise
                self.sinks.say(f"{error} Going on from the checkpoint before it")
            else:
                checkpoint.keep_newest(self.folder.checkpoints, max(snapshot.NEWEST, number + 1))
                break
        else:
            self._begin()
            self.best.save(self.state)
        self._write_lines()

    def restore(self, path: Path) -> None:
        """Take everything from a checkpoint of the run and from its curves. No file is written.

        Raises CheckpointError or DamagedError if the checkpoint or the curves are damaged or of another run.
        """
        saved = snapshot.read(path, self.plan, self.folder, self.population, self._selection.first_state())
        self.state, self.records = saved.state, saved.records
        self._seconds_before, self._was_over = saved.seconds, saved.is_over
        self.population.load(saved.members, self.state.roster)
        if saved.totals is not None:
            self.population.load_totals(saved.totals)
        for note in getattr(self.population, "notes", ()):
            self.sinks.say(note)
        self._restore_best(saved.members)

    def take_over(self, other: "Run", rows: np.ndarray) -> None:
        """Go on from the members `rows` [M] of another run, as they are now, with their records.

        With a selector they are all members, in their order, because it may mix them.
        """
        state, members = other.state, other.population.to_host()
        of = state if self.plan.selector is not None else self.state
        self.records = other.records.of(rows)
        self.state = state.replace(
            roster=of.roster,
            next_occupant=of.next_occupant,
            best_return=np.where(other.has_best_policy, state.best_return, -np.inf)[rows],
            reached=None if state.reached is None else state.reached[rows],
        )
        if other.best.policies is not None:  # else there was no evaluation yet
            self.best.take_over(other.best, other.has_best_policy, other.policies_of(members), rows)
        self.population.load(jax.tree.map(lambda x: x[rows], members), self.state.roster)
        self._seconds_before = other._seconds_before

    @property
    def has_best_policy(self) -> np.ndarray:
        """Bool [M]: whether `best` is of the best evaluation so far, and not of one after this checkpoint."""
        return self.best.are_of(self.state.best_return)

    def _restore_best(self, members: Any) -> None:
        if not any(self.plan.evaluates(record) for record in range(len(self.records))):
            return  # there was no evaluation yet
        like = jax.eval_shape(self.policies_of, members)
        try:
            self.best.restore(like)
        except CheckpointError as error:
            self.state = self.state.replace(best_return=np.full(self.plan.members, -np.inf))
            self.sinks.say(f"{error} The best policies so far are lost; the best ones from here on are kept")

    def provenance(self) -> dict[str, Any]:
        """Return where and with which versions this process runs."""
        placement = self.plan.placement
        devices = list(placement.mesh.devices.flat) if placement.mesh else jax.local_devices()[:1]
        origin = provenance(placement.block, placement.workers, devices)
        return {
            **origin,
            "form": placement.form._asdict(),
            "env_revision": self.plan.env.revision,
            "processes": self.processes,
        }


def population_of(plan: Plan, key: Key, group: Group) -> Any:
    """Return the population of a plan: on the devices, shared with other processes, or with environments on the host.

    Raises ValueError if members with environments on the host are to be shared.
    """
    if needs_host(plan.env):
        if group.size > 1:
            raise ValueError(
                f"{plan.spec.env_name} is stepped by Python, and such a run cannot be shared by {group.size} "
                f"processes: start a run in each, with a seed of its own, or shoal tune with --workers."
            )
        return HostPopulation(plan, key)
    return Population(plan, key) if group.size == 1 else SharedPopulation(plan, key, group)
