"""Evolution over several environments, and the transfer of what it has found to others.

Each environment has an ordinary run with the selector `Evolve`. All begin with the same values, seeds and random keys,
and their candidates have the same fitness, so that their searches are the same to the last bit. When the run in the
first environment has trained a generation, its selector asks for the returns in all of them, and the other runs are
trained up to there. Every run has its own checkpoints; after a kill, each trains what it lacks, to the same bits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.core.errors import did_you_mean
from shoal.specs.describe import build, describe
from shoal.specs.settings import get, is_of_env
from shoal.specs.sources import keep
from shoal.specs.spec import RunSpec, file_name
from shoal.studies.evolution_request import Request, Search
from shoal.studies.runs import make_run, run_job
from shoal.studies.sweeps import KEYWORDS
from shoal.tracking.events import Closed, Finished, Sink, Sinks
from shoal.tracking.progress import OnlyMessages, StillCompiling, shown
from shoal.tracking.request import Track, tracking_of
from shoal.training.claim import locked
from shoal.training.folder import RunFolder, named, new_folder
from shoal.training.generations import SHARED, folder_beside
from shoal.training.host import keep_programs
from shoal.training.jobs import ARGUMENTS, Job, found_by, job_of, make_job
from shoal.training.lives import training_returns
from shoal.training.loop import Run
from shoal.training.own_code import check_user_env
from shoal.training.processes import group
from shoal.training.program_store import ProgramStore
from shoal.training.references import reference_for
from shoal.training.result import Result
from shoal.training.stopping import Stopped
from shoal.training.transfer import FOUND, IN_WORDS, START, transfer_rows


class Jobs(NamedTuple):
    """The runs of a shared evolution, by the name of the environment."""

    evolved: dict[str, Job]  # with the selector; the first one leads
    transfer: dict[str, Job]  # in these environments and in those that were held out; with the values of the start


def jobs_of(request: Request, envs: Sequence[Any], held_out: Sequence[Any], seeds: int, *, check: bool = True) -> Jobs:
    """Return the runs of an evolution in `envs`, tested with so many new seeds there and in `held_out`.

    Raises ValueError or TypeError for environments that do not fit the request, the agent, or each other.
    """
    if group().size > 1:
        raise ValueError("an evolution over several environments is run by one process: start it without --distributed")
    if request.env_fields or any(map(is_of_env, request.starts)):
        raise ValueError(
            "fields of the environment cannot be set or evolve with envs or held_out, because each environment has "
            "fields of its own: leave them out, or evolve in one environment."
        )
    searches = [request.search(env) for env in envs]
    specs = [search.spec for search in searches]
    ends = tuple((spec.env_name, *_ends(spec)) for spec in specs) if len(specs) > 1 else ()
    evolved, transfer = dict[str, Job](), dict[str, Job]()
    for env, search in zip(envs, searches, strict=True):
        arguments = {**search.arguments, "selector": search.arguments["selector"].replace(envs=ends)}
        _add(evolved, make_job(request.agent, env, **_of_job(arguments)))
    of_start = _transfer_arguments(request, searches, seeds)
    for env in [*envs, *held_out]:
        _add(transfer, make_job(request.agent, env, **of_start))
    for job in transfer.values():
        if check:
            check_user_env(job.first.env)
        job.plan()  # raises if the agent cannot act there
    return Jobs(evolved, transfer if seeds else {})


def _transfer_arguments(request: Request, searches: Sequence[Search], seeds: int) -> dict[str, Any]:
    """Return the arguments of the runs with the values of the start: with seeds that the search does not use.

    A struct that `vary` names is left out, so that its field has the value that it has without an evolution. Raises
    ValueError if a value begins with another value in one of the environments.
    """
    first, start = searches[0], {}
    selector = first.arguments["selector"]
    for path in (path for path, *_ in selector.vary):
        values = [get(search.start, path) for search in searches]
        for search, value in zip(searches, values, strict=True):
            if describe(value) != describe(values[0]):
                raise ValueError(
                    f"{path} begins with {values[0]} in {first.spec.env_name} and with {value} in "
                    f"{search.spec.env_name}, because their presets differ: give one value, or no preset."
                )
        if path not in first.first:
            start[path] = values[0]
    unused = -(-selector.generations // selector.segments) * selector.seeds
    new = {"fields": {**request.fields, **start}, "seeds": max(seeds, 1), "first_seed": unused, "evaluations": 1}
    arguments = {**_of_job(first.arguments), **new}
    del arguments["selector"]
    return arguments


def jobs_in(folder: Path | str, *, trust_source: bool = False) -> Jobs:
    """Return the runs of an evolution that is resumed, from its folder. Errors are those of `job_of`."""
    files = RunFolder(folder)
    kinds = {
        kind: {
            name: job_of(RunSpec.from_json(data), files.path, where=str(folder), trust_source=trust_source)
            for name, data in specs.items()
        }
        for kind, specs in files.read_json(SHARED).items()
    }
    return Jobs(**kinds)


def _of_job(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in ARGUMENTS}


def _add(jobs: dict[str, Job], job: Job) -> None:
    name = job.spec.env_name
    if name in jobs:
        raise ValueError(f"{name} is given twice: name each environment once, in envs or in held_out.")
    jobs[name] = job


def _ends(spec: RunSpec) -> tuple[float, ...]:
    """Return the returns that are normalized to 0 and 1; nothing where they are not known."""
    known = reference_for(spec.env_name, spec, {})
    return () if known is None else (known.low, known.high)


def _ends_in_words(name: str, *ends: float) -> str:
    if ends:
        return f"{name}: 0 and 1 are the returns {ends[0]:g} (random play) and {ends[1]:g} (the target)"
    return f"{name}: 0 and 1 are the lowest and the highest candidate of each generation, because no target is known"


def train_shared(
    jobs: Jobs,
    *,
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
    devices: int = 0,
    memory_limit_gb: float = 0,
    **of_jobs: Any,
) -> Result:
    """Train the runs of an evolution over several environments. The parameters are those of `train`.

    Returns the result of the run in the first environment, whose folder holds those of the others. Raises TypeError
    for an argument that `train` does not have, and `Stopped` after a signal.
    """
    if unknown := [name for name in of_jobs if name not in (*ARGUMENTS, "check")]:
        raise TypeError(f"evolve has no argument {unknown[0]}.{did_you_mean(unknown[0], KEYWORDS)}")
    if cache:
        keep_programs()
    tracking_of(track)  # raises for mistakes
    how: dict[str, Any] = {"figures": figures, "sinks": [shown(progress), *sinks], "track": track}
    plans = SharedEvolution(jobs, (devices, memory_limit_gb), trust_source=trust_source, is_new=resume is None, **how)
    base = Path(root or "runs")
    given = resume or folder or (named(base, name) if name else None)
    first = next(iter(jobs.evolved.values()))
    return plans.train(RunFolder(given) if given else new_folder(base, first.spec.default_name))


class SharedEvolution:
    """The runs of a shared evolution: planned, then trained in one folder to the end or until a request to stop."""

    def __init__(
        self,
        jobs: Jobs,
        limits: tuple[int, float],
        *,
        is_new: bool = True,
        trust_source: bool = False,
        figures: bool = True,
        sinks: Sequence[Sink] = (),
        track: Track = None,
    ) -> None:
        """Plan the runs that evolve, which raises for mistakes. `limits` are devices and memory, as in `Job.plan`."""
        self.jobs, self.names, self._is_new = jobs, [*jobs.evolved], is_new
        self._limits, self._trust_source = limits, trust_source
        self._figures, self._sinks, self._track = figures, sinks, track
        self._messages = [OnlyMessages(sink) for sink in sinks]
        self._plans = {}
        for name, job in jobs.evolved.items():
            source = {"selector": build(job.spec.selector).with_source(self._returns)} if len(self.names) > 1 else {}
            self._plans[name] = job.plan(*limits, resume=not is_new, **source)
        self._runs: dict[str, Run] = {}
        self._opened = ExitStack()

    def train(self, folder: RunFolder) -> Result:
        """Train what is missing: the evolution, then the runs of the transfer. Returns the result of the first run."""
        self.folder = folder
        if self._is_new:
            self._write_jobs()
        with self._stoppable(), self._opened:
            self._evolve()
        if self.jobs.transfer:
            with self._stoppable():
                self._transfer()
        job = self.jobs.evolved[self.names[0]]
        return Result(folder.path, job.agent, job.env)

    def _write_jobs(self) -> None:
        """Make the folder, and write which runs there are, with copies of the user's own files."""
        self.folder.create()
        kinds = self.jobs._asdict().items()
        for job in (job for _, of_kind in kinds for job in of_kind.values()):
            keep(self.folder.path, job.spec)
        specs = {kind: {name: job.spec.to_json() for name, job in of_kind.items()} for kind, of_kind in kinds}
        self.folder.write_json(SHARED, specs)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        try:
            yield
        except Stopped as stopped:
            command = f"shoal evolve --resume {self.folder.path}"
            raise Stopped(f"stopped. Continue with: {command}", stopped.signal) from stopped

    # The evolution.

    def _folder_of(self, name: str) -> RunFolder:
        return self.folder if name == self.names[0] else RunFolder(folder_beside(self.folder.path, name))

    def _evolve(self) -> None:
        leader, *others = self.names
        for env in build(self.jobs.evolved[leader].spec.selector).envs:
            Sinks(self._messages).say(f"fitness in {_ends_in_words(*env)}")
        if not self.folder.has("summary.json"):
            begun = self.folder.has("spec.json")
            how: dict[str, Any] = {"figures": self._figures, "sinks": self._sinks, "track": self._track}
            job, plan = self.jobs.evolved[leader], self._plans[leader]
            self._runs[leader] = make_run(job, plan, self.folder, resume=begun, **how)
            self._runs[leader].train(resume=begun)
        for name in others:
            if not self._folder_of(name).has("summary.json"):
                run = self._run(name)
                while run.step():  # only if its newest checkpoint is gone: the first run is saved last
                    pass
                run.sinks.receive(Finished(run.write_summary()))

    def _run(self, name: str) -> Run:
        """Return the run in an environment. It is opened, and its folder locked, when it is first needed."""
        if name not in self._runs:
            job, plan, folder = self.jobs.evolved[name], self._plans[name], self._folder_of(name)
            begun = folder.has("spec.json")
            sinks = [*self._messages, StillCompiling(Sinks(self._messages).say)]
            run = make_run(job, plan, folder, resume=begun, figures=self._figures, sinks=sinks)
            self._opened.enter_context(locked(folder.path))
            self._opened.callback(lambda: run.sinks.receive(Closed("complete" if run.is_over else "stopped")))
            run.open(resume=begun)
            self._runs[name] = run
        return self._runs[name]

    def _returns(self, generation: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return what `Evolve` needs of a generation in each environment, once all runs have trained it.

        At its end the selector of another run calls this too, and so all runs but the caller's are trained in turn.
        """
        found, stop = [], self._run(self.names[0]).stop
        for name in self.names:
            run, every = self._run(name), build(self.jobs.evolved[name].spec.selector).every
            end = every * (generation + 1)
            while len(run.records) < end:
                if stop.is_set():
                    raise Stopped("", stop.signal)
                run.step(stop)
            columns = run.records.columns
            alive = np.asarray(columns["alive"][end - 1]) > 0
            found.append((training_returns(columns, end - 1, every), alive))
        return found

    # The transfer.

    def _transfer(self) -> None:
        """Train with the values of the start and with those that were found, and add the comparison to the summary."""
        found = found_by(self.folder.path, trust_source=self._trust_source)
        store, folders = ProgramStore(), {}
        for name, job in self.jobs.transfer.items():
            for values, fields in ((START, {}), (FOUND, found)):
                folder = RunFolder(self.folder.path / "transfer" / f"{file_name(name)}-{values}")
                folders[name, values] = folder.path
                if not folder.has("summary.json"):
                    Sinks(self._messages).say(f"transfer: {name} with the values of {IN_WORDS[values]}")
                    changes = {"fields": {**job.spec.fields, **fields}, "trust_source": self._trust_source}
                    own = job_of(job.spec, self.folder.path, job.agent, job.env, **changes)
                    begun = folder.has("spec.json")
                    plan = own.plan(*self._limits, resume=begun)
                    how: dict[str, Any] = {"sinks": self._messages, "within": self.folder.path, "store": store}
                    run_job(own, plan, folder, resume=begun, figures=False, **how)
        fitness = build(self.jobs.evolved[self.names[0]].spec.selector).fitness
        rows = transfer_rows(folders, self.names, metric="last" if fitness == "final" else "whole")
        self.folder.write_json("summary.json", {**self.folder.read_json("summary.json"), "transfer": rows})
