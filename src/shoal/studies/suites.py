"""Suites: named sets of environments, in which one agent is trained, one run for each.

Runs that differ in numbers only share their compiled programs. The folder of a suite holds `suite.json`, which says
what is trained, an ordinary run folder for each environment, and at the end the scores. A suite that was stopped goes
on with the same bits: runs that are finished stay as they are, the interrupted one continues from its checkpoint.
Several processes can train one suite, each with runs that no other trains.
"""

import dataclasses
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.core.errors import Unsuited
from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, ENVS
from shoal.specs.arguments import explaining_arguments
from shoal.specs.sources import keep
from shoal.specs.spec import RunSpec, file_name, run_name
from shoal.studies.runs import run_job, train
from shoal.studies.suite_file import Level, Suite, level_label, start_error, suite_of
from shoal.studies.sweeps import KEYWORDS, OF_FOLDERS, Task, of_folders, plan_env
from shoal.tracking.events import Sink, Sinks
from shoal.tracking.request import Track
from shoal.training.claim import Claimed, is_claimed, locked
from shoal.training.folder import RunFolder, few, hash_of_spec, named, new_folder
from shoal.training.host import keep_programs
from shoal.training.jobs import Job, job_of, job_to_resume, refuse_on_resume
from shoal.training.plan import Plan
from shoal.training.processes import group
from shoal.training.program_store import ProgramStore
from shoal.training.result import Result
from shoal.training.sharing import check_same_run, run_follower
from shoal.training.stopping import Stopped
from shoal.training.suite_folder import SCORES, SUITE, SuiteFolder, is_suite
from shoal.training.suite_scores import SuiteScores, as_json, suite_scores

PLACED = ("devices", "memory_limit_gb")
ON_RESUME = ("figures", "progress", "sinks", "track", "check", "trust_source", *PLACED)  # options that may be given


@dataclasses.dataclass(frozen=True)
class ResumedTask:
    """A run of a suite that goes on. It is planned when it is trained: of several processes each trains only some."""

    label: str
    job: Job
    how: dict[str, Any]  # arguments of `Job.plan`

    @cached_property
    def plan(self) -> Plan:
        return self.job.plan(**self.how)


class PlannedSuite(NamedTuple):
    """The runs of a suite that are still to be trained. Mistakes were reported; nothing is compiled or written yet."""

    suite: str
    agent: str
    tasks: Sequence[Task | ResumedTask]
    left_out: dict[str, str]  # environments that are not trained, each with the reason
    references: dict[str, dict[str, float]]

    @property
    def title(self) -> str:
        """The name of the folder, if the user gives none."""
        return run_name(self.agent, self.suite)


@dataclasses.dataclass(frozen=True)
class SuiteResult:
    """The result of a suite: its folder, the results of its runs, and the number of programs that were compiled."""

    folder: Path
    results: list[Result]
    programs: int  # sets of compiled programs, in this process

    @cached_property
    def scores(self) -> SuiteScores:
        """The score of each environment, and the normalized scores over all of them."""
        return suite_scores(self.folder)


@partial(explaining_arguments, also=KEYWORDS)
@checked_kinds(like=train)
def train_suite(
    agent: str | Agent | None = None,
    suite: Path | str | None = None,
    *,
    skip_unfit: bool = False,
    resume: Path | str | None = None,
    **options: Any,
) -> SuiteResult:
    """Train one agent in every environment of a suite, with a run folder for each, and score it over all of them.

        found = shoal.train_suite("q-learning", "toy-text", seeds=8)
        found.scores.normalized["IQM"]

    `suite` is a name (`shoal.suites()` lists them) or a TOML file of your own. The options are those of `shoal.train`
    and hold for all runs; an agent by name takes its preset for each environment. All runs are planned before the first
    is compiled, so mistakes are reported first. Environments in which the agent cannot act are one, unless `skip_unfit`
    leaves them out.

    The folders lie in `root/name`, or in a new folder under `root`. `resume` continues such a folder: other arguments
    about what is trained are then left out, except for an agent that no file can hold, which is needed again; each run
    is planned when it is trained. Raises UnknownNameError for an unknown suite, Unsuited for environments that do not
    fit, and `Stopped` after a signal.
    """
    trust_source = options.get("trust_source", False)
    if resume is not None:
        given = {"suite": suite, "skip_unfit": skip_unfit or None, "agent": agent if isinstance(agent, str) else None}
        refuse_on_resume(resume, **given, **{name: options[name] for name in options if name not in ON_RESUME})
        placed = {name: options[name] for name in PLACED if name in options}
        planned = plan_resumed(resume, agent, trust_source=trust_source, **placed)  # type: ignore[arg-type]  # no name
    elif agent is None or suite is None:
        raise TypeError('train_suite needs an agent and a suite: shoal.train_suite("ppo", "classic").')
    else:
        what = {name: value for name, value in options.items() if name not in OF_FOLDERS}
        planned = plan_suite(agent, suite_of(suite, trust_source=trust_source), skip_unfit=skip_unfit, **what)
    keep_programs()
    run = SuiteRun(planned, resume=resume, **of_folders(options))
    results = list(run.train())
    return SuiteResult(run.folder.path, results, run.programs)


def plan_suite(agent: str | Agent, suite: Suite, *, skip_unfit: bool = False, **options: Any) -> PlannedSuite:
    """Plan the run in each environment of a suite. `options` are those of `plan_all`. Compiles no program of a run.

    Raises Unsuited if the agent cannot act in some environments, unless `skip_unfit` leaves them out, and ValueError if
    none is left. Environments of shoal's suites that need a file which is missing are left out.
    """
    tasks: list[Task] = []
    left_out, unfit = dict[str, str](), dict[str, str]()
    env_fields = options.pop("env_fields", None) or {}
    for level in suite.levels:
        env = level.env
        if not suite.file and isinstance(env, str) and (missing := start_error(ENVS[env].build())):
            left_out[env] = missing
            continue
        try:
            fields = {**level.fields, **env_fields}
            tasks.append(_task(level, list(plan_env(agent, env, is_named=True, env_fields=fields, **options)), tasks))
        except Unsuited as error:
            unfit[level_label(level)] = str(error)
    if unfit and not (skip_unfit and tasks):
        raise _unfit(agent, suite, unfit, len(tasks))
    if not tasks:
        raise ValueError(f"no environment of {suite.name} is left to train. {' '.join(left_out.values())}")
    return PlannedSuite(suite.name, tasks[0].job.spec.agent, tasks, {**left_out, **unfit}, suite.references)


def plan_resumed(
    folder: Path | str,
    agent: Agent | None = None,
    *,
    trust_source: bool = False,
    devices: int = 0,
    memory_limit_gb: float = 0,
) -> PlannedSuite:
    """Return the runs of a suite that are not finished, as its `suite.json` says. `agent` is that of all runs.

    Raises FileNotFoundError if the folder is not that of a suite, UntrustedError if it names code without the user's
    consent, and ValueError in one of several processes.
    """
    if group().size > 1:
        raise ValueError(f"{folder} is a suite, which several processes cannot resume: resume each of its runs.")
    suite, tasks = SuiteFolder(folder), []
    for label, data in suite.specs.items():
        of_run = suite.folders[label]
        if of_run.has("summary.json"):
            continue
        if of_run.has("spec.json"):
            if of_run.spec_hash != hash_of_spec(data):
                raise ValueError(
                    f"{of_run.path} is not the run that {suite.path / SUITE} describes: it has another spec."
                )
            job = job_to_resume(of_run.path, agent, None, {}, trust_source=trust_source)
        else:
            spec = RunSpec.from_json(data)
            job = job_of(spec, suite.path, agent, where=str(suite.path / SUITE), trust_source=trust_source)
        how = {"devices": devices, "memory_limit_gb": memory_limit_gb, "resume": of_run.has("spec.json")}
        tasks.append(ResumedTask(label, job, how))
    return PlannedSuite(suite.name, suite.agent, tasks, suite.left_out, suite.references)


class SuiteRun:
    """The training of a planned suite, in a new folder or in the one that it resumes."""

    def __init__(
        self,
        planned: PlannedSuite,
        *,
        name: str = "",
        root: Path | str | None = None,
        resume: Path | str | None = None,
        figures: bool = True,
        sinks: Sequence[Sink] = (),
        track: Track = None,
    ) -> None:
        """Make the folder and write `suite.json`. Raises FileExistsError if a folder named `name` holds something."""
        self.planned = planned
        self._how = {"figures": figures, "sinks": sinks, "track": track}
        self._store = ProgramStore(task.job.pair for task in planned.tasks)
        root = Path(root or "runs")
        check_same_run([task.job.spec for task in planned.tasks], group())
        if group().number:
            self.folder = RunFolder(resume or root / (name or planned.title))  # process 0 writes it
            return
        given = resume or (named(root, name) if name else None)
        self.folder = RunFolder(given) if given else new_folder(root, planned.title)
        if resume is None:
            self._begin()

    @property
    def programs(self) -> int:
        """The number of sets of programs that were compiled so far; runs that share them count once."""
        return self._store.compiled

    def train(self) -> Iterator[Result]:
        """Train one run after the other and yield the result of each, those that were finished before too.

        Runs that another process trains are left to it, so that several can share a suite: each resumes the folder.
        The last one writes the scores. Raises Stopped, with the command that continues the suite, after a signal.
        """
        if group().number:
            yield from (run_follower(task.job, task.plan, group()) for task in self.planned.tasks)
            return
        tasks = {task.label: task for task in self.planned.tasks}
        folders = SuiteFolder(self.folder.path).folders
        for label, folder in folders.items():
            result = Result(folder.path) if folder.has("summary.json") else self._trained(tasks[label], folder)
            if result is not None:
                yield result
        elsewhere = [label for label, folder in folders.items() if not folder.has("summary.json")]
        if elsewhere:
            said = f"other processes train {few(elsewhere)}; the last of them to end writes the scores"
            Sinks(self._how["sinks"]).say(said)
            return
        with suppress(Claimed), locked(self.folder.path):  # held by one that writes the same scores
            self.folder.write_json(SCORES, as_json(suite_scores(self.folder.path), programs=self.programs))

    def _trained(self, task: Task | ResumedTask, folder: RunFolder) -> Result | None:
        """Train a run; None if another process trains it."""
        begun = folder.has("spec.json")
        if is_claimed(folder.path):
            return None
        try:
            return self._run(task, folder, begun)
        except FileExistsError as error:
            if not isinstance(error, Claimed) and begun == folder.has("spec.json"):
                raise
            return None  # another process began it a moment ago

    def _run(self, task: Task | ResumedTask, folder: RunFolder, begun: bool) -> Result:
        number = [*self.planned.tasks].index(task) + 1
        Sinks(self._how["sinks"]).say(f"[{number}/{len(self.planned.tasks)}] {task.label}")
        try:
            how = {"resume": begun, "within": self.folder.path, "store": self._store, **self._how}
            return run_job(task.job, task.plan, folder, **how)
        except (KeyboardInterrupt, Stopped) as stopped:  # while it compiles, or in the training, which is saved
            number = getattr(stopped, "signal", signal.SIGINT)
            command = f"shoal train --resume {self.folder.path}"
            raise Stopped(f"stopped in {task.label}. Continue with: {command}", number) from stopped

    def _begin(self) -> None:
        """Write `suite.json`, and copies of the user's own files that the runs need."""
        check_free(self.folder)
        self.folder.create()
        planned = self.planned
        for task in planned.tasks:
            keep(self.folder.path, task.job.spec)
        runs = {
            task.label: {"folder": file_name(task.label), "spec": task.job.spec.to_json()} for task in planned.tasks
        }
        about = {"suite": planned.suite, "agent": planned.agent, "left_out": planned.left_out}
        self.folder.write_json(SUITE, {**about, "references": planned.references, "runs": runs})


def check_free(folder: RunFolder) -> None:
    """Raise FileExistsError if a folder holds a suite or a run."""
    if is_suite(folder.path):
        raise FileExistsError(
            f"{folder.path} already holds a suite. Continue it with `shoal train --resume {folder.path}`, or choose "
            f"another --name."
        )
    folder.check_unused()


def _task(level: Level, planned: list[Task], others: list[Task]) -> Task:
    """Return the planned run of a level, with its label in the suite. Raises ValueError unless it is a single one."""
    if len(planned) > 1:
        raise ValueError(
            f"a suite has one run for each environment, and {planned[0].label.partition(',')[2]} needs one for each "
            f"value, because the field is static: train the suite once for each value."
        )
    (task,) = planned
    label = " ".join([task.job.spec.env_name, *(f"{field}={value}" for field, value in level.fields.items())])
    if label in [other.label for other in others]:
        raise ValueError(f"the suite has {label} twice, and two runs cannot share a folder: name it once.")
    return task._replace(label=label)


def _unfit(agent: str | Agent, suite: Suite, unfit: dict[str, str], fitting: int) -> Unsuited:
    name = AGENTS[agent].name if isinstance(agent, str) else type(agent).__name__
    reason = next(iter(unfit.values())).partition(": ")[2].replace(f"that can play {next(iter(unfit))}:", "that can:")
    words = f"{name} cannot play {len(unfit)} of {len(suite.levels)} in {suite.name}"
    advice = f" --skip-unfit trains in the other {fitting}." if fitting else ""
    return Unsuited(f"{words} ({few(list(unfit))}): {reason}{advice}")
