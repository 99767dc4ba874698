"""Several runs, one folder each: several environments, or several values of static fields.

Settings that differ in hyperparameters only are trained in one program (`shoal.train`). Each value of a static field,
such as `num_envs`, and each environment needs a program and a run of its own.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import unknown_name
from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, ENVS
from shoal.core.struct import static_fields
from shoal.specs.arguments import explaining_arguments
from shoal.specs.settings import is_of_env, is_static_part, join, part, split
from shoal.specs.spec import file_name, run_name
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
        for task, folder in zip(self.tasks, self.folders(base), strict=True):
            within = base.path if len(self.tasks) > 1 else None
            yield run_job(task.job, task.plan, folder, figures=figures, sinks=sinks, track=track, within=within)


def plan_all(
    agent: str | Agent,
    envs: str | Env | Sequence[str | Env],
    *,
    title: str = "",
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
    arguments: dict[str, Any] = dict(options)
    tasks: list[Task] = []
    for env in several:
        for chosen, parts in _variants(agent, env, arguments):
            job = make_job(agent, env, **{**arguments, **parts})
            words = [f"{name}={value}" for name, value in chosen.items()]
            label = ",".join([job.spec.env_name, *words] if len(several) > 1 else words)
            if label in [task.label for task in tasks]:
                raise ValueError(f"{label} is given twice, and two runs cannot share a folder: give each value once.")
            if check:
                check_user_env(job.first.env)
            tasks.append(Task(label, job, job.plan(devices, memory_limit_gb)))
    spec = tasks[0].job.spec
    return Batch(tasks, run_name(spec.agent, title) if title else spec.default_name)


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
    return _train_batch(agent, envs, options)


@partial(explaining_arguments, also=KEYWORDS)
@checked_kinds(like=train)
def train_suite(agent: str | Agent, suite: str, **options: Any) -> list[Result]:
    """Train one agent in every environment of a named set, such as "classic": a run folder and a result for each.

    The options are those of `train_all`. Raises UnknownNameError, which lists the sets, for an unknown one.
    """
    return _train_batch(agent, suite_of(suite), options, title=suite)


def _train_batch(
    agent: str | Agent, envs: str | Env | Sequence[str | Env], options: Mapping[str, Any], title: str = ""
) -> list[Result]:
    keep_programs()
    batch = plan_all(agent, envs, title=title, **{n: value for n, value in options.items() if n not in OF_FOLDERS})
    own = {name: options[name] for name in ("name", "root", "figures", "track") if name in options}
    return list(batch.train(sinks=[shown(options.get("progress", True)), *options.get("sinks", ())], **own))


def suites() -> dict[str, Any]:
    """The named sets of environments, by name: a dict with its `summary` and its `envs`."""
    return tomllib.loads((Path(__file__).parent / "suites.toml").read_text())


def suite_of(name: str) -> list[str]:
    """The names of the environments of a set. Raises UnknownNameError for an unknown set."""
    known = suites()
    if name not in known:
        raise unknown_name("suite", name, known, f"Suites are: {', '.join(known)}.")
    return known[name]["envs"]


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
    sweep, env_sweep = split({path: values for path, values in swept.items() if path not in axes})
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        fixed, env_fixed = split({**fields, **chosen})
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
