"""`shoal tune`: search for hyperparameters with Optuna; trials fill the slots of compiled programs."""

import argparse
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.cli.numbers import parse_word
from shoal.cli.options import DECLARED, add_agent, add_env, add_options, given
from shoal.cli.parser import Flag, Line, Named, Parser, read_values
from shoal.cli.search import read_search
from shoal.cli.tracking import add_tracking, tracking_in
from shoal.cli.wraps import add_wrap, env_of, wrapped
from shoal.specs.options import SAMPLING, SEARCH

MOST_OF_FRONT = 10  # trials of a Pareto front that are printed


def tune_parser() -> Parser:
    """The options of the command; the fields of agent and environment are flags too."""
    parser = Parser("tune", tune, "AGENT ENV [options] [hyperparameters]", named=_named, opens_run=True)
    add_agent(parser)
    add_env(parser)
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
    add_options(
        what,
        SEARCH,
        steps="environment steps of each member of a trial",
        seeds="members of each trial (default 4)",
        records="scores of each trial until its end (default 9)",
    )
    what.add_argument(
        "--objective",
        dest="objectives",
        action="append",
        metavar="NAME",
        help="return (default), steps_per_second, or return:ENV for the return in another environment; may be "
        "repeated: several have no pruner, and a Pareto front instead of a best trial",
    )
    add_options(what, dry_run="print what would be searched, sizes and memory; compile and write nothing")
    add_wrap(what)
    how = parser.add_argument_group("how to search")
    add_options(how, SAMPLING, worker="", workers="", worker_cpus="", worker_gpus="", grace="", yes="")
    how.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="run the workers as actors on a Ray cluster: HOST:PORT, by default the cluster of this machine",
    )
    run = parser.add_argument_group("the runs")
    about = "0: scores are training returns; RECORDS: greedy episodes"
    add_options(run, seed="", evaluations=about, eval_episodes="", eval_max_steps="", fresh_seeds="", importance="")
    about = "go on with the study in this folder; --trials N extends it"
    name = "of the study and its folder (default AGENT-ENV-study)"
    add_options(run, preset="", name=name, root="", resume=about, devices="", memory_limit_gb="")
    add_options(run, figures="", check="", progress="")
    run.add_argument("--no-report", action="store_true", help="print no results at the end")
    add_tracking(parser)
    return parser


def tune(line: Line) -> None:
    """Search for hyperparameters with Optuna. All trials train in one program, each with a few seeds; when one is
    complete or pruned, the next begins in its place. Flags of hyperparameters fix their values.

      shoal tune ppo CartPole-v1 --steps 100_000                   all hyperparameters that declare a range
      shoal tune ppo CartPole-v1 --trials 200 --parallel 64 --sampler tpe --pruner hyperband --name mine
      shoal tune dqn Doors-v0 --search "learning_rate=log(1e-4,1e-1)" --search env.max_steps=10..17
      shoal tune ppo CartPole-v1 --search learning_rate --search "hidden=64,64|128,128" --search "optimizer=adam|sgd"
      shoal tune ppo CartPole-v1 --space space.toml --enqueue first.json --score q25 --seeds 8
      shoal tune ppo CartPole-v1 --search hidden --objective return --objective steps_per_second
      shoal tune ppo CartPole-v1 --records 16 --pruner "hyperband(min_resource=2, eta=4)" --dry-run
      shoal tune --resume runs/mine --trials 400                   go on, with 200 more trials
    """
    from shoal.studies.tune import tune as run

    options = line.options
    if not options.resume and not (options.agent and options.env):
        what = "an environment too" if options.agent else "an agent and an environment"
        raise ValueError(f"tune needs {what}, as in `shoal tune {options.agent or 'ppo'} CartPole-v1`.")
    for option, path in (("--search", options.search), ("--space", options.space)):
        if options.resume and path:
            raise ValueError(
                f"{option} is for a new study; --resume continues {options.resume} as it is. Leave it out."
            )
    for path in (*line.agent.sweep, *(f"env.{path}" for path in line.env.sweep)):
        flag = f"--{path.replace('_', '-')}"
        raise ValueError(f"{flag} has several values: search it instead, as in --search {path}=A|B.")
    env = options.env if options.resume or not options.wrap else env_of(line)
    arguments = {
        "agent": options.agent or None,
        "env": env or None,
        "search": None if options.resume else _search(line),
        "enqueue": _queue(options.enqueue) if options.enqueue else (),
        "fields": line.agent.fixed,
        "env_fields": {} if options.wrap else line.env.fixed,
        "track": tracking_in(options),
        **given(options, *DECLARED, "ray", "trust_source"),
    }
    if arguments.pop("dry_run", False):
        _describe(arguments)
        return
    result = run(**arguments)
    if not options.no_report:
        print(report(result))


def _describe(arguments: Mapping[str, Any]) -> None:
    """Print what a study with these arguments of `shoal.tune` would train."""
    from shoal.studies.description import describe_study
    from shoal.studies.planned import OF_WORKERS, PLANNED, plan_study, plan_workers

    workers = plan_workers(**{name: value for name, value in arguments.items() if name in OF_WORKERS})
    planned = plan_study(**{name: value for name, value in arguments.items() if name in PLANNED})
    print(describe_study(planned, len(workers), arguments.get("ray")))


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
        return [parse_word(part.strip()) for part in text.split(",")]

    return read


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
    if not isinstance(trials, list) or not all(isinstance(trial, dict) for trial in trials):
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
