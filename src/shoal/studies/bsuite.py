"""bsuite (Osband et al. 2020): an agent on its experiments, each sweep one program where its settings are numbers.

bsuite lets an agent play a number of episodes in one environment at a time. So every member here has one environment,
and takes steps for as many episodes as bsuite asks for, were they all as long as can be: shorter episodes leave steps
over, in which it learns on, and which are not logged. Logs are those that bsuite would have written, at the same
episodes.

Each program is a run of its own in the folder, so one that was stopped goes on from its last checkpoint.
"""

import csv
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from shoal.core.agent import Agent
from shoal.core.errors import unknown_name
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import static_fields
from shoal.envs.bsuite.experiments import EXPERIMENTS, bsuite_id
from shoal.envs.bsuite.logbook import Logbook, logbooks_in
from shoal.envs.bsuite.scores import TAGS, finished, score, tag_scores
from shoal.tracking.events import Event, Message, Sink, Sinks
from shoal.training.folder import RunFolder, hash_of, new_path
from shoal.training.host import keep_programs
from shoal.training.jobs import Job, make_job
from shoal.training.loop import Run
from shoal.training.plan import Plan
from shoal.training.spec import RunSpec, run_name
from shoal.training.stopping import Stopped

REQUEST = "bsuite.json"  # what was asked for, in the folder
QUICK_SETTINGS, QUICK_SCALE = 4, 0.05


class BsuiteResult(NamedTuple):
    """What an agent reached on bsuite's experiments."""

    folder: Path
    experiments: dict[str, dict[str, Any]]  # by name: score, whether it is all of bsuite's, episodes, steps, seconds
    tags: dict[str, float | None]  # mean scores of the experiments with a tag; None where there was none
    logs: dict[str, Any]  # by bsuite id, such as "catch/0": columns as bsuite would have logged them
    seconds: float
    figure: Path | None  # the radar of the tags


class Program(NamedTuple):
    """Settings of one experiment that train together."""

    experiment: str
    indices: list[int]
    logbook: Any
    steps: int  # of each member

    @property
    def label(self) -> str:
        """`catch/0-19`."""
        first, last = self.indices[0], self.indices[-1]
        return f"{self.experiment}/{first}" if first == last else f"{self.experiment}/{first}-{last}"


class Request(NamedTuple):
    """What is asked for, as it is kept in the folder."""

    agent: str
    fields: dict[str, Any]
    experiments: list[str]
    episodes_scale: float
    quick: bool
    seed: int


class Bsuite(NamedTuple):
    """All programs of a request, planned: every mistake was found, nothing is compiled or written yet."""

    request: Request
    programs: list[Program]
    jobs: list[tuple[Job, Plan]]
    left_out: list[str]  # a sentence for each experiment that cannot start here


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
) -> BsuiteResult:
    """Score an agent on bsuite's experiments, named themselves or by tag; by default on all of them.

        result = shoal.bsuite("ppo", ["catch", "memory"], quick=True)
        result.experiments["catch"]["score"]

    `episodes_scale` is the share of bsuite's episodes that are played; `quick` takes a few settings of each experiment
    and a twentieth of the episodes. Logs as bsuite writes them, `scores.json` and the radar of its tags go to
    `root/name`, or to a new folder. `resume` continues such a folder as it was asked for, whatever else is given; only
    an agent that no file can hold (one with a network of the user's own) is needed again. MNIST's experiments that are
    not named themselves are left out where its files are missing. Raises `Stopped` when asked to stop.
    """
    if resume is not None:
        planned = plan_resumed(resume, agent if isinstance(agent, Agent) else None)
    elif agent is None:
        raise TypeError('bsuite needs an agent: shoal.bsuite("ppo", quick=True).')
    else:
        planned = plan_bsuite(agent, experiments, episodes_scale=episodes_scale, quick=quick, fields=fields, seed=seed)
    listening = [*([PrintedMessages()] if progress else []), *sinks]
    keep_programs()
    return run_bsuite(planned, name=name, root=root, resume=resume, figures=figures, sinks=listening)


def plan_bsuite(
    agent: str | Agent,
    experiments: Sequence[str] = (),
    *,
    episodes_scale: float = 1.0,
    quick: bool = False,
    fields: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Bsuite:
    """Plan what `bsuite` would run. Raises ValueError or TypeError for what cannot work; compiles nothing."""
    if not 0 < episodes_scale <= 1:
        raise ValueError(f"episodes_scale={episodes_scale:g} must be above 0, and at most 1: bsuite's own.")
    chosen, left_out = chosen_experiments(experiments)
    cls = AGENTS[agent].cls if isinstance(agent, str) else type(agent)
    given = {**({"num_envs": 1} if "num_envs" in static_fields(cls) else {}), **(fields or {})}
    programs = _programs(chosen, min(episodes_scale, QUICK_SCALE) if quick else episodes_scale, quick)
    jobs = [_job(agent, given, program, seed) for program in programs]
    if not jobs:
        raise ValueError(f"no experiment is left to run. {' '.join(left_out)}")
    spec = jobs[0][0].spec
    request = Request(spec.agent, spec.to_json()["fields"], chosen, episodes_scale, quick, seed)
    return Bsuite(request, programs, jobs, left_out)


def plan_resumed(folder: Path | str, agent: Agent | None = None) -> Bsuite:
    """Plan what a folder was asked for. Raises FileNotFoundError where it holds no agent's bsuite."""
    place = RunFolder(folder)
    if not (place.path / REQUEST).is_file():
        raise FileNotFoundError(f"{folder} holds no agent's bsuite: it has no {REQUEST}.")
    data = place.read_json(REQUEST)
    if not isinstance(data, dict) or set(data) != set(Request._fields):
        raise ValueError(f"{place.path / REQUEST} is damaged, or was written by another version of shoal.")
    given = Request(**data)
    spec = RunSpec.from_json({"agent": given.agent, "env": "", "fields": given.fields})  # tuples and `inf` again
    return plan_bsuite(
        agent or given.agent,
        given.experiments,
        episodes_scale=given.episodes_scale,
        quick=given.quick,
        fields=None if agent else spec.fields,
        seed=given.seed,
    )


def run_bsuite(
    planned: Bsuite,
    *,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    figures: bool = True,
    sinks: Sequence[Sink] = (),
) -> BsuiteResult:
    """Run all programs, one after the other, and score them. Raises Stopped, naming where it is to go on."""
    root, agent, messages = Path(root), planned.request.agent, Sinks([_OnlyMessages(sink) for sink in sinks])
    folder = RunFolder(resume or (root / name if name else new_path(root, run_name("bsuite", agent))))
    if resume is None:
        _begin(folder, planned.request)
    for text in planned.left_out:
        messages.say(text)
    logs: dict[str, dict[int, Any]] = {}
    costs: dict[str, list[float]] = {}
    begun = time.perf_counter()
    for number, (program, (job, plan)) in enumerate(zip(planned.programs, planned.jobs, strict=True), 1):
        messages.say(
            f"[{number}/{len(planned.programs)}] {program.label}: {program.steps:,} steps of {plan.members} members"
        )
        place = RunFolder(folder.path / "programs" / program.label.replace("/", "-"))
        try:
            found, seconds = _train(plan, place, program, messages)
        except Stopped as stopped:
            again = f"shoal bsuite --resume {folder.path}"
            raise Stopped(f"stopped in {program.label}. Continue with: {again}", stopped.signal) from stopped
        logs.setdefault(program.experiment, {}).update(found)
        cost = costs.setdefault(program.experiment, [0, 0.0])
        costs[program.experiment] = [cost[0] + program.steps * len(program.indices), cost[1] + seconds]
        for index, log in found.items():
            write_csv(folder.path / "logs" / f"bsuite_id_-_{program.experiment}-{index}.csv", log)
        _write_scores(folder, agent, job.spec, logs, costs)
    content = folder.read_json("scores.json")
    seconds = time.perf_counter() - begun
    figure = _draw(folder, agent, content) if figures else None
    flat = {bsuite_id(name, index).removeprefix("bsuite/"): log for name in logs for index, log in logs[name].items()}
    return BsuiteResult(folder.path, content["experiments"], content["tags"], flat, seconds, figure)


class PrintedMessages(Sink):
    """Prints what is worth a sentence, such as a member that stopped; a line for each program says the rest."""

    def receive(self, event: Event) -> None:
        """A line on standard output."""
        if isinstance(event, Message):
            print(event.text, flush=True)


def chosen_experiments(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """(experiments by name or tag, in bsuite's order; a sentence for each left out). Raises UnknownNameError."""
    for word in wanted:
        if word not in EXPERIMENTS and word not in TAGS:
            raise unknown_name("experiment", word, (*EXPERIMENTS, *TAGS), f"Tags are: {', '.join(TAGS)}.")
    named = set(wanted) & set(EXPERIMENTS)
    meant = [name for name, e in EXPERIMENTS.items() if not wanted or name in named or set(e.tags) & set(wanted)]
    missing = {n: why for n in meant if n not in named and n.startswith("mnist") and (why := _why_it_cannot_start(n))}
    return [name for name in meant if name not in missing], [f"{n} is left out: {why}" for n, why in missing.items()]


def _why_it_cannot_start(experiment: str) -> str:
    try:
        jax.eval_shape(make(bsuite_id(experiment, 0)).init, make_key(0))
    except ValueError as error:
        return str(error)
    return ""


def _begin(folder: RunFolder, request: Request) -> None:
    if (folder.path / REQUEST).exists():
        raise FileExistsError(
            f"{folder.path} already holds an agent's bsuite. Continue it with `shoal bsuite --resume {folder.path}`, "
            f"or choose another --name."
        )
    folder.create()
    folder.write_json(REQUEST, request._asdict())


def _programs(experiments: list[str], scale: float, quick: bool) -> list[Program]:
    programs = []
    for name in experiments:
        indices = _thinned(len(EXPERIMENTS[name].settings), quick)
        episodes = math.ceil(EXPERIMENTS[name].episodes * scale)
        kinds: dict[Any, list[int]] = {}
        envs = {index: make(bsuite_id(name, index)) for index in indices}
        for index, env in envs.items():
            kinds.setdefault(jax.tree.structure(env), []).append(index)
        for members in kinds.values():
            logbook = Logbook.over([envs[index] for index in members], episodes)
            steps = episodes * max(envs[index].longest_episode for index in members)
            programs.append(Program(name, members, logbook, steps))
    return programs


def _thinned(count: int, quick: bool) -> list[int]:
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
    return job, job.plan()


def _train(plan: Plan, folder: RunFolder, program: Program, messages: Sinks) -> tuple[dict[int, Any], float]:
    """Train the settings of a program, or go on with them: (their logs by index, seconds of it all)."""
    begun = (folder.path / "spec.json").exists()
    if not begun:
        folder.create()
    elif folder.spec_hash != hash_of(plan.spec.to_json()):
        raise ValueError(f"{folder.path} was begun by another version of shoal, with other defaults: start anew.")
    run = Run(plan, folder, [messages])
    seconds = run.train(resume=begun)["total_seconds"]
    (state,) = logbooks_in(run.states())
    settings = EXPERIMENTS[program.experiment].settings
    logs = {
        index: program.logbook.read(jax.tree.map(lambda x, m=m: x[m, 0], state), settings[index])
        for m, index in enumerate(program.indices)
    }
    return logs, seconds


def write_csv(path: Path, log: Any) -> None:
    """A log that bsuite's own `csv_load` reads."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log.columns)
        writer.writerows(zip(*(column.tolist() for column in log.columns.values()), strict=True))


def _write_scores(folder: RunFolder, agent: str, spec: Any, logs: dict, costs: dict) -> None:
    rows = {}
    for name, by_index in logs.items():
        mine, wanted = list(by_index.values()), EXPERIMENTS[name]
        played = [int(log.episode[-1]) for log in mine if len(log.episode)]
        rows[name] = {
            "score": score(name, mine) if played else None,
            "finished": finished(name, mine) and len(mine) == len(wanted.settings),
            "tags": wanted.tags,
            "ids": len(mine),
            "ids_of_bsuite": len(wanted.settings),
            "episodes": min(played, default=0),
            "episodes_of_bsuite": wanted.episodes,
            "steps": costs[name][0],
            "seconds": costs[name][1],
        }
    tags = tag_scores({name: row["score"] for name, row in rows.items() if row["score"] is not None})
    content = {"agent": agent, "fields": spec.to_json()["fields"], "seed": spec.seed, "experiments": rows, "tags": tags}
    folder.write_json("scores.json", content)


def _draw(folder: RunFolder, agent: str, content: dict[str, Any]) -> Path:
    from shoal.viz.radar import radar

    tags = {tag: math.nan if value is None else value for tag, value in content["tags"].items()}
    whole = all(row["finished"] for row in content["experiments"].values())
    title = f"{agent} on bsuite" if whole else f"{agent} on a part of bsuite"
    return radar({agent: tags}, folder.figures / "radar.png", title)


class _OnlyMessages(Sink):
    """Passes messages of the single programs on to a sink, and nothing else."""

    def __init__(self, sink: Sink) -> None:
        """Pass on to this one."""
        self._sink = sink

    def receive(self, event: Event) -> Message | None:
        """Pass a message on."""
        return self._sink.receive(event) if isinstance(event, Message) else None
