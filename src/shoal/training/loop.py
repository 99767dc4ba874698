"""The loop of a run: compile once, then chunk by chunk train, evaluate, record, select, save.

Between chunks the host does everything that has effects; inside a chunk nothing leaves the device. A run that stops
anywhere goes on from its last chunk, and ends with the same bits as one that was not.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import make_key, stream
from shoal.rollouts.evaluate import Evaluation
from shoal.tracking.events import Closed, Compiled, Finished, Opened, Recorded, Sink, Sinks, Turned
from shoal.tracking.jsonl import JsonLines
from shoal.training import checkpoint
from shoal.training.claim import claimed
from shoal.training.extension import extend
from shoal.training.fine_tuning import first_policies, with_policies
from shoal.training.folder import RunFolder, json_ready, provenance
from shoal.training.plan import Plan
from shoal.training.population import Population
from shoal.training.records import Records, member_scores, score_summary
from shoal.training.reuse import reuse_warning
from shoal.training.run_state import RunState
from shoal.training.selector import Standing, check_turnover
from shoal.training.sources import keep
from shoal.training.spec import plain
from shoal.training.stopping import Stopped, stop_requests


class Run:
    """One run in memory: a population, its records and its state, with the folder that they are written to."""

    def __init__(self, plan: Plan, folder: RunFolder, sinks: Sequence[Sink] = ()) -> None:
        """Set up; nothing is compiled or written yet."""
        self.plan = plan
        self.folder = folder
        self.sinks = Sinks([JsonLines(folder.path / "metrics.jsonl"), *sinks])
        self.key = make_key(plan.spec.seed, plan.spec.prng)
        self.population = Population(plan, self.key)
        self.records = Records(plan.members)
        self.state = RunState.first(plan.roster)
        self.best_policy: Any = None  # [M], of each occupant at its best evaluation
        self.last_policy: Any = None  # [M], as evaluated last
        self.compile_seconds = 0.0
        self._known_dead: set[int] = set()
        self._warned_of_reuse = False

    def train(self, *, resume: bool = False) -> dict[str, Any]:
        """Train to the end and return the summary. Raises Stopped when asked to stop, with everything saved.

        Raises FileExistsError where another run is at work in the folder, or a new one would be the second in it.
        """
        try:
            with claimed(self.folder.path):
                if not resume:
                    self.folder.check_unused()  # again: one may have come and gone since the folder was made
                return self._to_the_end(resume)
        finally:
            self.sinks.hear(Closed())

    def _to_the_end(self, resume: bool) -> dict[str, Any]:
        self.open(resume=resume)
        with stop_requests(self.sinks.say) as stop:
            while self.step():
                if stop.is_set() and not self.is_over:
                    raise Stopped(f"stopped. Continue with: shoal train --resume {self.folder.path}", stop.signal)
            summary = self.summary()
            self.folder.write_json("summary.json", summary)
            if stop.is_set():  # others may be waiting behind this run
                again = f"shoal train --resume {self.folder.path}"
                raise Stopped(f"stopped when all was trained. To draw it: {again}", stop.signal)
        self.sinks.hear(Finished(summary))
        return summary

    def open(self, *, resume: bool = False) -> None:
        """Compile, and begin the members or restore them from the newest checkpoint."""
        started = time.perf_counter()
        plan = self.plan
        self.sinks.hear(Opened(plan.spec.agent, plan.spec.env_name, plan.members, plan.steps, plan.updates, plan.notes))
        self.compile_seconds = self.population.compile()
        self.sinks.hear(Compiled(self.compile_seconds))
        if resume:
            self._restore()
            self._report_revision()
            if more := extend(self.folder, plan.spec, plan.agent):
                self.sinks.say(more)
            if changed := self.folder.made_otherwise(self._provenance()):
                self.sinks.say(f"resumed elsewhere, so last bits may differ: {'; '.join(changed)}")
        else:
            self._begin()
            self.folder.write_json("provenance.json", self._provenance())
            keep(self.folder.path, self.plan.spec)
            self.folder.write_json("spec.json", self.plan.spec.to_json())  # last: with it the folder holds a run
        self.started = started - (self._recorded_seconds() if resume else 0.0)

    @property
    def is_over(self) -> bool:
        """Whether all chunks are done."""
        return self.state.finished or self.plan.updates is not None and self.state.updates >= self.plan.updates

    def step(self) -> bool:
        """One chunk: train, evaluate, record, select, save, report. Returns False where there is none left to do."""
        if self.is_over:
            return False
        record, done = len(self.records), self.state.updates
        until = self.plan.boundary(record)
        begun = time.perf_counter()
        metrics, alive = self.population.advance(done, until - done)
        took = time.perf_counter() - begun
        self.state = self.state.replace(updates=until, train_seconds=self.state.train_seconds + took)
        evaluation = self._evaluate(record) if self.plan.evaluates(record) else None
        line = self.records.append(
            until * self.plan.agent.steps_per_update,
            time.perf_counter() - self.started,
            metrics,
            alive,
            evaluation,
            self._slots(),
        )
        self.records.save(self.folder)
        self._report_dead(alive)
        self._report_reuse(metrics, until - done)
        turned = self._select(record, alive)
        self._save()
        busy = self.plan.members - int(self.state.roster.is_idle.sum())
        rate = (until - done) * self.plan.agent.steps_per_update * busy / took
        self.sinks.hear(Recorded(until, line, rate, self._seconds_left()))
        if turned is not None:
            self.sinks.hear(turned)
        return True

    def summary(self) -> dict[str, Any]:
        """Scores of the last weights and of the best, overall, per setting and per member, and the time it took."""
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
            "episodes_per_evaluation": self.plan.spec.eval_episodes,
            "steps_per_second": self._steps_trained() / max(self.state.train_seconds, 1e-9),
            "compile_seconds": self.compile_seconds,
            "train_seconds": self.state.train_seconds,
            "eval_seconds": self.state.eval_seconds,
            "total_seconds": time.perf_counter() - self.started,
        }

    def _scores_of_settings(self, scores: np.ndarray) -> list[dict[str, Any]]:
        """Scores [M] of each setting; of all members together where a selector has changed their settings."""
        if self.plan.selector is not None:
            return [{"setting": {}, **score_summary(scores)}]
        groups = np.split(scores, len(self.plan.settings))  # setting-major
        pairs = zip(self.plan.settings, groups, strict=True)
        return [{"setting": plain(setting), **score_summary(group)} for setting, group in pairs]

    def policies(self) -> Any:
        """The policies of all members as they are now, on the host; evaluated or not."""
        return self.population.policies() if self.last_policy is None else self.last_policy

    def states(self) -> Any:
        """The learners of all members as they are now, on the host, with their environments."""
        return self.population.to_host().state

    # Parts of a chunk, in order.

    def _evaluate(self, record: int) -> Evaluation:
        begun = time.perf_counter()
        key = jax.random.fold_in(stream(self.key, "evaluate"), record)
        evaluation, self.last_policy = self.population.evaluate(key)
        self._keep_best(evaluation, self.last_policy)
        spent = self.state.eval_seconds + time.perf_counter() - begun
        self.state = self.state.replace(eval_seconds=spent)
        return evaluation

    def _keep_best(self, evaluation: Evaluation, policy: Any) -> None:
        score = np.asarray(evaluation.episode_return).mean(axis=1)
        better = (score > self.state.best_return) & ~self.state.roster.is_idle
        best = np.where(better, score, self.state.best_return)
        self.state = self.state.replace(best_return=best)
        old = policy if self.best_policy is None else self.best_policy
        self.best_policy = jax.tree.map(lambda new, kept: _rows_where(better, new, kept), policy, old)
        about = {"returns": json_ready(best), "updates": self.state.updates}
        checkpoint.save(self.folder.best, {checkpoint.POLICIES: self.best_policy}, self.folder.spec_hash, about)

    def _slots(self) -> dict[str, np.ndarray]:
        """What a record says of each slot where a selector changes it: occupant, parent, changing hyperparameters."""
        if self.plan.selector is None:
            return {}
        roster = self.state.roster
        numbers = {path: np.asarray(v) for path, v in roster.hyperparameters.items() if np.ndim(v) == 1}
        return {"occupant": roster.occupant, "parent": roster.parent, **numbers}

    def _report_dead(self, alive: np.ndarray) -> None:
        roster = self.state.roster
        names = self.plan.names(roster)
        for m in np.flatnonzero(~alive & ~roster.is_idle):
            occupant = int(roster.occupant[m])
            if occupant not in self._known_dead:
                self._known_dead.add(occupant)
                self.sinks.say(
                    f"member {m} ({names[m]}) stopped: its numbers are not finite. Its last good weights are kept; "
                    f"the others go on."
                )

    def _report_reuse(self, metrics: Metrics, updates: int) -> None:
        """Say once where many episodes began in a state of the reset bank that had been used before."""
        rollout, episodes = self.plan.agent.rollout, metrics.episodes
        if self._warned_of_reuse or rollout is None:
            return
        if warning := reuse_warning(episodes.count, episodes.resets_reused, updates, rollout, self.plan.env):
            self._warned_of_reuse = True
            self.sinks.say(warning)

    def _select(self, record: int, alive: np.ndarray) -> Turned | None:
        """Let the selector change the population, where there is one and it is its turn."""
        selector = self.plan.selector
        if selector is None or (record + 1) % selector.every or self.is_over:
            return None
        roster = self.state.roster
        standing = Standing(
            record=record,
            updates=self.state.updates,
            roster=roster,
            age=self.population.ages(),
            score=np.where(roster.is_idle, np.nan, self.records.newest_scores()),
            alive=alive & ~roster.is_idle,
        )
        key = jax.random.fold_in(stream(self.key, "select"), record)
        memory, turnover = selector.select(self.state.selector, standing, key)
        check_turnover(turnover, standing)
        self.state = self.state.after(turnover).replace(selector=memory)
        self.population.apply(np.asarray(turnover.source), self.state.roster)
        if np.any(turnover.source != np.arange(self.plan.members)):
            self.last_policy = None  # of members that have gone
        now = self.state.roster
        return Turned(self.state.updates, now.occupant.tolist(), now.parent.tolist(), turnover.notes)

    def _save(self) -> None:
        members = self.population.to_host()
        about = {
            "updates": self.state.updates,
            "env_revision": self.plan.env.revision,
            "records": len(self.records),
            "curves": self.records.fingerprint(),
            "train_seconds": self.state.train_seconds,
            "eval_seconds": self.state.eval_seconds,
            "best_return": json_ready(self.state.best_return),
            "next_occupant": self.state.next_occupant,
            "finished": self.state.finished,
        }
        parts = {
            checkpoint.LEARNERS: members,
            checkpoint.POLICIES: self.population.policies_of(members),
            checkpoint.RUN: self.state.arrays(),
        }
        target = self.folder.checkpoints / f"step-{self.state.updates:012d}"
        checkpoint.save(target, parts, self.folder.spec_hash, about)
        checkpoint.keep_newest(self.folder.checkpoints, 2)

    def _seconds_left(self) -> float | None:
        if self.plan.updates is None:
            return None
        elapsed = self.state.train_seconds + self.state.eval_seconds
        return elapsed / self.state.updates * (self.plan.updates - self.state.updates)

    def _steps_trained(self) -> int:
        return self.state.updates * self.plan.agent.steps_per_update * self.plan.members

    def _report_revision(self) -> None:
        now = self.plan.env.revision
        if (was := self.folder.read_json("provenance.json").get("env_revision", now)) != now:
            self.sinks.say(
                f"{self.plan.spec.env_name} is in revision {now} and was in revision {was} when this run began: what "
                f"it does has changed, and the curves go on with the change"
            )

    # Beginning and resuming.

    def _begin(self) -> None:
        selector, roster = self.plan.selector, self.plan.roster
        if selector is not None:
            memory, changes = selector.begin(roster, stream(self.key, "selector"))
            roster = roster._replace(hyperparameters={**roster.hyperparameters, **changes})
            self.state = RunState.first(roster).replace(selector=memory)
            self.population.apply(np.arange(self.plan.members), roster)
        self.population.begin()
        if self.plan.spec.init:
            members = with_policies(self.plan, self.population.to_host(), first_policies(self.plan))
            self.population.load(members, self.state.roster)

    def _restore(self) -> None:
        """Go on from the newest checkpoint that is whole, or from the start where there was none yet."""
        checkpoint.tidy(self.folder.checkpoints)
        kept = checkpoint.saved(self.folder.checkpoints)
        for number, found in enumerate(kept):
            try:
                self._restore_from(found)
            except DamagedError as error:
                if found == kept[-1]:
                    raise
                self.sinks.say(f"{error} Going on from the checkpoint before it")
            else:
                checkpoint.keep_newest(self.folder.checkpoints, max(2, number + 1))
                return
        self._begin()
        self.records = Records.load(self.folder, self.plan.members, 0, {})

    def _restore_from(self, found: Path) -> None:
        about, spec = checkpoint.read_about(found), self.folder.spec_hash
        self._begin_state()
        members = checkpoint.restore(found, checkpoint.LEARNERS, self.population.shapes(), spec)
        arrays = checkpoint.restore(found, checkpoint.RUN, self.state.arrays(), spec)
        self.records = Records.load(self.folder, self.plan.members, about["records"], about["curves"])
        self.state = self.state.restored(about, arrays)
        self.population.load(members, self.state.roster)
        self._restore_best(members)

    def _begin_state(self) -> None:
        """The state of a run that begins: what a restored one has the structure of."""
        selector, roster = self.plan.selector, self.plan.roster
        memory = None if selector is None else selector.begin(roster, stream(self.key, "selector"))[0]
        self.state = RunState.first(roster).replace(selector=memory)

    def _restore_best(self, members: Any) -> None:
        if not any(self.plan.evaluates(record) for record in range(len(self.records))):
            return  # none was evaluated yet
        like = jax.eval_shape(self.population.policies_of, members)
        try:
            self.best_policy = checkpoint.restore(self.folder.best, checkpoint.POLICIES, like, self.folder.spec_hash)
        except CheckpointError as error:
            self.state = self.state.replace(best_return=np.full(self.plan.members, -np.inf))
            self.sinks.say(f"{error} The best policies so far are lost; they are collected anew from here")

    def _provenance(self) -> dict[str, Any]:
        place = self.plan.placement
        devices = list(place.mesh.devices.flat) if place.mesh else jax.local_devices()[:1]
        made = provenance(place.block, place.workers, devices)
        return {**made, "env_revision": self.plan.env.revision}

    def _recorded_seconds(self) -> float:
        seconds = self.records.columns.get("wall_seconds", [0.0])
        return float(seconds[-1]) if seconds else 0.0


def _rows_where(flag: np.ndarray, new: Any, old: Any) -> Any:
    return np.where(flag.reshape(flag.shape + (1,) * (np.ndim(new) - 1)), new, old)
