"""`shoal.tune`: a study, in which trials of Optuna fill the slots of compiled programs.

A worker asks for as many trials as it has free slots, groups them by the values that shape the program, trains all in
slots, reports the score of each after every record, and ends those that are complete or pruned; the next trials begin
in their slots. The storage holds the trials, and the run folders hold weights and curves.
"""

import csv
import dataclasses
import itertools
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import optuna

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.registry import AGENTS, ENVS
from shoal.core.secrets import redacted
from shoal.population.slots import Trial, check_score
from shoal.studies.groups import Group, Messages, plan_groups
from shoal.studies.objectives import Front, Measures, check_spaces, name_objectives, read_objectives
from shoal.studies.ray_workers import MOST_ON_A_CLUSTER, RayWorkers
from shoal.studies.results import FRESH, FRESH_SEEDS, best_trials, conclude
from shoal.studies.samplers import check_names, enqueue, grid_size, make_pruner, make_sampler
from shoal.studies.search import MOST_SHAPES, Space, read_space
from shoal.studies.storage import open_study, password_variables
from shoal.studies.study import SPEC, SUMMARY, StudyFolder, StudyResult, StudySpec, summary_of
from shoal.studies.tracked_study import closing, study_sinks, study_tracking, variables_for_workers
from shoal.studies.trial_events import TrialEvents
from shoal.studies.trials import COMPLETE, PRUNED, TrialStore
from shoal.studies.worker_processes import run_workers, worker_names
from shoal.tracking.events import Closed, Finished, Searched, Sink, Sinks
from shoal.tracking.request import NOTHING, Track
from shoal.tracking.study_display import study_sink
from shoal.training.claim import claimed
from shoal.training.folder import RunFolder
from shoal.training.host import keep_programs
from shoal.training.jobs import make_job
from shoal.training.own_code import check_env_of
from shoal.training.policy import check_complete
from shoal.training.processes import group as processes
from shoal.training.settings import Setting, apply, join
from shoal.training.sources import keep
from shoal.training.spec import built, changes_of, run_name, template
from shoal.training.stopping import REQUESTS, Stopped, stop_requests

Values = tuple[Agent | None, Env | None]  # where they were given as values, not as names
TRIALS, PARALLEL, SEEDS, RECORDS = 100, 16, 4, 9  # the defaults
REQUESTED = [128 + getattr(signal, name) for name in REQUESTS if hasattr(signal, name)]  # statuses of stopped processes
WAIT = 1.0  # seconds between two looks at the storage while other workers train the last trials
COLUMNS = ("time", "seconds", "group", "trials", "parallel", "train_seconds", "to_start")  # of slots.csv


def tune(
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    *,
    trials: int | None = None,
    parallel: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    records: int | None = None,
    search: Mapping[str, Any] | Sequence[str] | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    score: str | None = None,
    objectives: Sequence[str] | None = None,
    storage: str | None = None,
    enqueue: Sequence[Mapping[str, Any]] = (),  # noqa: A002
    fields: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    preset: str | None = "",
    seed: int | None = None,
    evaluations: int | None = None,
    eval_episodes: int | None = None,
    eval_max_steps: int | None = None,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    worker: str = "w0",
    workers: int = 1,
    ray: str | None = None,
    worker_cpus: int = 1,
    worker_gpus: float = 0.0,
    yes: bool = False,
    trust_source: bool = False,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    cache: bool = True,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    grace: float = 120.0,
    fresh_seeds: int = FRESH_SEEDS,
    figures: bool = True,
    track: Track = None,
) -> StudyResult:
    """Search for hyperparameters with Optuna: `trials` (100) trials, `parallel` (16) at a time in one compiled program.

    Every trial trains `seeds` (4) members for `steps` environment steps, rounded up to whole updates in each of its
    `records` (9). After each record its score is reported: the `score` ("mean", "iqm", "min" or a quantile such as
    "q25") over the members of the mean return of the training episodes, or of `eval_episodes` greedy episodes with
    `evaluations=records`. A trial that the `pruner` ends, or that is complete, leaves its slots to the next one.

    `search` says what the trials choose, by path: `{"learning_rate": (1e-4, 1e-1, "log"), "env.gravity": (5, 15),
    "hidden": [(64, 64), (128, 128)], "clip": None}`, where None means the declared range; or a list of paths. By
    default all hyperparameters of the agent that declare a range. Values of static fields, such as `hidden`, need one
    program for each combination; more than 8 programs need `yes=True`. `enqueue` lists trials that come first.

    `sampler` is "tpe", "random", "qmc", "gp", "cmaes", "nsga2", "bohb" or "grid"; `pruner` "hyperband", "halving",
    "median", "percentile" or "none". The trials are kept in `storage`, by default a log file in the folder of the
    study, `root`/`name` (`shoal.studies.storage` lists the others).

    `objectives=("return", "steps_per_second")` maximizes both the score and the speed of the program, and
    `("return", "return:ENV")` the score and the return of greedy actions in another environment. Then no trial is
    pruned, the result is a Pareto front instead of a best trial, and none is trained again.

    When all trials have ended, the folder gets `trials.csv`, figures, and the best trial as `best.toml`, a preset file.
    This trial is trained again on `fresh_seeds` (16) seeds that no trial had (0: it is not), because the best of many
    scores is too high by chance; `summary.json` has both scores.

    `resume="runs/x"` goes on with a study, in the same process name `worker` or as another worker; only `trials` may
    then be given, to extend it. Ctrl-C, SIGTERM and SIGHUP finish the chunk, save it and raise `Stopped`.

    With `workers` above 1 as many processes on this machine share the trials. They run `shoal tune --resume`; a worker
    that dies is reported, and the others take over its trials, `grace` seconds after its last heartbeat.

    With `ray` the `workers` are actors on a Ray cluster, each with `worker_cpus` CPUs and `worker_gpus` GPUs: "auto" is
    the cluster of this machine, "HOST:PORT" another one. All nodes must see the folder of the study and its storage.

    `track` is as in `shoal.train`: the study is a run of the tracker, and every trial a child of it. A study that goes
    on is sent to the trackers that it had.

    Other arguments are those of `shoal.train`. Raises ValueError or TypeError, before anything compiles, for a search
    that names no field or is empty, and for sizes that do not fit.
    """
    asked = {
        "agent": agent,
        "env": env,
        "parallel": parallel,
        "seeds": seeds,
        "steps": steps,
        "records": records,
        "search": search,
        "sampler": sampler,
        "pruner": pruner,
        "score": score,
        "objectives": objectives or None,
        "storage": storage,
        "enqueue": enqueue or None,
        "fields": fields or None,
        "env_fields": env_fields or None,
        "preset": preset or None,
        "seed": seed,
        "evaluations": evaluations,
        "eval_episodes": eval_episodes,
        "eval_max_steps": eval_max_steps,
        "name": name or None,
    }
    if processes().size > 1:
        raise ValueError("a study shares its trials through its storage: start a worker in each process instead.")
    values = (None if isinstance(agent, str) else agent, None if isinstance(env, str) else env)
    if ray is None and (worker_cpus != 1 or worker_gpus):
        raise ValueError("worker_cpus and worker_gpus are for workers on a cluster: give ray (--ray) too.")
    names = worker_names(workers) if ray is None else worker_names(workers, MOST_ON_A_CLUSTER, "a cluster")
    if (workers > 1 or ray is not None) and storage == "memory":
        raise ValueError("several workers need a storage that all of them see: leave out storage='memory'.")
    if resume is not None:
        folder, spec = _to_resume(resume, asked, values, trials, trust_source)
        queue: Sequence[Mapping[str, Any]] = ()
    else:
        folder, spec = _new(asked, values, trials, preset, Path(root), yes, check)
        queue = enqueue
    setting = apply(template(spec.run, *values), built({}))
    space = read_space(setting, spec.search)
    if queue:
        [space.params(each) for each in queue]  # raises for values outside of the search
    if cache:
        keep_programs()
    tracking = study_tracking(track, folder.path, is_new=resume is None)
    limit = round(memory_limit_gb * 1024**3)
    at = folder.worker(worker)
    groups = plan_groups(spec, space, *values, at, devices=devices, memory_limit=limit)
    for group in groups:
        check_spaces(spec.objectives, group.plan.env)
    cluster = RayWorkers(ray, worker_cpus, worker_gpus) if ray is not None else None
    if resume is None:
        folder.create()
    trackers = study_sinks(tracking, folder.path, spec, worker, is_new=resume is None)
    starts_workers = workers > 1 or cluster is not None
    all_sinks = Sinks([*([study_sink()] if progress else []), *sinks, *([] if starts_workers else trackers)])
    study = Study(spec, folder, space, groups, all_sinks, worker=worker, grace=grace)
    if starts_workers:
        options = [
            "--grace",
            f"{grace:g}",
            "--fresh-seeds",
            str(fresh_seeds),
            *["--no-figures"] * (not figures),
            *["--trust-source"] * trust_source,
            *["--track", NOTHING] * (tracking is None),
            *["--devices", str(devices)] * bool(devices),
            *["--memory-limit-gb", str(memory_limit_gb)] * bool(memory_limit_gb),
        ]
        study.run_workers(queue, names, options, variables_for_workers(tracking), cluster)
        return StudyResult(folder.path)
    with closing(trackers, all_sinks, lambda: study.study):
        study.run(queue)
        if study.is_complete:
            study.conclude(*values, fresh_seeds=fresh_seeds, figures=figures)
    return StudyResult(folder.path)


class Study:
    """One worker of a study."""

    def __init__(
        self,
        spec: StudySpec,
        folder: StudyFolder,
        space: Space,
        groups: Sequence[Group],
        sinks: Sinks,
        *,
        worker: str = "w0",
        grace: float = 120.0,
    ) -> None:
        """Set up the worker in memory. Nothing is compiled or written."""
        self.spec, self.folder, self.space, self.groups, self.sinks = spec, folder, space, groups, sinks
        self.worker, self.grace, self.path = worker, grace, folder.worker(worker)
        self.began = self._last_row = time.time()
        self.ended = 0  # trials that this process told
        self.best: tuple[float, int] | None = None  # (score, number) of the best complete trial that is known here
        several = len(spec.objectives) > 1
        self.front = Front() if several else None  # then there is no best trial
        self.measures = {group.name: Measures(spec.objectives, spec.score, group) for group in groups if several}
        self.events = TrialEvents(folder.path, spec)
        self._stack = ExitStack()

    def prepare(self, queue: Sequence[Mapping[str, Any]] = ()) -> optuna.Study:
        """Open the study in its storage, or begin it there with the trials in `queue`; write `study.json`."""
        spec, space = self.spec, self.space
        study = open_study(
            self.folder.storage(spec),
            spec.name,
            spec.identity,
            spec.directions,
            pruner=make_pruner(spec.pruner, spec.run.records),
            say=self.sinks.say,
        )
        begun, best = len(study.get_trials(deepcopy=False)), best_trials(study)
        if self.front is None:
            self.best = (best[0].values[0], best[0].number) if best else None
        else:
            name_objectives(study, spec.objectives)
            self.front = Front(trial.values for trial in best)
        study.sampler = make_sampler(spec.sampler, space, spec.run.seed, self.worker, begun)
        enqueue(study, space, queue)
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.folder.path / SPEC).exists():
            keep(self.folder.path, spec.run)
        self.folder.write(SPEC, spec.to_json())
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
            study, self.space.distributions, self.spec.trials, self.worker, self.grace, self.sinks.say
        )
        try:
            with self._stack, claimed(self.path), self.store, stop_requests(self.sinks.say) as stop:
                self._say_plan(url)
                for group in self.groups:
                    group.feed.connect(self.store, self._ended, self.measures.get(group.name))
                self._adopt()
                while not stop.is_set() and self._round(stop):
                    pass
                self._write_summaries(study)
                if stop.is_set() and not self.store.is_over():
                    raise Stopped(f"stopped. Continue with: shoal tune --resume {self.folder.path}", stop.signal)
        finally:
            self.sinks.receive(Closed())

    def run_workers(
        self,
        queue: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        options: Sequence[str],
        variables: Mapping[str, str],
        cluster: RayWorkers | None = None,
    ) -> None:
        """Begin the study, and train its trials in several processes until all have ended.

        `options` and `variables`: flags and environment variables of the processes. They run on this machine, or on a
        cluster, which is disconnected at the end.
        Raises Stopped if they were stopped, RuntimeError if the study is not over because workers failed.
        """
        study = self.prepare(queue)
        url, again = self.folder.storage(self.spec), f"shoal tune --resume {self.folder.path}"
        command = [sys.executable, "-m", "shoal", "tune", "--resume", str(self.folder.path.resolve())]
        commands = {name: [*command, "--worker", name, *options] for name in names}
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
        raise RuntimeError(
            f"{finished} of {self.spec.trials} trials have ended, and no worker is left ({statuses}). Their output "
            f"is in {self.folder.path / 'workers'}. Continue with: {again}"
        )

    @property
    def is_complete(self) -> bool:
        """Whether all trials of the study have ended. Only after `run`."""
        return self.store.is_over()

    def conclude(self, agent: Agent | None, env: Env | None, *, fresh_seeds: int, figures: bool) -> None:
        """Write the results into the folder, unless another worker does so now (`shoal.studies.results`).

        Raises Stopped after a request to stop.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(claimed(self.folder.path))
            except FileExistsError:
                self.sinks.say("another worker writes the results of the study")
                return
            if fresh_seeds and self.front is None and best_trials(self.study):
                self.sinks.say(f"training the best trial again on {fresh_seeds} fresh seeds")
            try:
                found = conclude(
                    self.study,
                    self.folder.path,
                    figures=figures,
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
            best = {**(summary["best"] or {}), **found.get("best", {})}
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
            f"{run.agent} on {run.env_name}: {spec.trials} trials of {run.seeds} seeds x "
            f"{' or '.join(f'{each:,}' for each in steps)} steps{rounded}, {spec.parallel} at a time\n"
            f"this search has {programs}; sampler {spec.sampler}, pruner {spec.pruner}, storage {redacted(url)}"
        )

    def _adopt(self) -> None:
        """Open the runs that this worker has trained before, and queue its running trials that no slot holds."""
        for group in self.groups:
            if (self.path / group.name / "spec.json").exists():
                self._open(group)
        for group in self.groups:
            for number in group.held:
                self.store.note(number, group=group.name)  # so that the store knows that they are being trained
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
        values = {each.path: each.value(params[each.path]) for each in self.space.traced}
        self.groups[self.space.group_of(params)].feed.waiting.append(Trial(number, values))

    def _open(self, group: Group) -> None:
        sinks = [Messages(group.name, self.sinks.say)]
        self._stack.enter_context(group.opened(RunFolder(self.path / group.name), sinks))

    def _step(self, group: Group) -> None:
        run = group.run
        assert run is not None
        before, measures = run.state.train_seconds, self.measures.get(group.name)
        if measures is not None:
            measures.begin_chunk()
        in_slots = sum(len(each.held) for each in self.groups if each is not group)
        run.step()
        if measures is not None:
            measures.end_chunk()
        in_slots += len(set(run.records.columns["trial"][-1].tolist()) - {-1})
        self._add_row(group, in_slots, run.state.train_seconds - before)

    def _add_row(self, group: Group, in_slots: int, train_seconds: float) -> None:
        """Append what the slots did since the last row to `slots.csv`, and show it."""
        now, to_start = time.time(), self.store.remaining()
        row = (
            round(now, 3),
            round(now - self._last_row, 4),
            group.name,
            in_slots,
            self.spec.parallel,
            round(train_seconds, 4),
            to_start,
        )
        self._last_row, path = now, self.path / "slots.csv"
        is_new = not path.exists()
        with open(path, "a", newline="") as file:
            csv.writer(file).writerows([COLUMNS, row] if is_new else [row])
        finished = self.store.finished()
        rate = self.ended / max(now - self.began, 1e-9)
        left = (self.spec.trials - finished) / rate if rate else None
        best = self.best or (None, None)
        front = None if self.front is None else len(self.front)
        slots = (in_slots, self.spec.parallel)
        self.sinks.receive(Searched(finished, self.spec.trials, *slots, *best, 3600 * rate, left, front))

    def _ended(self, number: int, values: tuple[float, ...] | None, reason: str) -> None:
        del reason
        self.ended += 1
        if values is not None and self.front is not None:
            self.front.add(values)
        elif values is not None and (self.best is None or values[0] > self.best[0]):
            self.best = (values[0], number)
        self.sinks.receive(self.events.of(self.store.trial(number)))

    def _write_summaries(self, study: optuna.Study) -> None:
        for group in self.groups:
            if group.run is not None and len(group.run.records):
                group.run.folder.write_json("summary.json", group.run.summary())
        self.folder.write(SUMMARY, summary_of(self.folder, study, self.space))


def _new(
    asked: Mapping[str, Any],
    values: Values,
    trials: int | None,
    preset: str | None,
    root: Path,
    yes: bool,
    check: bool,
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a new study. Raises ValueError or TypeError for what cannot work."""
    agent, env = asked["agent"], asked["env"]
    if agent is None or env is None:
        raise TypeError('tune needs an agent and an environment: shoal.tune("ppo", "CartPole-v1").')
    sizes = {"trials": trials, **{name: asked[name] for name in ("parallel", "seeds", "steps", "records")}}
    for size, given in sizes.items():
        if given is not None and given < 1:
            raise ValueError(f"{size}={given} must be at least 1.")
    records = asked["records"] or RECORDS
    evaluations = asked["evaluations"] or 0
    if evaluations not in (0, records):
        raise ValueError(
            f"either every record of a trial has an evaluation or none has: use evaluations=0 or evaluations={records}."
        )
    options = {name: asked[name] for name in ("seed", "eval_episodes", "eval_max_steps") if asked[name] is not None}
    fields, env_fields = dict(asked["fields"] or {}), dict(asked["env_fields"] or {})
    job = make_job(
        agent,
        env,
        preset=preset,
        steps=asked["steps"],
        fields=fields,
        env_fields=env_fields,
        seeds=asked["seeds"] or SEEDS,
        records=records,
        evaluations=evaluations,
        **options,
    )
    if job.spec.varying:
        raise ValueError(
            f"the trials set the hyperparameters, but {', '.join(job.spec.varying)} has several values: give one, or "
            f"search it."
        )
    fixed = set(join(fields, env_fields))
    for value, registry, prefix in ((values[0], AGENTS, ""), (values[1], ENVS, "env.")):
        own = changes_of(value, registry)[0] if value is not None else ()
        fixed |= {f"{prefix}{path}" for path in own} if asked["search"] is None else set()
    setting: Setting = apply(template(job.spec, *values), built({}))
    space = read_space(setting, asked["search"], fixed)
    objectives = read_objectives(asked["objectives"])
    names = (asked["sampler"] or "tpe", asked["pruner"] or "")
    sampler, pruner = check_names(*names, records, space, len(objectives))
    score = asked["score"] or "mean"
    check_score(score)
    if space.shape_count > MOST_SHAPES and not yes:
        many = ", ".join(f"{each.path} ({len(each.grid())})" for each in space.static)
        raise ValueError(
            f"this search has {space.shape_count} program shapes, each of which compiles once: {many}. Search fewer "
            f"static values, or say that it may take that long with --yes (yes=True)."
        )
    if sampler == "grid" and asked["enqueue"]:
        raise ValueError("a grid trains all combinations of its values: leave enqueue out, or choose another sampler.")
    most = grid_size(space) if sampler == "grid" else None
    trials = trials or most or TRIALS
    trials = trials if most is None else min(trials, most)
    if check:
        check_env_of(job)
    name = asked["name"] or _free_name(root, run_name(job.spec.agent, job.spec.env_name, "study"))
    spec = StudySpec(
        name=name,
        run=job.spec,
        search=space.described(),
        trials=trials,
        parallel=min(asked["parallel"] or PARALLEL, trials),
        sampler=sampler,
        pruner=pruner,
        score=score,
        objectives=objectives,
        storage=asked["storage"] or "",
    )
    return StudyFolder(root / name), spec


def _to_resume(
    path: Path | str, asked: Mapping[str, Any], values: Values, trials: int | None, trust_source: bool
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a study to go on with."""
    folder = StudyFolder(path)
    spec = folder.read_spec()
    for name, value in asked.items():
        if value is not None and not (name in ("agent", "env") and value in values):
            raise ValueError(
                f"{name}={str(value):.40} is for a new study; resume continues {path} as it is. Leave it out."
            )
    run = check_complete(RunFolder(folder.path), *values, trust_source=trust_source, spec=spec.run)
    if trials is not None and trials < spec.trials:
        raise ValueError(
            f"{path} has {spec.trials} trials: give trials={spec.trials} or more to extend it, or leave it out."
        )
    return folder, dataclasses.replace(spec, run=run, trials=trials or spec.trials)


def _free_name(root: Path, stem: str) -> str:
    """Return the first of STEM, STEM-2, ... that no folder has."""
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    return next(name for name in names if not (root / name).exists())
