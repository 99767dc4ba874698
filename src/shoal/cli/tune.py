"""`shoal tune`: search for hyperparameters with Optuna; trials fill the slots of compiled programs."""

import argparse
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.cli.numbers import parse_number
from shoal.cli.options import add_run_options
from shoal.cli.parser import Flag, Line, Named, Parser, full_path, read_values, real_number, whole_number
from shoal.cli.search import read_search
from shoal.cli.tracking import add_tracking, tracking_in
from shoal.cli.wraps import add_wrap, env_of, wrapped

EXAMPLES = """  shoal tune ppo CartPole-v1 --steps 100_000                   all hyperparameters that declare a range
  shoal tune ppo CartPole-v1 --trials 200 --parallel 64 --sampler tpe --pruner hyperband --name mine
  shoal tune dqn Doors-v0 --search "learning_rate=log(1e-4,1e-1)" --search env.max_steps=10..17
  shoal tune ppo CartPole-v1 --search learning_rate --search "hidden=64,64|128,128" --search "optimizer=adam|rmsprop"
  shoal tune ppo CartPole-v1 --space space.toml --enqueue first.json --score q25 --seeds 8
  shoal tune ppo CartPole-v1 --search hidden --objective return --objective steps_per_second
  shoal tune --resume runs/mine --trials 400                   go on, with 200 more trials"""
SIZES = ("trials", "parallel", "seeds", "steps", "records", "seed", "evaluations", "eval_episodes", "eval_max_steps")
MOST_OF_FRONT = 10  # trials of a Pareto front that are printed
WORDS = ("sampler", "pruner", "score", "storage")


def tune_parser() -> Parser:
    """The options of the command; the fields of agent and environment are flags too."""
    parser = Parser(
        "tune",
        "AGENT ENV [options] [hyperparameters]",
        "Search for hyperparameters with Optuna. All trials train in one program, each with a few seeds; when one "
        "is complete or pruned, the next begins in its place. Flags of hyperparameters fix their values.",
        EXAMPLES,
        named=_named,
        opens_run=True,
    )
    parser.add_argument("agent", nargs="?", default="", metavar="AGENT", type=full_path, help="a name, file.py:Class")
    parser.add_argument("env", nargs="?", default="", metavar="ENV", type=full_path, help="a name, or file.py:Class")
    what = parser.add_argument_group("what to search")
    what.add_argument(
        "--search",
        action="append",
        metavar="PATH=RANGE",
        help="PATH=LOW..HIGH, PATH=log(LOW,HIGH), PATH=A|B|C, or PATH alone for what it declares; may be repeated. "
        "Default: all hyperparameters of the agent that declare a range. Values of fields that shape the program, such "
        "as hidden=64,64|128,128, need one program each",
    )
    what.add_argument("--space", metavar="FILE", help="a TOML file with ranges and lists: PATH = RANGE in each line")
    what.add_argument("--enqueue", metavar="FILE", help="trials that come first: a JSON list of {PATH: value, ...}")
    what.add_argument("--trials", type=whole_number, metavar="N", help="that are complete or pruned at the end (100)")
    add_run_options(
        what,
        steps="environment steps of each member of a trial",
        seeds="members of each trial (default 4)",
        records="scores of each trial until its end (default 9)",
    )
    what.add_argument(
        "--score", metavar="NAME", help="over the members: mean (default), iqm, min, or q25 for a quantile"
    )
    what.add_argument(
        "--objective",
        action="append",
        metavar="NAME",
        help="return (default), steps_per_second, or return:ENV for the return in another environment; may be "
        "repeated: several have no pruner, and a Pareto front instead of a best trial",
    )
    add_wrap(what)
    how = parser.add_argument_group("how to search")
    how.add_argument("--sampler", metavar="NAME", help="tpe (default), random, qmc, gp, cmaes, nsga2, bohb or grid")
    how.add_argument("--pruner", metavar="NAME", help="hyperband (default), halving, median, percentile or none")
    how.add_argument("--parallel", type=whole_number, metavar="N", help="trials at a time (default 16)")
    how.add_argument(
        "--storage", metavar="URL", help="journal:PATH (default: in the folder), sqlite:PATH, postgresql://..., memory"
    )
    how.add_argument("--worker", default="w0", metavar="NAME", help="of this process, one of several (default w0)")
    how.add_argument(
        "--workers",
        type=whole_number,
        default=1,
        metavar="N",
        help="processes on this machine, or with --ray on a cluster",
    )
    how.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="run the workers as actors on a Ray cluster: HOST:PORT, by default the cluster of this machine",
    )
    how.add_argument("--worker-cpus", type=whole_number, default=1, metavar="N", help="with --ray: of each worker (1)")
    how.add_argument(
        "--worker-gpus",
        type=real_number,
        default=0.0,
        metavar="X",
        help="with --ray: of each worker (0); 0.5 shares one",
    )
    how.add_argument(
        "--grace",
        type=real_number,
        default=120.0,
        metavar="SECONDS",
        help="without a heartbeat, after which a worker counts as dead (default 120)",
    )
    how.add_argument("--yes", action="store_true", help="compile more than 8 programs if the search needs them")
    run = parser.add_argument_group("the runs")
    run.add_argument("--preset", metavar="NAME", help="a variant of the environment's preset, or `none`")
    about = "0: scores are training returns; RECORDS: greedy episodes"
    add_run_options(run, seed="", evaluations=about, eval_episodes="", eval_max_steps="")
    run.add_argument("--name", default="", metavar="NAME", help="of the study and its folder (default AGENT-ENV-study)")
    run.add_argument("--root", default="runs", metavar="DIR", help="parent folder of the folder (default runs)")
    run.add_argument("--resume", metavar="STUDY", help="go on with the study in this folder; --trials N extends it")
    run.add_argument("--devices", type=whole_number, default=0, metavar="N", help="devices to use (default all)")
    run.add_argument("--memory-limit-gb", type=real_number, default=0, metavar="X", help="train in parts that fit")
    run.add_argument(
        "--fresh-seeds",
        type=whole_number,
        metavar="N",
        help="seeds on which the best trial is trained again at the end (default 16; 0: it is not)",
    )
    run.add_argument("--no-figures", action="store_true", help="make no figures")
    run.add_argument("--no-check", action="store_true", help="do not check an environment of your own")
    run.add_argument("--no-progress", action="store_true", help="print only warnings until the end")
    run.add_argument("--no-report", action="store_true", help="print no results at the end")
    add_tracking(parser)
    return parser


def tune(line: Line) -> None:
    """Start or resume a study."""
    from shoal.studies.tune import tune as run

    options = line.options
    common: dict[str, Any] = {
        "worker": options.worker,
        "workers": options.workers,
        "ray": options.ray,
        "worker_cpus": options.worker_cpus,
        "worker_gpus": options.worker_gpus,
        "grace": options.grace,
        "fresh_seeds": options.fresh_seeds,
        "figures": not options.no_figures,
        "trust_source": options.trust_source,
        "progress": not options.no_progress,
        "devices": options.devices,
        "memory_limit_gb": options.memory_limit_gb,
        "track": tracking_in(options),
    }
    chosen = {name: getattr(options, name) for name in (*SIZES, *WORDS)}
    if not options.resume and not (options.agent and options.env):
        what = "an environment too" if options.agent else "an agent and an environment"
        raise ValueError(f"tune needs {what}, as in `shoal tune {options.agent or 'ppo'} CartPole-v1`.")
    for option, path in (("--search", options.search), ("--space", options.space)):
        if options.resume and path:
            raise ValueError(
                f"{option} is for a new study; --resume continues {options.resume} as it is. Leave it out."
            )
    for path in (*line.agent.sweep, *(f"env.{each}" for each in line.env.sweep)):
        flag = f"--{path.replace('_', '-')}"
        raise ValueError(f"{flag} has several values: search it instead, as in --search {path}=A|B.")
    search = None if options.resume else _search(line)
    env = options.env if options.resume or not options.wrap else env_of(line)
    result = run(
        options.agent or None,
        env or None,
        **chosen,
        search=search,
        objectives=options.objective,
        enqueue=_queue(options.enqueue) if options.enqueue else (),
        fields=line.agent.fixed,
        env_fields={} if options.wrap else line.env.fixed,
        preset=None if options.preset == "none" else options.preset or "",
        name=options.name,
        root=options.root,
        resume=options.resume,
        yes=options.yes,
        check=not options.no_check,
        **common,
    )
    if not options.no_report:
        print(report(result))


def _named(options: argparse.Namespace) -> Named:
    """The agent and the environment whose fields are flags."""
    if options.resume or not (options.agent and options.env):
        return {}
    return {"agent": options.agent, "env": wrapped(options.env, options.wrap)}


def _search(line: Line) -> dict[str, Any] | None:
    """The search of `--search` and `--space`, as an argument of `shoal.tune`; None without both."""
    options, read = line.options, _reader(line)
    if not options.search and not options.space:
        return None
    space = read_space_file(options.space, read) if options.space else {}
    return {**space, **read_search(options.search or [], read=read)}


def _reader(line: Line) -> Callable[[str, str], list]:
    """A function that parses the values in a text, for the field that a path names."""
    parser = tune_parser()
    flags: dict[str, Flag] = {}
    for kind, what in line.named.items():
        prefix = "env." if kind == "env" else ""
        flags |= {f"{prefix}{flag.name}": flag for flag in parser.flags(kind, what)}

    def read(path: str, text: str) -> list:
        if path in flags:
            values = read_values(flags[path]._replace(option=f"--search {path}"), text)
            names = flags[path].names
            return [names[value] if names and isinstance(value, int) else value for value in values]
        return [_word(part.strip()) for part in text.split(",")]

    return read


def _word(text: str) -> Any:
    """A number, true or false, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return parse_number(text)
    except (ValueError, OverflowError):
        return text


def read_space_file(path: str, read: Callable[[str, str], list]) -> dict[str, Any]:
    """Read a search space from a TOML file: `PATH = "log(1e-4,1e-1)"`, as after `--search`, or a list of values.

    A table such as [env] stands before its paths. `true` stands for what the field declares.
    """
    try:
        tables = tomllib.loads(Path(path).read_text())
    except (ValueError, RecursionError) as error:  # of the encoding and of numbers with thousands of digits too
        raise ValueError(f"{path} is no TOML file: {error}.") from None
    space: dict[str, Any] = {}
    for name, value in _flat(tables):
        if value is True:
            space[name] = None
        elif isinstance(value, str):
            space |= read_search([f"{name}={value}"], f"{path}:", read=read)
        elif isinstance(value, list):
            space[name] = value
        else:
            raise ValueError(
                f'{path}: {name} = {value} is no range: write "LOW..HIGH", "log(LOW,HIGH)", a list or true.'
            )
    return space


def _flat(tables: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in tables.items():
        path = f"{prefix}{name}"
        pairs += _flat(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return pairs


def _queue(path: str) -> list[dict[str, Any]]:
    try:
        trials = json.loads(Path(path).read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON file: {error}.") from None
    trials = [trials] if isinstance(trials, dict) else trials
    if not isinstance(trials, list) or not all(isinstance(each, dict) for each in trials):
        raise ValueError(f'{path} must hold a list of trials, as in [{{"learning_rate": 1e-3}}].')
    return [
        {path: tuple(value) if isinstance(value, list) else value for path, value in trial.items()} for trial in trials
    ]


def report(result: Any) -> str:
    """How the trials ended, the best one, and what the slots did."""
    summary = result.summary
    lines = ["trials: " + ", ".join(f"{count} {name}" for name, count in summary["trials"].items())]
    if best := summary["best"]:
        values = " ".join(
            f"{path}={value:.4g}" if isinstance(value, float) else f"{path}={value}"
            for path, value in best["values"].items()
        )
        lines.append(f"best: trial {best['number']}, score {best['score']:.4g}, {values}")
    if front := summary.get("pareto_front"):
        from shoal.cli.table import table
        from shoal.studies.objectives import front_in_rows

        head, rows = front_in_rows(front)
        lines += [f"Pareto front: {len(front)} trial{'s' * (len(front) > 1)}", table(head, rows[:MOST_OF_FRONT])]
        if len(front) > MOST_OF_FRONT:
            lines.append(f"(the first {MOST_OF_FRONT}; summary.json has all)")
    for name, worker in summary["workers"].items():
        until_last = worker["busy_until_last"]  # None if all trials began at once
        busy = "" if until_last is None else f"slots busy {until_last:.0%} of the time until the last trial began, "
        lines.append(f"{name}: {worker['seconds']:.0f} s, {busy}{worker['training']:.0%} of the time training")
    return "\n".join([*lines, f"{result.folder}"])
