"""Several runs, one folder each: several environments, or several values of static fields. A suite is in `suites.py`.

Settings that differ in hyperparameters only are trained in one program (`shoal.train`). Each value of a static field,
such as `num_envs`, and each environment needs a program and a run of its own.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, ENVS
from shoal.core.struct import static_fields
from shoal.specs.arguments import explaining_arguments
from shoal.specs.settings import is_of_env, is_static_part, join, part, separate
from shoal.specs.spec import file_name
from shoal.studies.runs import run_job, train
from shoal.tracking.events import Sink
from shoal.tracking.progress import shown
from shoal.tracking.request import Track
from shoal.training.folder import RunFolder, named, new_folder
from shoal.training.host import keep_programs
from shoal.training.jobs import ARGUMENTS, Job, make_job
from shoal.training.own_code import check_user_env
from shoal.training.plan import Plan
from shoal.training.processes import group
from shoal.training.program_store import ProgramStore
from shoal.training.result import Result
from shoal.training.sharing import check_same_run, run_follower

OF_FOLDERS = ("name", "root", "figures", "progress", "sinks", "track")  # what `Batch.train` does, and not its plan
KEYWORDS = (*ARGUMENTS, *OF_FOLDERS, "check", "devices", "memory_limit_gb")


class Task(NamedTuple):
    """One run of several: a label that distinguishes it from the others, and the arguments of `run_job`."""

    label: str
    job: Job
    plan: Plan


class Batch(NamedTuple):
    """Runs that were planned together. Their mistakes have been reported; nothing is compiled or written yet."""

    tasks: list[Task]
    title: str  # the folder's name, if the user gives none

    @property
    def plans(self) -> list[Plan]:
        return [task.plan for task in self.tasks]

    def folders(self, base: RunFolder) -> list[RunFolder]:
        """The folder of each run: `base` itself for a single one. Raises FileExistsError if one of them is in use."""
        several = len(self.tasks) > 1
        found = [RunFolder(base.path / file_name(task.label), base.made) if several else base for task in self.tasks]
        for folder in found:
            folder.check_unused()
        return found

    def train(
        self,
        *,
        name: str = "",
        root: Path | str | None = None,
        figures: bool = True,
        sinks: Sequence[Sink] = (),
        track: Track = None,
    ) -> Iterator[Result]:
        """Train one run after the other, in `root/name` or a new folder under `root`. Yields each result when finished.

        Of several processes only number 0 writes folders. Raises Stopped after a signal; later runs are then not
        started.
        """
        check_same_run([task.job.spec for task in self.tasks], group())
        if group().number:
            yield from (run_follower(task.job, task.plan, group()) for task in self.tasks)
            return
        root = Path(root or "runs")
        base = RunFolder(named(root, name)) if name else new_folder(root, self.title)
        store = ProgramStore(task.job.pair for task in self.tasks)
        how = {"figures": figures, "sinks": sinks, "track": track, "store": store}
        for task, folder in zip(self.tasks, self.folders(base), strict=True):
            within = base.path if len(self.tasks) > 1 else None
            yield run_job(task.job, task.plan, folder, within=within, **how)


def plan_all(
    agent: str | Agent,
    envs: str | Env | Sequence[str | Env],
    *,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    **options: Any,
) -> Batch:
    """Plan the runs that `train_all` would train with the same arguments, and `check` environments of the user's own.

    `options` are arguments of `shoal.train` with the same names. Compiles no program of a run.
    """
    several = [envs] if isinstance(envs, (str, Env)) else list(envs)
    if not several:
        raise ValueError("envs is empty: name at least one environment.")
    how = {"check": check, "devices": devices, "memory_limit_gb": memory_limit_gb}
    tasks: list[Task] = []
    for env in several:
        for task in plan_env(agent, env, is_named=len(several) > 1, **how, **options):
            if task.label in [other.label for other in tasks]:
                raise ValueError(
                    f"{task.label} is given twice, and two runs cannot share a folder: give each value once."
                )
            tasks.append(task)
    return Batch(tasks, tasks[0].job.spec.default_name)


def plan_env(
    agent: str | Agent,
    env: str | Env,
    *,
    is_named: bool = False,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    **options: Any,
) -> Iterator[Task]:
    """Plan the runs in one environment, one for every combination of static values; the others are as in `plan_all`.

    With `is_named` their labels begin with the environment.
    """
    for chosen, parts in _variants(agent, env, options):
        job = make_job(agent, env, **{**options, **parts})
        words = [f"{name}={value}" for name, value in chosen.items()]
        if check:
            check_user_env(job.first.env)
        label = ",".join([job.spec.env_name, *words] if is_named else words)
        yield Task(label, job, job.plan(devices, memory_limit_gb))


@partial(explaining_arguments, also=KEYWORDS)
@checked_kinds(like=train)
def train_all(agent: str | Agent, envs: str | Env | Sequence[str | Env], **options: Any) -> list[Result]:
    """Train one agent in several environments, or with several values of static fields: one run for each.

        shoal.train_all("ppo", ["CartPole-v1", "Acrobot-v1"], sweep={"num_envs": [4, 8]}, seeds=4)

    `sweep` and `env_sweep` may hold hyperparameters and static fields. Every combination of environment and static
    values is a run with its own folder; the settings of hyperparameters are trained together in each run. The folders
    lie in `root/name`, or in a new folder under `root`. The options are those of `shoal.train`, which has also
    `folder` and `resume`. All runs are planned before the first is compiled, so mistakes are reported first. Raises
    `Stopped` after a signal such as Ctrl-C.
    """
    keep_programs()
    batch = plan_all(agent, envs, **{name: value for name, value in options.items() if name not in OF_FOLDERS})
    return list(batch.train(**of_folders(options)))


def of_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say how and where planned runs are trained, with a sink for progress."""
    own = {name: options[name] for name in ("name", "root", "figures", "track") if name in options}
    return {**own, "sinks": [shown(options.get("progress", True)), *options.get("sinks", ())]}


def _variants(agent: str | Agent, env: str | Env, arguments: Mapping[str, Any]) -> Iterator[tuple[dict, dict]]:
    """For every combination of static values: those values by path, and the arguments of `make_job` that they change.

    In these arguments the static values are in `fields` and `env_fields`, no longer in `sweep` and `env_sweep`.
    """
    fields, swept = (join(*(arguments.get(f"{of}{name}") or {} for of in ("", "env_"))) for name in ("fields", "sweep"))
    axes = {path: values for path, values in swept.items() if _is_static(agent, env, path)}
    for path in axes:
        if path in fields:
            prefix, name = ("env_", path.removeprefix("env.")) if is_of_env(path) else ("", path)
            raise ValueError(f"{name} is in {prefix}fields and in {prefix}sweep: leave one of them out.")
    sweep, env_sweep = separate({path: values for path, values in swept.items() if path not in axes})
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        fixed, env_fixed = separate({**fields, **chosen})
        yield chosen, {"fields": fixed, "env_fields": env_fixed, "sweep": sweep, "env_sweep": env_sweep}


def _is_static(agent: str | Agent, env: str | Env, path: str) -> bool:
    """Whether a field, or one of a value inside by its path, is static. False for an unknown field without a path."""
    value, registry, prefix = (env, ENVS, "env.") if is_of_env(path) else (agent, AGENTS, "")
    path = path.removeprefix(prefix)
    if "." not in path:
        return path in static_fields(registry[value].cls if isinstance(value, str) else value)
    whole = registry[value].build() if isinstance(value, str) else value
    part(whole, path, prefix)  # raises for an unknown path
    return is_static_part(whole, path)
