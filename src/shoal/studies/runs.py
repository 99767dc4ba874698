"""`shoal.train`: train a population and write a run folder with figures and videos."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.kinds import checked_kinds
from shoal.specs.arguments import explaining_arguments
from shoal.specs.options import GIVEN
from shoal.specs.selector import Selector
from shoal.studies.tracked import run_sinks
from shoal.tracking.events import Sink
from shoal.tracking.progress import shown
from shoal.tracking.request import Track, tracking_of
from shoal.training.folder import RunFolder, named, new_folder
from shoal.training.generations import check_alone
from shoal.training.host import keep_programs
from shoal.training.jobs import Job, job_to_resume, make_job, refuse_on_resume
from shoal.training.loop import Run
from shoal.training.own_code import check_user_env
from shoal.training.plan import Plan
from shoal.training.processes import group
from shoal.training.program_store import ProgramStore
from shoal.training.result import Result
from shoal.training.sharing import check_same_run, leading, run_follower
from shoal.viz.figure_sink import FigureSink

STARTS = ("settings", "random", "search", "members", "init", "found")  # what new members begin with


@explaining_arguments
@checked_kinds()
def train(  # noqa: PLR0913  # written out, for editors
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    *,
    steps: int | None = None,
    seeds: int | None = None,
    fields: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    env_sweep: Mapping[str, Sequence[Any]] | None = None,
    settings: Sequence[Mapping[str, Any]] | None = None,
    random: int | None = None,
    search: Mapping[str, Sequence[Any] | None] | Sequence[str] | None = None,
    members: Mapping[str, Any] | None = None,
    init: Path | str | Mapping[str, Any] | None = None,
    found: Path | str | None = None,
    selector: Selector | str | None = None,
    preset: Path | str | None = "",
    name: str = "",
    root: Path | str | None = None,
    folder: Path | str | None = None,
    resume: Path | str | None = None,
    trust_source: bool = False,
    figures: bool = True,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    cache: bool = True,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    seed: int | None = None,
    first_seed: int | None = None,
    records: int | None = None,
    evaluations: int | None = None,
    eval_episodes: int | None = None,
    eval_max_steps: int | None = None,
    prng: str | None = None,
    block: int | None = None,
    devices_per_member: int | None = None,
    overlap: bool | None = None,
    stop_at: float | None = None,
    stop_at_mean: bool | None = None,
    videos_every: int | None = None,
    keep_checkpoints: int | None = None,
) -> Result:
    """Train a population, `seeds` members (1) for every setting, in one compiled program. Returns its `Result`.

    `agent` and `env` are registered names or values. A value is used as it is. With a name, the preset of the agent for
    this environment is used if there is one (`preset=None` or "none": no preset; `preset="fast"`: that variant;
    `preset="best.toml"`: a file, as `shoal.export_config` writes it, which may also name the agent and the environment
    and set options such as `seeds`); other arguments override it. `fields` and `env_fields` set single values.
    `sweep={"learning_rate": [1e-4, 3e-4]}` and `env_sweep` train one setting for every combination of values; static
    fields cannot be swept in one run (use `shoal.train_all`). The arguments from `seed` on are fields of `RunSpec`;
    None means its default.

    `sinks` receive events during the run (`shoal.tracking.events`). With `progress` one more sink writes to the
    terminal. `track="mlflow"`, "tensorboard" or "wandb", or several of them, sends the run to these experiment trackers
    in the background; `shoal.Tracking` has their options. A resumed run goes on with the trackers that it had.

    Settings that are not a grid can be given in one of three ways; hyperparameters are then named by path, with `env.`
    before fields of the environment. `settings=[{"learning_rate": 1e-3, "env.gravity": 5}, ...]` lists the settings.
    `members={"learning_rate": array}` holds one value per member. `random=64` samples 64 settings from the search
    ranges that hyperparameters declare, or from those in `search={"learning_rate": (1e-4, 1e-2, "log")}`.

    `init="runs/x"` or `"zoo:ppo/CartPole-v1"` starts every member from the best policy of another run;
    `init={"run": "runs/x", "member": 3}` from that of member 3, and `"member": "all"` from that of the member with the
    same index. Optimizers, schedules and replay buffers start from the beginning.

    `found="runs/x"` takes the hyperparameters and losses that the selector of another run has found, as `shoal.evolve`
    does; `fields` override them.

    A `selector` may change the population between chunks: copy members, start new ones, change hyperparameters. It is
    a name ("pbt", "pb2", "halving", "random") or a value: `shoal.PBT(quantile=0.2)`, or your own (`shoal.Selector`).

    `first_seed=8` numbers the seeds from 8 on, so that `seeds=8` are eight more members of a run that has had eight.

    `stop_at=475` ends a member when an evaluation of it reaches this return: its weights stay as they are, and the run
    ends when all members have. With `stop_at_mean` the run ends when the mean over members does. `videos_every=N` makes
    a video of the best member at every Nth record. `keep_checkpoints=N` keeps the checkpoint of every Nth record beside
    the two newest ones; a resumed run may have another N, and what it kept before stays.

    With `overlap=True`, environments that Python steps take the steps of the next update while the agent learns from
    those before, so their actions come from weights one update old (agents with a replay buffer only).

    Everything is written to `folder`, or to a new folder under `root` ("runs"). `resume="runs/x"` continues a run that
    was stopped; other arguments must then agree with it. `trust_source=True` executes the code that the run folder or a
    preset file names, where you have neither named it nor used it on this machine; a file that is gone or has changed
    is replaced by its copy in the run folder. Ctrl-C, SIGTERM and SIGHUP save the run, within about ten seconds, and
    raise `Stopped`.

    An environment of your own is checked first (`shoal.check_env`), once for each content of its file; `check=False`
    leaves that out.

    After `shoal.prepare(distributed=...)` all processes call `train` with the same arguments, and share the members;
    process 0 writes the folder. A process that does not see the folder gets an object that says where it is.

    Compiled programs are cached between runs: unless JAX's persistent cache is already configured or disabled, it is
    configured here for the rest of the process. `cache=False` does not change it.
    """
    given = locals()
    if folder is not None and (name or root is not None):
        raise ValueError(f"folder={str(folder)!r} already is the path of the run: leave name and root out.")
    parts = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    arguments: dict[str, Any] = {name: given[name] for name in ("selector", *GIVEN) if given[name] is not None}
    starts: dict[str, Any] = {name: given[name] for name in STARTS}
    arguments |= {name: dict(values) for name, values in parts.items() if values}
    if resume is not None:
        refuse_on_resume(
            resume,
            **starts,
            name=name or None,
            root=root,
            folder=folder,
            preset=None if preset == "" else str(preset or "none"),
        )
        job = job_to_resume(resume, agent, env, arguments, trust_source=trust_source)
    else:
        job = make_job(agent, env, preset=preset, trust_source=trust_source, **starts, **arguments)
    if cache:
        keep_programs()
    if check and resume is None:
        check_user_env(job.first.env)
    plan = job.plan(devices, memory_limit_gb, resume=resume is not None)  # raises for mistakes before making a folder
    tracking_of(track)  # raises for mistakes
    all_sinks = [shown(progress), *sinks]
    check_same_run([job.spec], group())
    if group().number:
        return run_follower(job, plan, group())
    root = Path(root or "runs")
    given = resume or folder or (named(root, name) if name else None)
    run_folder = RunFolder(given) if given else new_folder(root, job.spec.default_name)
    return run_job(job, plan, run_folder, resume=resume is not None, figures=figures, sinks=all_sinks, track=track)


def run_job(
    job: Job,
    plan: Plan,
    folder: RunFolder,
    *,
    resume: bool = False,
    figures: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    within: Path | None = None,
    store: ProgramStore | None = None,
) -> Result:
    """Run a planned job to its end, in a folder. With `figures`, draw its learning curves and videos at the end.

    `track` is as in `train`; `within` is the folder of the command, where it has several runs, and `store` has the
    programs that they share.

    Raises ValueError for a run of an evolution over several environments, which `shoal.evolve` resumes.

    Of several processes only number 0 calls this, after all have agreed on the spec (`sharing.check_same_run`).
    """
    check_alone(job.spec)
    with leading(group(), folder):
        run = make_run(job, plan, folder, resume=resume, figures=figures, sinks=sinks, track=track, within=within)
        if store is not None:
            store.lend(run)
        run.train(resume=resume)
        if store is not None:
            store.take_back(run, job.pair)
    return Result(folder.path, job.agent, job.env)


def make_run(
    job: Job,
    plan: Plan,
    folder: RunFolder,
    *,
    resume: bool = False,
    figures: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    within: Path | None = None,
) -> Run:
    """Make the folder of a planned job, or check that it can be written, and return the run. Nothing is compiled.

    The parameters are those of `run_job`.
    """
    trackers = run_sinks(track, folder, job.spec, resume=resume, within=within)
    all_sinks = [*sinks, *([FigureSink(plan, folder)] if figures else []), *trackers]  # trackers send the figures
    if resume:
        folder.check_writable()
    else:
        folder.create()
    run = Run(plan, folder, all_sinks, group())
    for note in job.notes:
        run.sinks.say(note)
    return run
