"""`shoal.tune`: search for hyperparameters with Optuna."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.kinds import checked_kinds
from shoal.core.process import check_process
from shoal.studies.planned import OF_WORKERS, PLANNED, plan_study, plan_workers
from shoal.studies.ray_workers import RayWorkers
from shoal.studies.study import StudyResult
from shoal.studies.tracked_study import closing, study_sinks, study_tracking, variables_for_workers
from shoal.studies.worker import Worker
from shoal.tracking.events import Sink, Sinks
from shoal.tracking.progress import Warnings
from shoal.tracking.request import NOTHING, Track
from shoal.tracking.study_display import study_sink
from shoal.training.host import keep_programs
from shoal.training.processes import group as processes


@checked_kinds()
def tune(  # noqa: PLR0913  # written out, for editors
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    *,
    trials: int | None = None,
    parallel: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    records: int | None = None,
    search: Mapping[str, Any] | Sequence[str] | None = None,
    sampler: Any = None,  # a text or a function
    pruner: Any = None,
    score: str | None = None,
    objectives: Sequence[str] | None = None,
    storage: str | None = None,
    enqueue: Sequence[Mapping[str, Any]] = (),  # noqa: A002
    fields: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    preset: Path | str | None = "",
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
    fresh_seeds: int | None = None,
    importance: str | None = None,
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
    "median", "percentile" or "none", some with options, as in "hyperband(min_resource=2, eta=4)". Each may also be a
    function that returns one of Optuna's, or its path, "my_file.py:make" or "package.module:make", from which a resumed
    study and other workers make it again (`shoal.studies.makers`). An object that is made already is refused.

    The trials are kept in `storage`, by default a log file in the folder of the study, `root`/`name`
    (`shoal.studies.storage` lists the others).

    `objectives=("return", "steps_per_second")` maximizes both the score and the speed of the program, and
    `("return", "return:ENV")` the score and the return of greedy actions in another environment. Then no trial is
    pruned, the result is a Pareto front instead of a best trial, and none is trained again.

    When all trials have ended, the folder gets `trials.csv`, figures, and the best trial as `best.toml`, a preset file.
    This trial is trained again on `fresh_seeds` (16) seeds that no trial had (0: it is not), because the best of many
    scores is too high by chance; `summary.json` has both scores.
    `importance` says how the figure of importances measures that of a hyperparameter: "ped-anova", or "fanova".

    `resume="runs/x"` goes on with a study, in the same process name `worker` or as another worker. Of what describes
    it, only `trials`, to extend it, `fresh_seeds` and `importance` may then be given. Ctrl-C, SIGTERM and SIGHUP finish
    the chunk, save it and raise `Stopped`.

    With `workers` above 1 as many processes on this machine share the trials; a worker that dies is
    reported, and the others take over its trials, `grace` seconds after its last heartbeat.

    With `ray` the `workers` are actors on a Ray cluster, each with `worker_cpus` CPUs and `worker_gpus` GPUs: "auto" is
    the cluster of this machine, "HOST:PORT" another one. All nodes must see the folder of the study and its storage.

    `track` is as in `shoal.train`: the study is a run of the tracker, and every trial a child of it. A study that goes
    on is sent to the trackers that it had.

    Other arguments are those of `shoal.train`. Raises ValueError or TypeError, before anything compiles, for a search
    that names no field or is empty, and for sizes that do not fit.
    """
    arguments = locals()
    check_process()
    if processes().size > 1:
        raise ValueError("a study shares its trials through its storage: start a worker in each process instead.")
    names = plan_workers(**{name: arguments[name] for name in OF_WORKERS})
    if cache:
        keep_programs()
    planned = plan_study(**{name: arguments[name] for name in PLANNED if name in arguments})
    folder, spec, queue = planned.folder, planned.spec, planned.queue
    tracking = study_tracking(track, folder.path, is_new=resume is None)
    cluster = RayWorkers(ray, worker_cpus, worker_gpus) if ray is not None else None
    if resume is None:
        folder.create()
    trackers = study_sinks(tracking, folder.path, spec, worker, is_new=resume is None)
    starts_workers = workers > 1 or cluster is not None
    all_sinks = Sinks([study_sink() if progress else Warnings(), *sinks, *([] if starts_workers else trackers)])
    own = Worker(spec, folder, planned.space, planned.groups, all_sinks, name=worker, grace=grace)
    if starts_workers:
        of_worker = {name: arguments[name] for name in ("figures", "cache", "devices", "memory_limit_gb")}
        of_worker["track"] = NOTHING if tracking is None else tracking.trackers
        of_worker["trust_source"] = True  # this process has the user's consent
        own.start_others(queue, names, of_worker, variables_for_workers(tracking), cluster)
        return StudyResult(folder.path)
    with closing(trackers, all_sinks, lambda: own.study):
        own.run(queue)
        if own.is_complete:
            own.conclude(*planned.values, figures=figures)
    return StudyResult(folder.path)
