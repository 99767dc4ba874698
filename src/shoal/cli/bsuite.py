"""`shoal bsuite`: an agent on bsuite's experiments, each sweep one program where its settings are numbers.

bsuite lets an agent play a number of episodes in one world at a time. So every member here has one environment, and
takes steps for as many episodes as bsuite asks for, were they all as long as can be: shorter episodes leave steps over,
in which it learns on, and which are not logged. Logs are those that bsuite would have written, at the same episodes.

Each program is a run of its own in the folder, so one that was stopped goes on from its last checkpoint.
"""

import argparse
import csv
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from shoal.cli.parser import Parser, full_path, real_number, value_after, whole_number
from shoal.tracking.events import Event, Message, Sink

EXAMPLES = """examples:
  shoal bsuite ppo --quick
  shoal bsuite ppo --experiments catch,bandit,memory_len
  shoal bsuite ppo --experiments noise --episodes-scale 0.1 --learning-rate 1e-3
  shoal bsuite ppo --dry-run
  shoal bsuite --resume runs/bsuite-ppo
"""
REQUEST = "bsuite.json"  # what was asked for, in the folder
QUICK_SETTINGS, QUICK_SCALE = 4, 0.05


class _Messages(Sink):
    """Prints what is worth a sentence, such as a member that stopped; a line for each program says the rest."""

    def hear(self, event: Event) -> None:
        if isinstance(event, Message):
            print(event.text, flush=True)


class Program(NamedTuple):
    """Settings of one experiment that train together."""

    experiment: str
    indices: list[int]
    logbook: Any
    steps: int  # of each member


def bsuite(words: list[str]) -> int:
    """Run the command. Returns 130 when the user stopped it."""
    path = ""
    if any(word.partition("=")[0] == "--resume" for word in words) and not {"-h", "--help"} & set(words):
        path = _alone(words)
        words = _asked_for(path)
    agent = full_path(words[0]) if words and not words[0].startswith("-") else ""
    rest = words[1:] if agent else words
    if not agent and ("-h" in rest or "--help" in rest):
        print(_parser().format_help())
        return 0
    if not agent:
        raise ValueError("bsuite needs an agent, as in `shoal bsuite ppo --quick`.")
    from shoal.cli.fields import add_flags, flags_of, read_flags
    from shoal.core.registry import AGENTS

    entry, parser = AGENTS[agent], _parser()
    flags = [flag for flag in flags_of(entry.cls, entry.preset) if flag.name != "num_envs"]
    add_flags(parser, f"hyperparameters of {agent}", flags)
    arguments = parser.parse_all(rest)
    given = read_flags(arguments, flags)
    if several := [*given.sweep, *given.variants]:
        raise ValueError(f"{several[0]} has several values: bsuite scores one agent at a time. Give it one.")
    if not 0 < arguments.episodes_scale <= 1:
        raise ValueError(f"--episodes-scale {arguments.episodes_scale:g} must be above 0, and at most 1: bsuite's own.")
    fields = {**({"num_envs": 1} if "num_envs" in entry.cls.__dataclass_fields__ else {}), **given.fixed}
    programs = _programs(_chosen(arguments.experiments), arguments)
    jobs = [_job(agent, fields, program, arguments) for program in programs]  # every mistake before any compile
    if arguments.dry_run:
        print(_plan_table(programs))
        return 0
    return _run_all([agent, *rest], arguments, programs, jobs, path)


def _alone(words: list[str]) -> str:
    """The folder to continue, as it is. Raises ValueError where anything else is asked for."""
    path = value_after("--resume", words)
    if not path or path.startswith("-") or words not in (["--resume", path], [f"--resume={path}"]):
        raise ValueError("--resume continues a folder as it is: write nothing else, as in `shoal bsuite --resume RUN`.")
    return path


def _asked_for(path: str) -> list[str]:
    from shoal.training.folder import RunFolder

    folder = RunFolder(path)
    if not (folder.path / REQUEST).is_file():
        raise FileNotFoundError(f"{path} holds no agent's bsuite: it has no {REQUEST}.")
    return folder.read_json(REQUEST)["words"]


def _parser() -> Parser:
    parser = Parser(
        prog="shoal bsuite",
        usage="shoal bsuite AGENT [options] [hyperparameters]",
        description="Score an agent on bsuite (Osband et al. 2020). Each member has one environment, as in bsuite, and "
        "plays at least the episodes that bsuite asks for; all settings of an experiment that differ in numbers only "
        "train together, in one program.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--experiments",
        default="",
        metavar="NAME,...",
        help="experiments or tags (default: all). MNIST's that are not named themselves only where its files are",
    )
    parser.add_argument(
        "--episodes-scale",
        type=real_number,
        default=1.0,
        metavar="X",
        help="share of bsuite's episodes to play; scores are then those of unfinished runs (default 1)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_SETTINGS} settings of each experiment, {QUICK_SCALE:.0%} of the episodes: a first look, no score "
        "to publish",
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="the base of every random number")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the run folder (default bsuite-AGENT)")
    parser.add_argument("--root", default="runs", metavar="DIR", help="where run folders lie (default runs)")
    parser.add_argument("--resume", metavar="RUN", help="continue a folder bit for bit; nothing else may be given")
    parser.add_argument("--no-figures", action="store_true", help="draw no radar")
    parser.add_argument("--dry-run", action="store_true", help="print programs, episodes and steps; compile nothing")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    return parser


def _chosen(text: str) -> list[str]:
    """Experiments by name or tag, in bsuite's order. Raises UnknownNameError."""
    from shoal.core.errors import unknown_name
    from shoal.envs.bsuite.experiments import EXPERIMENTS
    from shoal.envs.bsuite.scores import TAGS

    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for word in wanted:
        if word not in EXPERIMENTS and word not in TAGS:
            raise unknown_name("experiment", word, (*EXPERIMENTS, *TAGS), f"Tags are: {', '.join(TAGS)}.")
    named = set(wanted) & set(EXPERIMENTS)
    meant = [name for name, e in EXPERIMENTS.items() if not wanted or name in named or set(e.tags) & set(wanted)]
    return [name for name in meant if name in named or not name.startswith("mnist") or _can_start(name)]


def _can_start(experiment: str) -> bool:
    import jax

    from shoal.core.keys import make_key
    from shoal.core.registry import make
    from shoal.envs.bsuite.experiments import bsuite_id

    try:
        jax.eval_shape(make(bsuite_id(experiment, 0)).init, make_key(0))
    except ValueError as error:
        print(f"{experiment} is left out: {error}")
        return False
    return True


def _programs(experiments: list[str], arguments: argparse.Namespace) -> list[Program]:
    import jax

    from shoal.core.registry import make
    from shoal.envs.bsuite.experiments import EXPERIMENTS, bsuite_id
    from shoal.envs.bsuite.logbook import Logbook

    programs = []
    scale = min(arguments.episodes_scale, QUICK_SCALE) if arguments.quick else arguments.episodes_scale
    for name in experiments:
        indices = _thinned(len(EXPERIMENTS[name].settings), arguments.quick)
        episodes = math.ceil(EXPERIMENTS[name].episodes * scale)
        kinds: dict[Any, list[int]] = {}
        worlds = {index: make(bsuite_id(name, index)) for index in indices}
        for index, world in worlds.items():
            kinds.setdefault(jax.tree.structure(world), []).append(index)
        for members in kinds.values():
            logbook = Logbook.over([worlds[index] for index in members], episodes)
            steps = episodes * max(worlds[index].longest_episode for index in members)
            programs.append(Program(name, members, logbook, steps))
    return programs


def _thinned(count: int, quick: bool) -> list[int]:
    if not quick:
        return list(range(count))
    return sorted({round(i * (count - 1) / (QUICK_SETTINGS - 1)) for i in range(QUICK_SETTINGS)})


def _job(agent: str, fields: dict[str, Any], program: Program, arguments: argparse.Namespace) -> Any:
    """(job, plan) of a program."""
    from shoal.training.jobs import make_job

    job = make_job(
        agent,
        program.logbook,
        fields=fields,
        env_sweep={"setting": list(range(len(program.indices)))},
        steps=program.steps,
        seed=arguments.seed,
        records=4,
        evaluations=0,
    )
    return job, job.plan()


def _run_all(
    words: list[str], arguments: argparse.Namespace, programs: list[Program], jobs: list[Any], resumed: str
) -> int:
    from shoal.training.folder import RunFolder, new_path, run_name
    from shoal.training.stopping import Stopped

    root, agent = Path(arguments.root), words[0]
    named = root / arguments.name if arguments.name else None
    folder = RunFolder(resumed or named or new_path(root, run_name("bsuite", agent)))
    if not resumed:
        if (folder.path / REQUEST).exists():
            raise FileExistsError(
                f"{folder.path} already holds an agent's bsuite. Continue it with `shoal bsuite --resume "
                f"{folder.path}`, or choose another --name."
            )
        folder.create()
        folder.write_json(REQUEST, {"words": words})
    logs: dict[str, dict[int, Any]] = {}
    costs: dict[str, list[float]] = {}
    begun = time.perf_counter()
    for number, (program, (job, plan)) in enumerate(zip(programs, jobs, strict=True), 1):
        print(f"[{number}/{len(programs)}] {_label(program)}: {program.steps:,} steps of {plan.members} members")
        try:
            found, seconds = _train(
                plan, RunFolder(folder.path / "programs" / _label(program).replace("/", "-")), program
            )
        except Stopped:
            print(f"stopped in {_label(program)}. Continue with: shoal bsuite --resume {folder.path}")
            return 130
        logs.setdefault(program.experiment, {}).update(found)
        cost = costs.setdefault(program.experiment, [0, 0.0])
        costs[program.experiment] = [cost[0] + program.steps * len(program.indices), cost[1] + seconds]
        for index, log in found.items():
            _write_csv(folder.path / "logs" / f"bsuite_id_-_{program.experiment}-{index}.csv", log)
        _write_scores(folder, agent, job.spec, logs, costs)
    _show(folder, agent, arguments, time.perf_counter() - begun)
    return 0


def _train(plan: Any, folder: Any, program: Program) -> tuple[dict[int, Any], float]:
    """Train the settings of a program, or go on with them: (their logs by index, seconds of it all)."""
    import jax

    from shoal.envs.bsuite.experiments import EXPERIMENTS
    from shoal.envs.bsuite.logbook import logbooks_in
    from shoal.training.folder import hash_of
    from shoal.training.loop import Run

    begun = (folder.path / "spec.json").exists()
    if not begun:
        folder.create()
    elif folder.spec_hash != hash_of(plan.spec.to_json()):
        raise ValueError(f"{folder.path} was begun by another version of shoal, with other defaults: start anew.")
    run = Run(plan, folder, [_Messages()])
    seconds = run.train(resume=begun)["total_seconds"]
    (state,) = logbooks_in(run.states())
    settings = EXPERIMENTS[program.experiment].settings
    logs = {
        index: program.logbook.read(jax.tree.map(lambda x, m=m: x[m, 0], state), settings[index])
        for m, index in enumerate(program.indices)
    }
    return logs, seconds


def _write_csv(path: Path, log: Any) -> None:
    """A log that bsuite's own `csv_load` reads."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log.columns)
        writer.writerows(zip(*(column.tolist() for column in log.columns.values()), strict=True))


def _write_scores(folder: Any, agent: str, spec: Any, logs: dict, costs: dict) -> None:
    from shoal.envs.bsuite.experiments import EXPERIMENTS
    from shoal.envs.bsuite.scores import finished, score, tag_scores

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


def _show(folder: Any, agent: str, arguments: argparse.Namespace, seconds: float) -> None:
    from shoal.cli.table import table

    found = folder.read_json("scores.json")
    head = ("experiment", "score", "of bsuite's", "ids", "episodes", "steps", "seconds")
    rows = [
        [
            name,
            row["score"],
            "all" if row["finished"] else "a part",
            f"{row['ids']} of {row['ids_of_bsuite']}",
            f"{row['episodes']:,} of {row['episodes_of_bsuite']:,}",
            row["steps"],
            row["seconds"],
        ]
        for name, row in found["experiments"].items()
    ]
    print(f"\n{table(head, rows)}\n")
    print(table(("tag", "score"), [[tag, value] for tag, value in found["tags"].items()]))
    print(f"\n{seconds:.0f} s; {folder.path / 'scores.json'}")
    if not arguments.no_figures:
        from shoal.viz.radar import radar

        tags = {tag: math.nan if value is None else value for tag, value in found["tags"].items()}
        whole = all(row["finished"] for row in found["experiments"].values())
        title = f"{agent} on bsuite" if whole else f"{agent} on a part of bsuite"
        print(radar({agent: tags}, folder.figures / "radar.png", title))


def _plan_table(programs: list[Program]) -> str:
    from shoal.cli.table import table

    rows = [
        [_label(program), len(program.indices), program.logbook.episodes, program.steps * len(program.indices)]
        for program in programs
    ]
    total = sum(row[-1] for row in rows)
    head = ("program", "members", "episodes", "steps of all")
    return f"{table(head, rows)}\n\n{len(programs)} programs, {total:,} steps in all; nothing was compiled."


def _label(program: Program) -> str:
    first, last = program.indices[0], program.indices[-1]
    return f"{program.experiment}/{first}" if first == last else f"{program.experiment}/{first}-{last}"
