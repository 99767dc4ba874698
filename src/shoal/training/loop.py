"""The loop of a run: compile once, then for each chunk train, evaluate, record, select, save.

A chunk is one call of the compiled program, or several where it takes long (`pieces`). Files, messages and decisions
happen on the host, between chunks. A run that was stopped, between chunks or between the pieces of one, can be resumed
from its newest checkpoint, and then ends with the same bits as a run without a stop.
"""

import math
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.env import NAN_STATE
from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import Key, make_key, stream
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.changes import changes_in_words
from shoal.specs.describe import describe, to_json
from shoal.specs.selector import REST, Standing, Turnover, check_turnover, taken_turnover
from shoal.specs.settings import setting_in_words
from shoal.specs.sources import keep
from shoal.specs.spec import short
from shoal.tracking.events import Closed, Compiled, Finished, Opened, Recorded, Sink, Sinks, Started, Turned
from shoal.tracking.jsonl import JsonLines
from shoal.training import checkpoint
from shoal.training.claim import locked
from shoal.training.extension import change_options, extend
from shoal.training.fine_tuning import first_policies, with_policies
from shoal.training.folder import RunFolder, json_ready, provenance
from shoal.training.host import unused_gpu
from shoal.training.host_envs import needs_host
from shoal.training.host_population import HostPopulation
from shoal.training.lives import best_members, hyperparameters_in, newest_returns, training_returns
from shoal.training.pieces import Pieces
from shoal.training.plan import Plan, make_plan, schedule_of
from shoal.training.policy import Policies, check_complete, policy_states, upgraded
from shoal.training.population import Population
from shoal.training.processes import ALONE, Group
from shoal.training.records import Records, member_scores, score_summary
from shoal.training.reuse import reuse_warning
from shoal.training.run_state import RunState
from shoal.training.sharing import SharedPopulation
from shoal.training.stopping import Stopped, StopRequest, cleaned_up, stop_requests, stopped_at_once


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
        self.best_policy: Any = None  # [M], the policy of each occupant at its best evaluation
        self.last_policy: Any = None  # [M], the policies that were evaluated last
        self._reported_stopped: set[int] = set()  # occupants that are no longer trained, and were reported
        self._warned_of_reuse = self._warned_of_nan = False
        self._save_share, self._is_saved = save_share, True
        self._saved_at, self._save_seconds = -math.inf, 0.0  # of the newest checkpoint of this process
        self._evaluation_seconds = 0.0  # of the newest evaluation of this process
        self._pieces = Pieces()
        self._seconds_before = 0.0  # from the start of the run to the checkpoint that it resumes from
        self._was_over = False  # whether the run was complete when the checkpoint that it resumes from was saved

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
            self.sinks.receive(Closed(how))

    def _train(self, resume: bool) -> dict[str, Any]:
        self.open(resume=resume)
        again = f"shoal train --resume {self.folder.path}"
        complete = f"stopped after training was complete. To draw the figures: {again}"
        with stop_requests(self.sinks.say, self._pieces.until_saved) as stop:
            while self.step(stop):
                if self._must_stop(stop) and not self.is_over:
                    self.records.save_whole(self.folder)
                    raise Stopped(f"stopped. Continue with: {again}", stop.signal)
            self.records.save_whole(self.folder)
            summary = self.summary()
            self.folder.write_json("summary.json", summary)
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
            self._save_best()
        self.state = self.state.replace(compile_seconds=self.state.compile_seconds + compile_seconds)
        self.started = started - self._seconds_before
        if not self.is_over:
            steps = plan.agent.steps_per_update
            self.sinks.receive(Started(self.state.updates * steps, plan.boundary(len(self.records)) * steps))

    @property
    def is_over(self) -> bool:
        """Whether all updates are done, or the selector has ended the run."""
        return self.state.finished or self.plan.updates is not None and self.state.updates >= self.plan.updates

    @cached_property
    def _is_scored_by_evaluations(self) -> bool:
        return schedule_of(self.plan).is_scored_by_evaluations

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
        alive = alive if self.state.reached is None else alive | (self.state.reached > 0)
        evaluation = self._evaluate(record) if self.plan.evaluates(record) else None
        line = self.records.append(
            last * self.plan.agent.steps_per_update,
            time.perf_counter() - self.started,
            metrics,
            alive,
            evaluation,
            self._slots(),
        )
        self.records.save(self.folder)
        self._report_stopped(alive)
        self._report_nan(metrics, evaluation)
        self._report_reuse(metrics, last - recorded)
        self._stop_reached(evaluation, alive)
        ended = 0 if before.reached is None else int((before.reached > 0).sum())
        busy = self.plan.members - int(self.state.roster.is_idle.sum()) - ended
        turned = self._select(record, alive)
        if self._is_time_to_save():
            self.save()
        updates, seconds = last - before.updates, self.state.train_seconds - before.train_seconds
        rate = updates * self.plan.agent.steps_per_update * busy / seconds
        self.sinks.receive(Recorded(last, line, rate, self._seconds_left(), self._newest_of_settings()))
        if turned is not None:
            self.sinks.receive(turned)
        return True

    def summary(self) -> dict[str, Any]:
        """Return scores of the last and the best evaluation (overall, per setting, per member) and the times in s."""
        total = time.perf_counter() - self.started
        parts = {name: getattr(self.state, name) for name in ("compile_seconds", "train_seconds", "eval_seconds")}
        return {
            **self.results(),
            **parts,
            "other_seconds": total - sum(parts.values()),  # set up members, write records and checkpoints, select
            "total_seconds": total,
        }

    def results(self) -> dict[str, Any]:
        """Return the parts of the summary that follow from the curves and the newest checkpoint."""
        curves = self.records.arrays()
        last = member_scores(curves)
        names, best = self.plan.names(self.state.roster), self.state.best_return
        return {
            "agent": self.plan.spec.agent,
            "env": self.plan.spec.env_name,
            "steps_per_member": self.state.updates * self.plan.agent.steps_per_update,
            "members": self.plan.members,
            "last": score_summary(last),
            "best": score_summary(np.where(np.isfinite(best), best, np.nan)),
            "settings": self._scores_of_settings(last),
            "per_member": [
                {"member": m, "name": names[m], "last": last[m], "best": best[m], "alive": bool(alive)}
                for m, alive in enumerate(curves["alive"][-1])
            ],
            **({"best_members": best_members(curves)} if hyperparameters_in(curves) else {}),
            "episodes_per_evaluation": self.plan.spec.eval_episodes,
            "longest_evaluation_episode": self.plan.horizon,
            "evaluation_episodes_cut_off": self.state.eval_cut,  # of all members together, in the last evaluation
            "steps_per_second": self._steps_trained() / max(self.state.train_seconds, 1e-9),
        }

    def _scores_of_settings(self, scores: np.ndarray) -> list[dict[str, Any]]:
        """Summarize scores [M] for each setting; for all members together if a selector changes their settings."""
        if self.plan.selector is not None:
            return [{"setting": {}, **score_summary(scores)}]
        groups = np.split(scores, len(self.plan.settings))  # members are ordered by setting, then by seed
        pairs = zip(self.plan.settings, groups, strict=True)
        return [{"setting": short(setting), **score_summary(group)} for setting, group in pairs]

    def _newest_of_settings(self) -> list[tuple[str, float]]:
        """Return (name, newest mean score) of every setting; nothing if there is only one setting, or a selector."""
        if self.plan.selector is not None or len(self.plan.settings) < 2:
            return []
        scores = self.records.newest_scores().reshape(len(self.plan.settings), -1).mean(axis=1)
        return [
            (setting_in_words(setting), float(score)) for setting, score in zip(self.plan.settings, scores, strict=True)
        ]

    def policies(self) -> Any:
        """Return the policies of all members as they are now: NumPy leaves [M, ...]."""
        return self.policies_of(self.population.to_host()) if self.last_policy is None else self.last_policy

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
        steps = self.records.columns.get("env_steps")
        return int(steps[-1]) // self.plan.agent.steps_per_update if steps else 0

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
            updates = self._pieces.next(last - done) if is_divided else last - done
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
        if self.plan.selector is None:
            return
        selector_state, turnover = self.plan.selector.fill(self.state.selector, self.state.roster)
        self.state = self.state.replace(selector=selector_state)
        if turnover is not None:
            check_turnover(turnover, self.state.roster)
            self.sinks.receive(self._turn(turnover))

    def _evaluate(self, record: int) -> Evaluation:
        started = time.perf_counter()
        key = jax.random.fold_in(stream(self.key, "evaluate"), record)
        evaluation, self.last_policy = self.population.evaluate(key)
        self._keep_best(evaluation, self.last_policy)
        self._evaluation_seconds = time.perf_counter() - started
        eval_seconds = self.state.eval_seconds + self._evaluation_seconds
        cut = ~np.asarray(evaluation.finished) & ~self.state.roster.is_idle[:, None]
        self.state = self.state.replace(eval_seconds=eval_seconds, eval_cut=int(cut.sum()))
        return evaluation

    def _keep_best(self, evaluation: Evaluation, policy: Any) -> None:
        score = np.asarray(evaluation.episode_return).mean(axis=1)
        better = (score > self.state.best_return) & ~self.state.roster.is_idle
        best = np.where(better, score, self.state.best_return)
        self.state = self.state.replace(best_return=best)
        old = policy if self.best_policy is None else self.best_policy
        self.best_policy = jax.tree.map(lambda new, kept: _rows_where(better, new, kept), policy, old)
        self._save_best()

    def _save_best(self) -> None:
        """Save the best policies, if there are any: at its beginning only a branch has some, those of its run."""
        if self.best_policy is None:
            return
        about = {
            "returns": json_ready(self.state.best_return),
            "updates": self.state.updates,
            "agent_revision": self.plan.agent.revision,
        }
        checkpoint.save(self.folder.best, {checkpoint.POLICIES: self.best_policy}, self.folder.spec_hash, about)

    def _slots(self) -> dict[str, np.ndarray]:
        """Return the columns [M] of a record that only runs with a selector have.

        These are the occupant, the selector's own columns, the parent, and after it the hyperparameters.
        """
        if self.plan.selector is None:
            return {}
        roster = self.state.roster
        columns = self.plan.selector.columns(self.state.selector)
        return {"occupant": roster.occupant, **columns, "parent": roster.parent, **roster.numbers}

    def _report_stopped(self, alive: np.ndarray) -> None:
        if self.plan.selector is not None and self.plan.selector.replaces_stopped:
            return
        roster = self.state.roster
        names = self.plan.names(roster)
        for m in np.flatnonzero(~alive & ~roster.is_idle):
            occupant = int(roster.occupant[m])
            if occupant not in self._reported_stopped:
                self._reported_stopped.add(occupant)
                self.sinks.say(
                    f"member {m} ({names[m]}) stopped: its losses or weights are not finite. Its last finite weights "
                    f"are kept; the other members go on.",
                    is_warning=True,
                )

    def _stop_reached(self, evaluation: Evaluation | None, alive: np.ndarray) -> None:
        """End the members whose evaluation reached `stop_at`, and the run if all have, or if their mean has."""
        goal = self.plan.spec.stop_at
        if goal is None or evaluation is None:
            return
        returns = np.asarray(evaluation.episode_return).mean(axis=1)
        if self.plan.spec.stop_at_mean:
            mean = returns[~self.state.roster.is_idle].mean()
            self._end_where(bool(mean >= goal), f"the mean return of the members, {mean:.4g}, has reached {goal:g}")
            return
        before = np.zeros(len(returns), int) if self.state.reached is None else self.state.reached
        new = (returns >= goal) & (before == 0)
        if new.any():
            self.state = self.state.replace(reached=np.where(new, self.state.updates, before))
            self.population.apply(np.where(new, REST, np.arange(len(new))), self.state.roster)
            names = self.plan.names(self.state.roster)
            for m in np.flatnonzero(new):
                self.sinks.say(f"member {m} ({names[m]}) has reached {returns[m]:.4g}, and is not trained any more")
        self._end_where(bool(((before > 0) | new | ~alive).all()), f"no member is left that has not reached {goal:g}")

    def _end_where(self, is_over: bool, why: str) -> None:
        if is_over and not self.is_over:
            self.state = self.state.replace(finished=True)
            self.sinks.say(f"the run ends here: {why}")

    def _report_nan(self, metrics: Metrics, evaluation: Evaluation | None) -> None:
        """Say once that returns are NaN, and of which member."""
        is_nan = (np.asarray(metrics.episodes.count) > 0) & np.isnan(metrics.episodes.return_sum)
        if evaluation is not None:
            is_nan |= np.isnan(evaluation.episode_return).any(axis=1)
        if self._warned_of_nan or not (is_nan := is_nan & ~self.state.roster.is_idle).any():
            return
        self._warned_of_nan, first = True, int(np.argmax(is_nan))
        self.sinks.say(
            f"returns of {is_nan.sum()} of {self.plan.members} members are NaN, those of member {first} "
            f"({self.plan.names(self.state.roster)[first]}) for example: {NAN_STATE}"
        )

    def _report_reuse(self, metrics: Metrics, updates: int) -> None:
        """Warn once if many episodes began in a state of the reset bank that had been used before."""
        rollout, episodes = self.plan.agent.rollout, metrics.episodes
        if self._warned_of_reuse or rollout is None:
            return
        if warning := reuse_warning(episodes.count, episodes.resets_reused, updates, rollout, self.plan.env):
            self._warned_of_reuse = True
            self.sinks.say(warning)

    def _select(self, record: int, alive: np.ndarray) -> Turned | None:
        """Let the selector change the population every `selector.every` records. Return the event, or None."""
        selector = self.plan.selector
        if selector is None or (record + 1) % selector.every or self.is_over:
            return None
        roster, curves = self.state.roster, self.records.columns
        standing = Standing(
            record=record,
            updates=self.state.updates,
            roster=roster,
            age=self.population.ages(),
            score=newest_returns(curves, record, of_evaluations=self._is_scored_by_evaluations),
            alive=alive & ~roster.is_idle,
            returns=training_returns(curves, record, selector.every),
        )
        key = jax.random.fold_in(stream(self.key, "select"), record)
        selector_state, turnover = taken_turnover(selector.select(self.state.selector, standing, key), standing)
        self.state = self.state.replace(selector=selector_state)
        turned = self._turn(turnover)
        if found := selector.found(selector_state, self.state.roster):
            self.folder.write_json("found.json", {path: to_json(describe(value)) for path, value in found.items()})
        return turned

    def _turn(self, turnover: Turnover) -> Turned:
        """Carry out a turnover, and return its event."""
        self.state = self.state.after(turnover)
        self.population.apply(np.asarray(turnover.source), self.state.roster, new_episodes=bool(turnover.new_episodes))
        if np.any(turnover.source != np.arange(self.plan.members)):
            self.last_policy = None  # it holds policies of members that were replaced
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
        members = self.population.to_host()
        about = {
            **self.state.facts(),
            "env_revision": self.plan.env.revision,
            "agent_revision": self.plan.agent.revision,
            "records": len(self.records),
            "curves": self.records.fingerprint(),
            "wall_seconds": time.perf_counter() - self.started,
            "over": self.is_over,
        }
        parts = {
            checkpoint.LEARNERS: members,
            checkpoint.POLICIES: self.policies_of(members),
            checkpoint.RUN: self.state.arrays(),
            **({checkpoint.TOTALS: self.population.totals()} if self._is_within_record else {}),
        }
        every = self.plan.spec.keep_checkpoints
        stays = every > 0 and len(self.records) % every == 0 and not self._is_within_record
        checkpoint.save(self.folder.checkpoint(self.state.updates), parts, self.folder.spec_hash, about, stays=stays)
        checkpoint.keep_newest(self.folder.checkpoints, 2)

    def _seconds_left(self) -> float | None:
        if (expected := self.plan.expected_updates) is None:
            return None
        elapsed = self.state.train_seconds + self.state.eval_seconds
        return elapsed / self.state.updates * max(expected - self.state.updates, 0)

    def _steps_trained(self) -> int:
        born = self.state.roster.born if self.plan.spec.branch else 0
        updates = np.full(self.plan.members, self.state.updates) - born
        if (reached := self.state.reached) is not None:
            updates = np.where(reached > 0, np.maximum(reached - born, 0), updates)
        return int(updates.sum()) * self.plan.agent.steps_per_update

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
        self.state = self._first_state()
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
                checkpoint.keep_newest(self.folder.checkpoints, max(2, number + 1))
                break
        else:
            self._begin()
            self._save_best()
        self._write_lines()

    def restore(self, path: Path) -> None:
        """Take everything from a checkpoint of the run and from its curves. No file is written.

        Raises CheckpointError or DamagedError if the checkpoint or the curves are damaged or of another run.
        """
        about, spec = checkpoint.read_about(path), self.folder.spec_hash
        self.state = self._first_state()  # a checkpoint is restored into its structure
        members = checkpoint.restore(path, checkpoint.LEARNERS, self.population.shapes(), spec)
        check_revision(self.plan, self.policies_of(members), about)
        arrays = checkpoint.restore(path, checkpoint.RUN, self.state.arrays(), spec)
        self.records = Records.load(self.folder, self.plan.members, about["records"], about["curves"])
        self.state = self.state.restored(about, arrays)
        self._was_over = about.get("over", False)  # older checkpoints lack it
        self._seconds_before = about.get("wall_seconds") or float(self.records.columns["wall_seconds"][-1])
        totals = None
        if self._is_within_record:
            totals = checkpoint.restore(path, checkpoint.TOTALS, self.population.no_totals(), spec)
        self.population.load(members, self.state.roster)
        if totals is not None:
            self.population.load_totals(totals)
        for note in getattr(self.population, "notes", ()):
            self.sinks.say(note)
        self._restore_best(members)

    def _first_state(self) -> RunState:
        return RunState.first(self.plan.roster, self.plan.selector, stream(self.key, "selector"))

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
        if other.best_policy is not None:  # else there was no evaluation yet
            now, is_best = other.policies_of(members), other.has_best_policy
            best = jax.tree.map(lambda best, now: _rows_where(is_best, best, now), other.best_policy, now)
            self.best_policy = jax.tree.map(lambda x: x[rows], best)
        self.population.load(jax.tree.map(lambda x: x[rows], members), self.state.roster)
        self._seconds_before = other._seconds_before

    @property
    def has_best_policy(self) -> np.ndarray:
        """Bool [M]: whether `best_policy` is of the best evaluation so far, and not of one after this checkpoint."""
        if self.best_policy is None:
            return np.zeros(self.plan.members, bool)
        returns = checkpoint.about_of(self.folder.best)["returns"]
        return np.asarray([-np.inf if best is None else best for best in returns]) == self.state.best_return

    def _restore_best(self, members: Any) -> None:
        if not any(self.plan.evaluates(record) for record in range(len(self.records))):
            return  # there was no evaluation yet
        like = jax.eval_shape(self.policies_of, members)
        try:
            self.best_policy = checkpoint.restore(self.folder.best, checkpoint.POLICIES, like, self.folder.spec_hash)
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


def check_revision(plan: Plan, policies: Any, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError if the weights of a checkpoint mean something else to this revision of the agent."""
    now = upgraded(plan.agent, policies, about)
    if now is not policies and not all(map(np.array_equal, jax.tree.leaves(now), jax.tree.leaves(policies))):
        raise CheckpointError(
            f"this run was trained by an older revision of {plan.spec.agent}, to which its weights mean something "
            f"else, so it cannot go on. Its policies can be evaluated, and a new run can begin with them: --init RUN, "
            f"or init= in Python."
        )


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


def _rows_where(flag: np.ndarray, new: Any, old: Any) -> Any:
    return np.where(flag.reshape(flag.shape + (1,) * (np.ndim(new) - 1)), new, old)
