"""Train: one call from an agent and an environment to a run folder with its pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.tracking.events import Sink
from shoal.tracking.progress import progress_sink
from shoal.training.arguments import explaining_arguments
from shoal.training.folder import RunFolder, new_path
from shoal.training.host import keep_programs
from shoal.training.jobs import Job, job_to_resume, make_job, refuse_on_resume
from shoal.training.loop import Run
from shoal.training.plan import Plan
from shoal.training.result import Result
from shoal.training.selector import Selector
from shoal.training.spec import RunSpec
from shoal.viz.studio import Studio


@explaining_arguments
def train(
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
    selector: Selector | None = None,
    preset: str | None = "",
    name: str = "",
    root: Path | str | None = None,
    folder: Path | str | None = None,
    resume: Path | str | None = None,
    trust_source: bool = False,
    figures: bool = True,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    cache: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    seed: int | None = None,
    records: int | None = None,
    evaluations: int | None = None,
    eval_episodes: int | None = None,
    eval_max_steps: int | None = None,
    prng: str | None = None,
    block: int | None = None,
) -> Result:
    """Train a population, `seeds` members (1) for every combination of swept values, in one compiled program.

    `agent` and `env` are registered names or values. A value is taken as it is; a name comes with its preset for this
    environment where there is one (`preset=None` for none, `preset="fast"` for a variant), and what is given in
    `fields`, `sweep` and `steps` wins over it. `sweep={"learning_rate": [1e-4, 3e-4]}` and `env_sweep` vary traced
    fields; one that shapes the program needs a run for each value (`shoal.train_all`). `seed` to `block` are fields of
    `RunSpec`, with its defaults where they are None.

    `sinks` receive what happens while the run goes (`shoal.tracking.events`); with `progress` one of them writes to the
    terminal.

    Settings that are no grid are given by path, with `env.` before fields of the environment, in one of three ways.
    `settings=[{"learning_rate": 1e-3, "env.gravity": 5}, ...]` lists them. `members={"learning_rate": array}` has a
    value for each member. `random=64` draws as many from the ranges that hyperparameters declare, or from those in
    `search={"learning_rate": (1e-4, 1e-2, "log")}`.

    `init="runs/x"` or `"zoo:ppo/CartPole-v1"` begins every member with the best policy of another run;
    `init={"run": "runs/x", "member": 3}` with another one, `"member": "all"` with that of the same number. Optimizers,
    schedules and replay begin anew.

    A `selector` may change the population between chunks: copy members, begin others, give them other hyperparameters
    (`shoal.Selector`).

    Everything is written to `folder`, or to a new folder under `root` ("runs"). `resume="runs/x"` continues a run that
    was stopped; anything else that is given must then agree with it. Where a file of your own that it was made with is
    gone or has changed, `trust_source=True` runs the copy that the folder keeps. Ctrl-C, SIGTERM and SIGHUP finish the
    chunk and raise `Stopped`.

    Compiled programs are kept between runs: unless JAX's persistent cache is set up or turned off already, it is set up
    here, for the rest of the process. `cache=False` leaves it alone.
    """
    if folder is not None and (name or root is not None):
        raise ValueError(f"folder={str(folder)!r} says where the run goes: leave name and root out.")
    options = {
        "selector": selector,
        "steps": steps,
        "seeds": seeds,
        "seed": seed,
        "records": records,
        "evaluations": evaluations,
        "eval_episodes": eval_episodes,
        "eval_max_steps": eval_max_steps,
        "prng": prng,
        "block": block,
    }
    parts = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    given: dict[str, Any] = {k: v for k, v in options.items() if v is not None} | {
        k: dict(v) for k, v in parts.items() if v
    }
    if resume is not None:
        refuse_on_resume(
            resume,
            settings=settings,
            random=random,
            search=search,
            members=members,
            init=init,
            name=name or None,
            root=root,
            folder=folder,
            preset=None if preset == "" else preset or "none",
        )
        job = job_to_resume(resume, agent, env, given, trust_source=trust_source)
    else:
        if agent is None or env is None:
            raise TypeError('train needs an agent and an environment: shoal.train("ppo", "CartPole-v1").')
        job = make_job(
            agent,
            env,
            preset=preset,
            settings=settings,
            random=random,
            search=search,
            members=members,
            init=init,
            **given,
        )
    plan = job.plan(devices, memory_limit_gb, resume=resume is not None)  # every mistake before a folder is made
    if cache:
        keep_programs()
    listening = [*([progress_sink()] if progress else []), *sinks]
    path = RunFolder(resume or folder or _new_folder(Path(root or "runs"), name, job.spec))
    return run_job(job, plan, path, resume=resume is not None, figures=figures, sinks=listening)


def run_job(
    job: Job,
    plan: Plan,
    folder: RunFolder,
    *,
    resume: bool = False,
    figures: bool = True,
    sinks: Sequence[Sink] = (),
) -> Result:
    """Run a job in a folder, as planned, to its end. With `figures` its curves and videos are drawn then."""
    if resume:
        folder.check_writable()
    else:
        folder.create()
    Run(plan, folder, [*sinks, *([Studio(plan, folder)] if figures else [])]).train(resume=resume)
    return Result(folder.path, job.agent, job.env)


def _new_folder(root: Path, name: str, spec: RunSpec) -> Path:
    return root / name if name else new_path(root, spec.stem)
