"""`shoal train`: from a command line to run folders."""

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

from shoal.cli.parser import Parser, full_path, real_number, whole_number

EXAMPLES = """examples:
  shoal train ppo CartPole-v1
  shoal train ppo CartPole-v1 --steps 500_000 --seeds 64 --learning-rate 1e-4,3e-4   one program, 128 members
  shoal train ppo CartPole-v1 --num-envs 4,8 --hidden 128,128                       one run folder for each num_envs
  shoal train ppo CartPole-v1 --env.gravity 5,10,15 --seeds 8                       a sweep over worlds
  shoal train my_agent.py:MyAgent my_env.py:MyEnv --dry-run                         your own parts; sizes and memory
  shoal train ppo --suite classic --seeds 16
  shoal train --resume runs/ppo-CartPole-v1

`shoal train AGENT ENV --help` also lists every hyperparameter and every constant of the world.
"""
ONLY_NEW = ("name", "root", "preset", "suite")  # options that mean nothing to a run that exists
SPEC_OPTIONS = ("steps", "seed", "seeds", "records", "evaluations", "eval_episodes", "eval_max_steps", "prng", "block")


class Task(NamedTuple):
    """One run of this command: what `jobs.make_job` takes, and what tells it from the other runs."""

    agent: str
    env: str
    options: dict[str, Any]
    label: str


def train(words: list[str]) -> int:
    """Run the command. Returns 130 when the user stopped it."""
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    rest = words[len(names) :]
    if not names and ("-h" in rest or "--help" in rest):
        print(_parser().format_help())
        return 0
    if len(names) > 2:
        raise ValueError(f"{names[2]!r} was not expected: train takes one agent and one environment.")
    from shoal.cli.fields import read_flags

    agent, env = map(full_path, [*names, "", ""][:2])
    parser, flags = _full_parser(agent, env, rest)
    arguments = parser.parse_all(rest)
    if arguments.threads is not None and arguments.threads < 1:
        raise ValueError(f"--threads {arguments.threads} must be at least 1; leave it out for one a core.")
    given = {kind: read_flags(arguments, found) for kind, found in flags.items()}
    options = {name: getattr(arguments, name) for name in SPEC_OPTIONS if getattr(arguments, name) is not None}
    if arguments.resume:
        return _resume(arguments, agent, env, options, given)
    if not agent or not (env or arguments.suite):
        raise ValueError("train needs an agent and an environment, as in `shoal train ppo CartPole-v1`.")
    return _train_all(arguments, _tasks(agent, _envs(env, arguments.suite), options, given, arguments.preset))


def _parser() -> Parser:
    parser = Parser(
        prog="shoal train",
        usage="shoal train AGENT ENV [options] [hyperparameters]",
        description="Train a population: --seeds members for every combination of swept values, in one program. "
        "A comma list on a traced field is such a sweep; on a field that shapes the program, one run for each value.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to run")
    what.add_argument(
        "--steps", type=whole_number, metavar="N", help="environment steps of each member (default 500_000)"
    )
    what.add_argument("--seeds", type=whole_number, metavar="N", help="members for each setting (default 1)")
    what.add_argument("--seed", type=whole_number, metavar="N", help="the base of every random number (default 0)")
    what.add_argument("--preset", metavar="NAME", help="a variant of the environment's preset, or `none`")
    what.add_argument("--suite", metavar="NAME", help="train on a named set of environments, such as `classic`")
    what.add_argument("--resume", metavar="RUN", help="continue a run folder, bit for bit")
    what.add_argument("--dry-run", action="store_true", help="print sizes, memory and schedule; compile nothing")
    out = parser.add_argument_group("what to write")
    out.add_argument("--name", default="", metavar="NAME", help="name of the run folder (default AGENT-ENV)")
    out.add_argument("--root", metavar="DIR", help="where run folders lie (default runs)")
    out.add_argument(
        "--records", type=whole_number, metavar="N", help="points on the curves, each a checkpoint (default 20)"
    )
    out.add_argument("--evaluations", type=whole_number, metavar="N", help="spread over the records (default 5)")
    out.add_argument("--eval-episodes", type=whole_number, metavar="N", help="fresh episodes of each (default 100)")
    out.add_argument("--eval-max-steps", type=whole_number, metavar="N", help="horizon of one (default the time limit)")
    out.add_argument("--no-figures", action="store_true", help="draw no learning curve and no videos")
    out.add_argument("--no-progress", action="store_true", help="say nothing until the end")
    how = parser.add_argument_group("how to run it")
    how.add_argument("--prng", metavar="NAME", help="random generator: mix32 (default) or threefry2x32")
    how.add_argument("--block", type=whole_number, metavar="N", help="members that run together (default by device)")
    how.add_argument("--devices", type=whole_number, default=0, metavar="N", help="devices to use (default all)")
    how.add_argument("--memory-limit-gb", type=real_number, default=0, metavar="X", help="split the population to fit")
    how.add_argument("--threads", type=whole_number, metavar="N", help="size of XLA's thread pool on CPU")
    how.add_argument("--no-cache", action="store_true", help="compile everything anew")
    how.add_argument("--debug", action="store_true", help="show where an error comes from")
    return parser


def _full_parser(agent: str, env: str, rest: list[str]) -> tuple[Parser, dict[str, list]]:
    """The parser with the flags of the fields of both values, which are looked up by name."""
    from shoal.cli.fields import add_flags, flags_of
    from shoal.core.registry import AGENTS, ENVS

    if "--resume" in rest or any(word.startswith("--resume=") for word in rest):
        agent, env = _names_of_run(rest, agent, env)
    parser, flags = _parser(), {"agent": [], "env": []}
    parser.prog = " ".join(word for word in ("shoal train", agent, env) if word)
    if agent:
        if agent in ENVS and env in AGENTS:
            raise ValueError(f"the agent comes first: shoal train {env} {agent}")
        entry = AGENTS[agent]
        flags["agent"] = flags_of(entry.cls, entry.preset)
        add_flags(parser, f"hyperparameters of {agent}", flags["agent"])
    if env:
        entry = ENVS[env]
        flags["env"] = flags_of(entry.cls, entry.preset, prefix="env.")
        add_flags(parser, f"the world {env}", flags["env"])
    return parser, flags


def _names_of_run(rest: list[str], agent: str, env: str) -> tuple[str, str]:
    from shoal.training.folder import RunFolder
    from shoal.training.policy import check_complete

    word = next(i for i, w in enumerate(rest) if w.startswith("--resume"))
    path = rest[word].partition("=")[2] or (rest[word + 1] if len(rest) > word + 1 else "")
    if not path:
        return agent, env
    folder = RunFolder(path)
    spec = check_complete(folder)
    return agent or spec.agent, env or spec.env


def _envs(env: str, suite: str | None) -> list[str]:
    if not suite:
        return [env]
    if env:
        raise ValueError(f"give an environment ({env}) or --suite {suite}, not both.")
    from shoal.core.errors import unknown_name

    known = suites()
    if suite not in known:
        raise unknown_name("suite", suite, known, f"There is: {', '.join(known)}.")
    return known[suite]["envs"]


def suites() -> dict[str, Any]:
    """The named sets of environments."""
    import tomllib

    return tomllib.loads((Path(__file__).parent / "suites.toml").read_text())


def _tasks(agent: str, envs: list[str], options: dict, given: dict, preset: str | None) -> list[Task]:
    """Every environment with every combination of values that shape the program."""
    axes = {**given["agent"].variants, **{f"env.{k}": v for k, v in given["env"].variants.items()}}
    tasks = []
    for env, values in itertools.product(envs, itertools.product(*axes.values())):
        chosen = dict(zip(axes, values, strict=True))
        parts = {
            "fields": {**given["agent"].fixed, **{k: v for k, v in chosen.items() if not k.startswith("env.")}},
            "env_fields": {**given["env"].fixed, **{k[4:]: v for k, v in chosen.items() if k.startswith("env.")}},
            "sweep": given["agent"].sweep,
            "env_sweep": given["env"].sweep,
            "preset": None if preset == "none" else preset or "",
        }
        words = [f"{k}={v}" for k, v in chosen.items()]
        label = ",".join([env, *words] if len(envs) > 1 else words)
        if label in [task.label for task in tasks]:
            raise ValueError(f"{label} is asked for twice, and two runs cannot share a folder: name each value once.")
        tasks.append(Task(agent, env, {**options, **parts}, label))
    return tasks


def _train_all(arguments: argparse.Namespace, tasks: list[Task]) -> int:
    from shoal.training.folder import new_path, run_name
    from shoal.training.jobs import make_job

    jobs = [make_job(task.agent, task.env, **task.options) for task in tasks]
    plans = [job.plan(arguments.devices, arguments.memory_limit_gb) for job in jobs]  # every mistake before any compile
    root = Path(arguments.root or "runs")
    stem = run_name(tasks[0].agent, arguments.suite or jobs[0].spec.env)
    if arguments.name:
        for folder in _folders(tasks, root / arguments.name):
            folder.check_unused()
    if arguments.dry_run:
        from shoal.cli.dry_run import describe

        print(describe(plans, root))
        return 0
    base = root / arguments.name if arguments.name else new_path(root, stem)
    folders = _folders(tasks, base)
    results = []
    for job, plan, folder in zip(jobs, plans, folders, strict=True):
        result = _run(arguments, job, plan, folder)
        if result is None:
            return 130
        results.append(result)
    if len(results) > 1:
        _print_table(tasks, results)
    return 0


def _folders(tasks: list[Task], base: Path) -> list[Any]:
    from shoal.training.folder import RunFolder

    return [RunFolder(base / task.label.replace("/", "-") if len(tasks) > 1 else base) for task in tasks]


def _resume(arguments: argparse.Namespace, agent: str, env: str, options: dict, given: dict) -> int:
    from shoal.training.folder import RunFolder
    from shoal.training.jobs import job_to_resume

    for name in ONLY_NEW:
        if getattr(arguments, name):
            raise ValueError(
                f"--{name} is for a new run; --resume continues {arguments.resume} as it is. Leave it out."
            )
    asked = {**options}
    for kind, prefix in (("agent", ""), ("env", "env_")):
        parts = {f"{prefix}fields": given[kind].fixed, f"{prefix}sweep": {**given[kind].sweep, **given[kind].variants}}
        asked |= {name: values for name, values in parts.items() if values}
    job = job_to_resume(arguments.resume, agent or None, env or None, asked)
    plan = job.plan(arguments.devices, arguments.memory_limit_gb, resume=True)
    if arguments.dry_run:
        from shoal.cli.dry_run import describe

        print(describe([plan], Path(arguments.resume).parent))
        return 0
    return 0 if _run(arguments, job, plan, RunFolder(arguments.resume), resume=True) is not None else 130


def _run(arguments: argparse.Namespace, job: Any, plan: Any, folder: Any, resume: bool = False) -> Any:
    """One run with its report on standard output. None when the user stopped it."""
    from shoal.studies.runs import run_job
    from shoal.tracking.progress import progress_sink
    from shoal.training.stopping import Stopped

    sinks = [] if arguments.no_progress else [progress_sink()]
    try:
        result = run_job(
            job,
            plan,
            folder,
            resume=resume,
            figures=not arguments.no_figures,
            sinks=sinks,
        )
    except Stopped as stopped:
        print(f"shoal: {stopped}", file=sys.stderr)
        return None
    print(report(result))
    return result


def report(result: Any) -> str:
    """What a run achieved: a row for each setting, then times, then where everything lies."""
    from shoal.cli.table import SCORE_HEAD, score_cells, setting_words, table

    summary = result.summary
    rows = [[setting_words(s["setting"]), *score_cells(s)] for s in summary["settings"]]
    dead = sum(not member["alive"] for member in summary["per_member"])
    lines = [
        f"return of the last weights over {summary['episodes_per_evaluation']} fresh episodes",
        table(("setting", *SCORE_HEAD), rows),
        f"{summary['steps_per_second']:,.0f} steps/s; {summary['total_seconds']:.1f} s, of them "
        f"{summary['compile_seconds']:.1f} compiling, {summary['train_seconds']:.1f} training, "
        f"{summary['eval_seconds']:.1f} evaluating",
    ]
    if dead:
        lines.append(f"{dead} member{'s' * (dead > 1)} stopped early: a number was not finite")
    return "\n".join([*lines, f"{result.folder}"])


def _print_table(tasks: list[Task], results: list[Any]) -> None:
    from shoal.cli.table import SCORE_HEAD, score_cells, setting_words, table

    rows = [
        [
            task.label,
            setting_words(s["setting"]),
            result.summary["steps_per_member"],
            *score_cells(s),
            round(result.summary["total_seconds"]),
        ]
        for task, result in zip(tasks, results, strict=True)
        for s in result.summary["settings"]
    ]
    print()
    print(table(("run", "setting", "steps", *SCORE_HEAD, "seconds"), rows))
