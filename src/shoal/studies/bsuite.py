"""bsuite (Osband et al. 2020): train an agent on its experiments and score it.

Settings of an experiment that differ only in constants are members of one program. As in bsuite, every member has one
environment and plays a fixed number of episodes. A member takes as many steps as these episodes have if all are of the
greatest length. If some are shorter, steps are left over: the agent goes on learning in them, but they are not logged.
The logs are those that bsuite would have written, at the same episodes.

Each program is a run with its own folder inside the result's folder, so a stopped one continues from its checkpoint.
"""

import csv
import dataclasses
import math
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from shoal.core.agent import Agent
from shoal.core.errors import Unsuited, unknown_name
from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, make
from shoal.core.struct import static_fields
from shoal.envs.bsuite.experiments import EXPERIMENTS, bsuite_id
from shoal.envs.bsuite.logbook import Logbook, logbooks_in
from shoal.envs.bsuite.scores import TAGS, finished, score, tag_scores
from shoal.specs.sources import check_sources, parts_of
from shoal.specs.spec import RunSpec, run_name
from shoal.studies.suite_file import start_error
from shoal.studies.tracked import run_sinks
from shoal.tracking.events import Sink, Sinks
from shoal.tracking.progress import OnlyMessages, PlainLines, StillCompiling, Warnings
from shoal.tracking.request import Track, tracking_of
from shoal.training.claim import locked
from shoal.training.folder import RunFolder, about_folder, hash_of_spec, named, new_folder
from shoal.training.host import keep_programs
from shoal.training.jobs import Job, make_job
from shoal.training.loop import Run
from shoal.training.plan import Plan
from shoal.training.stopping import Stopped

REQUEST = "bsuite.json"  # the file in the folder that holds the request
QUICK_SETTINGS, QUICK_SCALE = 4, 0.05


class BsuiteResult(NamedTuple):
    """Scores and logs of an agent on bsuite's experiments."""

    folder: Path
    experiments: dict[str, dict[str, Any]]  # by name: score, whether all ids and episodes were played, steps, seconds
    tags: dict[str, float | None]  # mean score of the experiments with each tag; None if none of them was played
    logs: dict[str, Any]  # by bsuite id, such as "catch/0": the columns that bsuite would have logged
    seconds: float
    figure: Path | None  # the radar figure of the tags


class Program(NamedTuple):
    """Settings of one experiment that are trained in one program."""

    experiment: str
    indices: list[int]  # of the settings, one per member
    logbook: Any
    steps: int  # per member

    @property
    def label(self) -> str:
        """The experiment and its first and last index: `catch/0-19`."""
        first, last = self.indices[0], self.indices[-1]
        return f"{self.experiment}/{first}" if first == last else f"{self.experiment}/{first}-{last}"


class Request(NamedTuple):
    """The arguments of `bsuite`, as they are stored in the folder."""

    agent: str
    fields: dict[str, Any]
    experiments: list[str]
    episodes_scale: float
    quick: bool
    seed: int


class Bsuite(NamedTuple):
    """The planned programs of a request: its mistakes have been reported, nothing is compiled or written yet."""

    request: Request
    programs: list[Program]
    jobs: list[tuple[Job, Plan]]  # one per program
    left_out: list[str]  # a sentence for each experiment that cannot be run here


@checked_kinds()
def bsuite(
    agent: str | Agent | None = None,
    experiments: Sequence[str] = (),
    *,
    episodes_scale: float = 1.0,
    quick: bool = False,
    fields: Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    figures: bool = True,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    trust_source: bool = False,
) -> BsuiteResult:
    """Score an agent on bsuite's experiments, given by name or by tag; by default on all of them.

        result = shoal.bsuite("ppo", ["catch", "memory"], quick=True)
        result.experiments["catch"]["score"]

    `episodes_scale` is the fraction of bsuite's episodes to play. `quick` uses a few settings of each experiment and a
    twentieth of the episodes. The logs in bsuite's format, `scores.json` and a radar figure of the tags are written to
    `root/name`, or to a new folder. `resume` continues such a folder with its stored request and ignores the other
    arguments, except for `agent` as a value, which is needed again if no file can hold it (for example one with a
    network of the user's own). If MNIST's files are missing, its experiments are left out unless they are named
    themselves. `track` and `trust_source` are as in `shoal.train`: each program is a run of the tracker. Raises
    `Stopped` after a signal such as Ctrl-C.
    """
    if resume is not None:
        planned = plan_resumed(resume, agent if isinstance(agent, Agent) else None, trust_source=trust_source)
    elif agent is None:
        raise TypeError('bsuite needs an agent: shoal.bsuite("ppo", quick=True).')
    else:
        planned = plan_bsuite(agent, experiments, episodes_scale=episodes_scale, quick=quick, fields=fields, seed=seed)
    all_sinks = [PlainLines(sys.stdout) if progress else Warnings(), *sinks]
    keep_programs()
    return run_bsuite(planned, name=name, root=root, resume=resume, figures=figures, sinks=all_sinks, track=track)


def plan_bsuite(
    agent: str | Agent,
    experiments: Sequence[str] = (),
    *,
    episodes_scale: float = 1.0,
    quick: bool = False,
    fields: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Bsuite:
    """Plan the programs of `bsuite`, compile nothing. Raises ValueError or TypeError for arguments that cannot work."""
    if not 0 < episodes_scale <= 1:
        raise ValueError(f"episodes_scale={episodes_scale:g} must be above 0 and at most 1 (all of bsuite's episodes).")
    chosen, left_out = chosen_experiments(experiments)
    cls = AGENTS[agent].cls if isinstance(agent, str) else type(agent)
    all_fields = {**({"num_envs": 1} if "num_envs" in static_fields(cls) else {}), **(fields or {})}
    programs = _programs(chosen, min(episodes_scale, QUICK_SCALE) if quick else episodes_scale, quick)
    jobs = [_job(agent, all_fields, program, seed) for program in programs]
    if not jobs:
        raise ValueError(f"no experiment is left to run. {' '.join(left_out)}")
    spec = jobs[0][0].spec
    request = Request(spec.agent, spec.to_json()["fields"], chosen, episodes_scale, quick, seed)
    return Bsuite(request, programs, jobs, left_out)


def plan_resumed(folder: Path | str, agent: Agent | None = None, *, trust_source: bool = False) -> Bsuite:
    """Plan the stored request of a folder of `bsuite`.

    Raises FileNotFoundError if the folder has none, and UntrustedError if it names code without the user's consent.
    """
    run_folder = RunFolder(folder)
    if not (run_folder.path / REQUEST).is_file():
        raise FileNotFoundError(f"{folder} is not a folder of `shoal bsuite`: {about_folder(run_folder.path, REQUEST)}")
    data = run_folder.read_json(REQUEST)
    if not isinstance(data, dict) or set(data) != set(Request._fields):
        raise ValueError(f"{run_folder.path / REQUEST} is damaged, or was written by another version of shoal.")
    request = Request(**data)
    # `from_json` restores tuples and `inf`, which JSON does not have.
    spec = RunSpec.from_json({"agent": request.agent, "env": "", "fields": request.fields})
    check_sources(parts_of(spec), str(folder), trust_source)
    again = request._replace(agent=agent or request.agent, fields=None if agent else spec.fields)  # type: ignore[arg-type]  # a value
    return plan_bsuite(**again._asdict())


def run_bsuite(
    planned: Bsuite,
    *,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    figures: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
) -> BsuiteResult:
    """Run all programs, one after the other, and score them. Raises Stopped with the command that continues it."""
    tracking = tracking_of(track)  # raises for mistakes
    if tracking is not None:
        experiment = tracking.experiment or f"{planned.request.agent.rpartition(':')[2]}/bsuite"
        tracking = dataclasses.replace(tracking, experiment=experiment)
    root, agent, messages = Path(root), planned.request.agent, Sinks([OnlyMessages(sink) for sink in sinks])
    given = resume or (named(root, name) if name else None)
    folder = RunFolder(given) if given else new_folder(root, run_name("bsuite", agent))
    if resume is None:
        _begin(folder, planned.request)
    for text in planned.left_out:
        messages.say(text)
    begun = time.perf_counter()
    with locked(folder.path):
        logs = _train_programs(planned, folder, messages, track if tracking is None else tracking)
    content = folder.read_json("scores.json")
    seconds = time.perf_counter() - begun
    figure = _draw(folder, planned.request.agent, content) if figures else None
    flat = {bsuite_id(name, index).removeprefix("bsuite/"): log for name in logs for index, log in logs[name].items()}
    return BsuiteResult(folder.path, content["experiments"], content["tags"], flat, seconds, figure)


def _train_programs(planned: Bsuite, folder: RunFolder, messages: Sinks, track: Track) -> dict[str, dict[int, Any]]:
    """Train one program after the other, and write the scores after each. Returns the logs by experiment and index."""
    logs: dict[str, dict[int, Any]] = {}
    steps, seconds = defaultdict[str, int](int), defaultdict[str, float](float)  # by experiment
    for i, (program, (job, plan)) in enumerate(zip(planned.programs, planned.jobs, strict=True), 1):
        messages.say(
            f"[{i}/{len(planned.programs)}] {program.label}: {program.steps:,} steps of {plan.members} members"
        )
        program_folder = RunFolder(folder.path / "programs" / program.label.replace("/", "-"))
        try:
            begun_before = program_folder.has("spec.json")
            trackers = run_sinks(track, program_folder, job.spec, resume=begun_before, within=folder.path)
            found, duration = _train(plan, program_folder, program, [messages, StillCompiling(messages.say), *trackers])
        except Stopped as stopped:
            command = f"shoal bsuite --resume {folder.path}"
            raise Stopped(f"stopped in {program.label}. Continue with: {command}", stopped.signal) from stopped
        logs.setdefault(program.experiment, {}).update(found)
        steps[program.experiment] += program.steps * len(program.indices)
        seconds[program.experiment] += duration
        for index, log in found.items():
            write_csv(folder.path / "logs" / f"bsuite_id_-_{program.experiment}-{index}.csv", log)
        _write_scores(folder, planned.request.agent, job.spec, logs, steps, seconds)
    return logs


def chosen_experiments(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The experiments with these names or tags, in bsuite's order, and a sentence for each that is left out.

    Raises UnknownNameError for a word that is neither.
    """
    for word in wanted:
        if word not in EXPERIMENTS and word not in TAGS:
            raise unknown_name("experiment", word, (*EXPERIMENTS, *TAGS), f"Tags are: {', '.join(TAGS)}.")
    named = set(wanted) & set(EXPERIMENTS)
    chosen = [name for name, e in EXPERIMENTS.items() if not wanted or name in named or set(e.tags) & set(wanted)]
    missing = {n: why for n in chosen if n not in named and n.startswith("mnist") and (why := _start_error(n))}
    return [name for name in chosen if name not in missing], [f"{n} is left out: {why}" for n, why in missing.items()]


def _start_error(experiment: str) -> str:
    """The error that an experiment's environment raises at the start, such as a missing file; "" if there is none."""
    return start_error(make(bsuite_id(experiment, 0)))


def _begin(folder: RunFolder, request: Request) -> None:
    if (folder.path / REQUEST).exists():
        raise FileExistsError(
            f"{folder.path} already holds a run of bsuite. Continue it with `shoal bsuite --resume {folder.path}`, "
            f"or choose another --name."
        )
    folder.create()
    folder.write_json(REQUEST, request._asdict())


def _programs(experiments: list[str], scale: float, quick: bool) -> list[Program]:
    programs = []
    for name in experiments:
        indices = _chosen_indices(len(EXPERIMENTS[name].settings), quick)
        episodes = math.ceil(EXPERIMENTS[name].episodes * scale)
        by_structure: dict[Any, list[int]] = {}  # settings whose static fields are equal
        envs: dict[int, Any] = {index: make(bsuite_id(name, index)) for index in indices}  # bsuite tasks
        for index, env in envs.items():
            by_structure.setdefault(jax.tree.structure(env), []).append(index)
        for members in by_structure.values():
            logbook = Logbook.over([envs[index] for index in members], episodes)
            steps = episodes * max(envs[index].longest_episode for index in members)
            programs.append(Program(name, members, logbook, steps))
    return programs


def _chosen_indices(count: int, quick: bool) -> list[int]:
    if not quick:
        return list(range(count))
    return sorted({round(i * (count - 1) / (QUICK_SETTINGS - 1)) for i in range(QUICK_SETTINGS)})


def _job(agent: str | Agent, fields: dict[str, Any], program: Program, seed: int) -> tuple[Job, Plan]:
    job = make_job(
        agent,
        program.logbook,
        fields=fields,
        env_sweep={"setting": list(range(len(program.indices)))},
        steps=program.steps,
        seed=seed,
        records=4,
        evaluations=0,
    )
    try:
        return job, job.plan()
    except Unsuited:  # raise it with the id of the environment in the place of the logbook around it
        make_job(agent, bsuite_id(program.experiment, program.indices[0]), preset=None, fields=fields).plan()
        raise


def _train(plan: Plan, folder: RunFolder, program: Program, sinks: Sequence[Sink]) -> tuple[dict[int, Any], float]:
    """Train the settings of a program, or resume them. Returns their logs by index, and the seconds that it took."""
    begun = (folder.path / "spec.json").exists()
    if not begun:
        folder.create()
    elif folder.spec_hash != hash_of_spec(plan.spec.to_json()):
        raise ValueError(
            f"{folder.path} was started by another version of shoal with other defaults: start a new folder."
        )
    run = Run(plan, folder, sinks)
    seconds = run.train(resume=begun)["total_seconds"]
    (state,) = logbooks_in(run.states())
    settings = EXPERIMENTS[program.experiment].settings
    logs = {
        index: program.logbook.read(jax.tree.map(lambda x, m=m: x[m, 0], state), settings[index])
        for m, index in enumerate(program.indices)
    }
    return logs, seconds


def write_csv(path: Path, log: Any) -> None:
    """Write a log in the format that bsuite's own `csv_load` reads."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log.columns)
        writer.writerows(zip(*(column.tolist() for column in log.columns.values()), strict=True))


def _write_scores(folder: RunFolder, agent: str, spec: Any, logs: dict, steps: Mapping, seconds: Mapping) -> None:
    rows = {}
    for name, by_index in logs.items():
        own, experiment = list(by_index.values()), EXPERIMENTS[name]
        played = [int(log.episode[-1]) for log in own if len(log.episode)]
        rows[name] = {
            "score": score(name, own) if played else None,
            "finished": finished(name, own) and len(own) == len(experiment.settings),
            "tags": experiment.tags,
            "ids": len(own),
            "ids_of_bsuite": len(experiment.settings),
            "episodes": min(played, default=0),
            "episodes_of_bsuite": experiment.episodes,
            "steps": steps[name],
            "seconds": seconds[name],
        }
    tags = tag_scores({name: row["score"] for name, row in rows.items() if row["score"] is not None})
    content = {"agent": agent, "fields": spec.to_json()["fields"], "seed": spec.seed, "experiments": rows, "tags": tags}
    folder.write_json("scores.json", content)


def _draw(folder: RunFolder, agent: str, content: dict[str, Any]) -> Path:
    from shoal.viz.radar import radar

    tags = {tag: math.nan if value is None else value for tag, value in content["tags"].items()}
    is_complete = all(row["finished"] for row in content["experiments"].values())
    title = f"{agent} on bsuite" if is_complete else f"{agent} on a part of bsuite"
    return radar({agent: tags}, folder.figures / "radar.png", title)
