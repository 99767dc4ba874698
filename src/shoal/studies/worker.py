"""A worker of a study, in which trials of Optuna fill the slots of compiled programs."""

import csv
import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import optuna

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.secrets import redacted
from shoal.population.slots import Trial
from shoal.specs.options import MAY_CHANGE_OF_STUDY
from shoal.specs.sources import keep
from shoal.studies.errors import WorkerError
from shoal.studies.groups import Group, Messages
from shoal.studies.objectives import Measures, name_objectives
from shoal.studies.ray_workers import RayWorkers
from shoal.studies.results import FRESH, best_trials, conclude
from shoal.studies.samplers import enqueue, enqueue_grid, make_pruner, make_sampler
from shoal.studies.search import Space
from shoal.studies.storage import open_study, password_variables, refuse_trials_of_another_folder
from shoal.studies.study import SPEC, SUMMARY, StudyFolder, StudySpec, summary_of
from shoal.studies.trial_states import COMPLETE, PRUNED, TrialEvents
from shoal.studies.trials import TrialStore
from shoal.studies.worker_processes import REQUESTED, command, run_workers
from shoal.tracking.events import Closed, Finished, Searched, Sinks
from shoal.training.claim import locked
from shoal.training.folder import RunFolder
from shoal.training.stopping import Stopped, stop_requests

WAIT = 1.0  # seconds between two looks at the storage while other workers train the last trials
COLUMNS = ("time", "seconds", "group", "trials", "parallel", "train_seconds", "to_start")  # of slots.csv


class Worker:
    """One worker of a study.

    It asks for as many trials as it has free slots, groups them by the values that shape the program, trains all in
    slots, reports the score of each after every record, and ends those that are complete or pruned; the next trials
    begin in their slots. The storage holds the trials, and the run folders hold weights and curves.
    """

    def __init__(
        self,
        spec: StudySpec,
        folder: StudyFolder,
        space: Space,
        groups: Sequence[Group],
        sinks: Sinks,
        *,
        name: str = "w0",
        grace: float = 120.0,
    ) -> None:
        """Set up the worker in memory. Nothing is compiled or written."""
        self.spec, self.folder, self.space, self.groups, self.sinks = spec, folder, space, groups, sinks
        self.name, self.grace, self.path = name, grace, folder.worker(name)
        self.began = self._last_row = time.time()
        self.ended = 0  # trials that this process told
        self.best: tuple[float, int] | None = None  # (score, number) of the best complete trial that is known here
        self.has_front = len(spec.objectives) > 1  # then there is no best trial
        self.measures = {group.name: Measures(spec.objectives, spec.score) for group in groups}
        self.events = TrialEvents(folder.path, spec.run)
        self._stack = ExitStack()

    def prepare(self, queue: Sequence[Mapping[str, Any]] = ()) -> optuna.Study:
        """Open the study in its storage, or begin it there with the trials in `queue`; write `study.json`."""
        spec, space, is_new = self.spec, self.space, not (self.folder.path / SPEC).exists()
        kept = spec if is_new else self.folder.read_spec()  # which has the paths of files before copies replaced them
        try:
            study = open_study(
                self.folder.storage(spec),
                spec.name,
                kept.identity,
                spec.directions,
                pruner=make_pruner(spec.pruner, spec.run.records),
                say=self.sinks.say,
                is_new=is_new,
            )
            if is_new:
                refuse_trials_of_another_folder(study)
        except Exception:
            self.folder.remove_if_empty()
            raise
        best = best_trials(study)
        if self.has_front:
            name_objectives(study, spec.objectives)
        elif best:
            self.best = (best[0].values[0], best[0].number)
        study.sampler = make_sampler(spec.sampler, spec.run.seed)
        enqueue(study, space, queue)
        if spec.sampler == "grid":
            enqueue_grid(study, space, spec.run.seed)
        self.path.mkdir(parents=True, exist_ok=True)
        if is_new:
            keep(self.folder.path, spec.run_with_sources)
        if is_new or kept.trials != spec.trials:  # else another worker may write it now
            changed = {name: getattr(spec, name) for name in MAY_CHANGE_OF_STUDY}
            self.folder.write(SPEC, dataclasses.replace(kept, **changed).to_json())
        self.study = study
        return study

    def run(self, queue: Sequence[Mapping[str, Any]] = ()) -> None:
        """Train trials until the study is over. `queue` has those that come first, of a new study.

        Raises Stopped after a request to stop, once the chunk is saved; WorkerError if another running process of the
        study has the name of this worker.
        """
        study = self.prepare(queue)
        url = self.folder.storage(self.spec)
        self.store = TrialStore(
            study, self.space.distributions, self.spec.trials, self.name, self.grace, self.sinks.say
        )
        try:
            with self._stack, locked(self.path), self.store, stop_requests(self.sinks.say) as stop:
                self._say_plan(url)
                for group in self.groups:
                    source = group.source
                    source.store, source.ended, source.measures = self.store, self._ended, self.measures[group.name]
                self._adopt()
                while not stop.is_set() and self._round(stop):
                    pass
                self._write_summaries(study)
                if stop.is_set() and not self.store.is_over():
                    raise Stopped(f"stopped. Continue with: shoal tune --resume {self.folder.path}", stop.signal)
        finally:
            self.sinks.receive(Closed())

    def start_others(
        self,
        queue: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        arguments: Mapping[str, Any],
        variables: Mapping[str, str],
        cluster: RayWorkers | None = None,
    ) -> None:
        """Begin the study, and let workers in processes of their own train its trials until all have ended.

        `arguments` of `shoal.tune` and environment `variables` are those of the processes. They run on this machine, or
        on a cluster, which is disconnected at the end.
        Raises Stopped if they were stopped, WorkerError if the study is not over because workers failed.
        """
        study = self.prepare(queue)
        url, again = self.folder.storage(self.spec), f"shoal tune --resume {self.folder.path}"
        path = str(self.folder.path.resolve())
        commands = {name: command(**arguments, resume=path, worker=name, grace=self.grace) for name in names}
        try:
            run, secret = run_workers if cluster is None else cluster.run, password_variables(url)
            ended = run(commands, self.folder.path / "workers", self.sinks.say, {**variables, **secret})
        finally:
            if cluster is not None:
                cluster.close()
            self.sinks.receive(Closed())
        stops = [status - 128 for status in ended.values() if status in REQUESTED]
        finished = sum(trial.state in (COMPLETE, PRUNED) for trial in study.get_trials(deepcopy=False))
        if finished >= self.spec.trials:
            return
        if stops:
            raise Stopped(f"stopped. Continue with: {again}", stops[0])
        statuses = ", ".join(f"{name} with {status}" for name, status in ended.items())
        raise WorkerError(
            f"{finished} of {self.spec.trials} trials have ended, and no worker is left ({statuses}). Their output "
            f"is in {self.folder.path / 'workers'}. Continue with: {again}"
        )

    @property
    def is_complete(self) -> bool:
        """Whether all trials of the study have ended. Only after `run`."""
        return self.store.is_over()

    def conclude(self, agent: Agent | None, env: Env | None, *, figures: bool) -> None:
        """Write the results into the folder, unless another worker does so now (`shoal.studies.results`).

        Raises Stopped after a request to stop.
        """
        fresh_seeds = self.spec.fresh_seeds
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.folder.path))
            except FileExistsError:
                self.sinks.say("another worker writes the results of the study")
                return
            if fresh_seeds and not self.has_front and best_trials(self.study):
                self.sinks.say(f"training the best trial again on {fresh_seeds} fresh seeds")
            try:
                found = conclude(
                    self.study,
                    self.folder.path,
                    figures=figures,
                    importance=self.spec.importance,
                    score=self.spec.score,
                    seeds=fresh_seeds,
                    agent=agent,
                    env=env,
                    sinks=[Messages(FRESH, self.sinks.say)],
                )
            except Stopped as stopped:
                again = f"shoal tune --resume {self.folder.path}"
                text = f"stopped after all trials had ended. To write the results: {again}"
                raise Stopped(text, stopped.signal) from None
            summary = summary_of(self.folder, self.study, self.space)
            best = {**(summary["best"] or {}), **found["best"]}
            summary = {**summary, "best": best or None, "notes": found["notes"]}
            self.folder.write(SUMMARY, summary)
        for text in (*found["notes"], *([best["words"]] if "words" in best else [])):
            self.sinks.say(text)
        self.sinks.receive(Finished(summary))

    def _say_plan(self, url: str) -> None:
        spec, run, shapes = self.spec, self.spec.run, len(self.groups)
        steps = sorted({group.plan.steps for group in self.groups})
        rounded = (
            "" if steps == [run.steps] else f" ({run.steps:,} asked for, rounded up to whole updates in each record)"
        )
        programs = f"{shapes} program shapes; each compiles once" if shapes > 1 else "one program shape"
        self.sinks.say(
            f"{run.agent} on {run.env_name}: {spec.trials} trials of {run.seeds} seed{'s' * (run.seeds > 1)} x "
            f"{' or '.join(f'{count:,}' for count in steps)} steps{rounded}, {spec.parallel} at a time\n"
            f"this search has {programs}; sampler {spec.sampler}, pruner {spec.pruner}, storage {redacted(url)}"
        )

    def _adopt(self) -> None:
        """Open the runs that this worker has trained before, and queue its running trials that no slot holds."""
        for group in self.groups:
            if (self.path / group.name / "spec.json").exists():
                self._open(group)
        for group in self.groups:
            for number in group.held:
                if not self.store.note(number, group=group.name):  # or it has ended: it may be what kills this worker
                    group.release(number)
        for number, params in sorted(self.store.own_running().items()):
            self._route(number, params)

    def _round(self, stop: Any) -> bool:
        """Train one chunk of every group that has trials. Returns False if the study is over."""
        self._ask()
        busy = [group for group in self.groups if group.numbers]
        if not busy:
            if self.store.is_over():
                return False
            time.sleep(WAIT)  # other workers train the last trials; one of them may die
            return True
        for group in busy:
            self._ask()
            if group.run is None:
                self._open(group)
            self._step(group)
            if stop.is_set():
                break
        return True

    def _ask(self) -> None:
        self.store.heartbeat()
        free = self.spec.parallel - sum(len(group.numbers) for group in self.groups)
        if free > 0:
            for trial in self.store.ask(free):
                self._route(trial.number, trial.params)

    def _route(self, number: int, params: Mapping[str, Any]) -> None:
        """Queue a trial in the group that has its static values, unless it is in a group already."""
        if any(number in group.numbers for group in self.groups):
            return
        values = {dimension.path: dimension.value(params[dimension.path]) for dimension in self.space.traced}
        self.groups[self.space.group_of(params)].source.waiting.append(Trial(number, values))

    def _open(self, group: Group) -> None:
        sinks = [Messages(group.name, self.sinks.say)]
        self._stack.enter_context(group.opened(RunFolder(self.path / group.name), sinks))

    def _step(self, group: Group) -> None:
        run = group.run
        assert run is not None
        before, measures = run.train_seconds, self.measures[group.name]
        measures.begin_chunk(run)
        in_slots = sum(len(other.held) for other in self.groups if other is not group)
        run.step()
        measures.end_chunk()
        in_slots += int(group.selector.is_busy(run.records.columns).sum()) // group.selector.seeds
        self._add_row(group, in_slots, run.train_seconds - before)

    def _add_row(self, group: Group, in_slots: int, train_seconds: float) -> None:
        """Append what the slots did since the last row to `slots.csv`, and show it."""
        now = time.time()
        work = (group.name, in_slots, self.spec.parallel, round(train_seconds, 4), self.store.remaining())
        row = (round(now, 3), round(now - self._last_row, 4), *work)
        self._last_row, path = now, self.path / "slots.csv"
        is_new = not path.exists()
        with open(path, "a", newline="") as file:
            csv.writer(file).writerows([COLUMNS, row] if is_new else [row])
        finished = self.store.finished()
        rate = self.ended / max(now - self.began, 1e-9)
        left = (self.spec.trials - finished) / rate if rate else None
        best = self.best or (None, None)
        front = len(best_trials(self.study)) if self.has_front else None
        slots = (in_slots, self.spec.parallel)
        self.sinks.receive(Searched(finished, self.spec.trials, *slots, *best, 3600 * rate, left, front))

    def _ended(self, number: int, values: tuple[float, ...] | None) -> None:
        self.ended += 1
        if values is not None and not self.has_front and (self.best is None or values[0] > self.best[0]):
            self.best = (values[0], number)
        self.sinks.receive(self.events.of(self.store.trial(number)))

    def _write_summaries(self, study: optuna.Study) -> None:
        for group in self.groups:
            if group.run is not None and len(group.run.records):
                group.run.folder.write_json("summary.json", group.run.summary())
        self.folder.write(SUMMARY, summary_of(self.folder, study, self.space))
