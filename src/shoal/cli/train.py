"""`shoal train`: train agents and write run folders, as the command line describes."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

from shoal.cli.options import add_agent, add_env, add_options, given
from shoal.cli.parser import FieldValues, Line, Named, Parser, full_path, whole_number
from shoal.cli.search import read_search
from shoal.cli.tracking import add_tracking, tracking_in
from shoal.cli.wraps import add_wrap, wrapped, wrapper_names
from shoal.specs.options import GIVEN, HOW, OUT, WHAT

# Options of new runs, which --spec and --resume have already.
WHOLE = ("suite", "skip_unfit", "preset", "random", "search", "selector", "found", "wrap")
PLACED = ("devices", "memory_limit_gb")
OF_SPEC = (*GIVEN, "random", "init", "found")
MOST_THREADS = 1024
FIELDS = "`shoal train AGENT ENV --help` also lists every hyperparameter and every field of the environment."


def train_parser() -> Parser:
    """The options of the command; the fields of agent and environment are flags too."""
    return _parser("train", train)


def describe_parser() -> Parser:
    """The options of `shoal describe`: those of `shoal train`."""
    return _parser("describe", describe)


def _parser(command: str, run: Callable) -> Parser:
    names = fill(", ".join(wrapper_names()), 100, initial_indent="  ", subsequent_indent="  ")
    more = f"{FIELDS}\n\nWrappers:\n{names}"
    usage = "AGENT ENV [options] [hyperparameters]"
    parser = Parser(command, run, usage, named=_named, opens_run=True, more=more)
    add_agent(parser)
    add_env(parser)
    what = parser.add_argument_group("what to run")
    about = "a variant of the environment's preset, `none`, or FILE.toml, as `shoal export-config` writes it"
    add_options(what, WHAT, preset=about, found="", dry_run="")
    add_wrap(what)
    add_options(what, suite="", skip_unfit="")
    about = "train N settings, sampled from the search ranges"
    what.add_argument("--random", type=whole_number, metavar="N", help=about)
    what.add_argument(
        "--search",
        action="append",
        metavar="PATH=RANGE",
        help="what --random samples, instead of all hyperparameters that declare a search range: PATH=LOW..HIGH, "
        "PATH=log(LOW,HIGH), PATH=near1(LOW,HIGH), PATH=A|B|C, or PATH alone for its declared range; may be repeated",
    )
    what.add_argument(
        "--selector",
        metavar="NAME",
        type=full_path,
        help="copy, replace or stop members while they train: pbt, halving, random, or file.py:Class; its fields are "
        "flags such as --selector.quantile (`shoal selectors pbt`)",
    )
    what.add_argument("--init", metavar="RUN", help="start from the best policy of a run, or of zoo:AGENT/ENV")
    what.add_argument("--spec", metavar="FILE", help="repeat the run that a spec.json or a run folder describes")
    add_options(what, resume="continue the run in this folder, bit for bit; --steps N extends it")
    out = parser.add_argument_group("what to write")
    add_options(out, OUT, name="", root="", figures="make no figures and no videos", progress="")
    add_tracking(parser)
    how = parser.add_argument_group("how to run it")
    add_options(how, HOW, check="", devices="", distributed="", memory_limit_gb="")
    how.add_argument("--threads", type=whole_number, metavar="N", help="size of XLA's thread pool on CPU")
    return parser


def train(line: Line) -> None:
    """Train a population: --seeds members for every combination of swept values, in one program. A comma-separated list
    for a hyperparameter is a sweep; for a static field, such as num_envs, it makes one run for each value.

      shoal train ppo CartPole-v1
      shoal train ppo CartPole-v1 --steps 500_000 --seeds 64 --learning-rate 1e-4,3e-4   one program, 128 members
      shoal train ppo CartPole-v1 --num-envs 4,8 --hidden 128,128                       one run folder for each value
      shoal train ppo CartPole-v1 --env.gravity 5,10,15 --seeds 8                       a sweep over environments
      shoal train my_agent.py:MyAgent my_env.py:MyEnv --dry-run                         your classes; sizes and memory
      shoal train ppo CartPole-v1 --wrap FrameStack:n=4 --wrap TimeLimit:max_steps=100 --env.env.env.gravity 9,10
      shoal train ppo CartPole-v1 --random 64 --search "learning_rate=log(1e-4,1e-1)" --search env.gravity=5..15
      shoal train ppo CartPole-v1 --seeds 16 --selector pbt --selector.vary learning_rate,entropy_coef
      shoal train ppo --suite classic --seeds 16                      a run for each environment, one normalized score
      shoal train ppo CartPole-v1 --preset best.toml --seeds 16       hyperparameters from a file
      shoal train --resume runs/ppo-CartPole-v1
    """
    options = line.options
    tracking_in(options)  # raises for mistakes
    if options.threads is not None and not 1 <= options.threads <= MOST_THREADS:
        raise ValueError(
            f"--threads {options.threads} must be from 1 to {MOST_THREADS}; without it there is one thread per core."
        )
    if options.resume:
        _resume(line)
        return
    if options.spec:
        _repeat(line)
        return
    if not (line.named.get("agent") and (line.named.get("env") or options.suite)):
        what = "an environment too" if options.agent else "an agent and an environment"
        example = f"shoal train {options.agent or 'ppo'} CartPole-v1"
        raise ValueError(f"train needs {what}, as in `{example}`.")
    if options.env and options.suite:
        raise ValueError(f"give an environment ({options.env}) or --suite {options.suite}, not both.")
    if options.skip_unfit and not options.suite:
        raise ValueError("--skip-unfit is for --suite NAME: it leaves out environments in which the agent cannot act.")
    if options.suite:
        _train_suite(line)
    else:
        _train(line)


def describe(line: Line) -> None:
    """Describe what `shoal train` would do with the same line: sizes, memory, schedule, and the layers of the network.
    It compiles and writes nothing.

      shoal describe ppo CartPole-v1
      shoal describe sac Pendulum-v1 --hidden 64,64 --seeds 128
    """
    line.options.dry_run = True
    train(line)


def _named(options: argparse.Namespace) -> Named:
    """The agent and the environment whose fields are flags: those of the resumed run, or those named on the line."""
    agent, env = options.agent, options.env
    if options.spec and not options.resume:
        return {}  # the spec sets every field
    if options.resume:
        from shoal.specs.spec import template
        from shoal.training.folder import RunFolder
        from shoal.training.jobs import spec_to_resume
        from shoal.training.suite_folder import is_suite

        if is_suite(options.resume):
            return {}  # the suite sets every field
        made = template(spec_to_resume(RunFolder(options.resume), trust_source=options.trust_source))
        return {"agent": agent or made.agent, "env": env or made.env}
    _check_names(agent, env)
    if options.preset and not (agent and (env or options.suite)):
        agent, env = _of_preset(options)
    env = wrapped(env, options.wrap) if env and isinstance(env, str) else env
    return {"agent": agent, "env": env, "selector": options.selector or ""}


def _of_preset(options: argparse.Namespace) -> tuple[str, Any]:
    """The agent and the environment of a line that leaves one of them to a preset file; empty texts without one."""
    from shoal.studies.suite_file import suite_of
    from shoal.training.preset_file import is_file, preset_for

    if not is_file(options.preset):
        return options.agent, options.env
    env = options.env
    if options.suite:
        env = suite_of(options.suite, trust_source=options.trust_source).levels[0].env
    chosen = preset_for(options.preset, options.agent, env, trust_source=options.trust_source)
    if options.wrap and not isinstance(chosen.env, str):
        raise ValueError(f"--wrap is for an environment that the line names; that of {options.preset} has wrappers.")
    return chosen.agent, "" if options.suite else chosen.env  # type: ignore[return-value]  # a file names its agent


def _check_names(agent: str, env: str) -> None:
    """Raise ValueError where several names are given as one, or an environment stands where the agent belongs."""
    from shoal.core.registry import AGENTS, ENVS

    for kind, name in (("agent", agent), ("environment", env)):
        if len(parts := re.split(r"[ ,+]+", name.strip())) > 1 and ":" not in name:
            known = [part in (AGENTS if kind == "agent" else ENVS) for part in parts]
            if " " in name.strip() and known[0]:
                raise ValueError(f"{name!r} is one word in quotes: write `shoal train {name}` without them.")
            if all(known):
                raise ValueError(f"train takes one {kind} at a time, not {name}: run it once for each.")
    if ":" not in agent and agent in ENVS and agent not in AGENTS:
        raise ValueError(f"{agent} is an environment; the agent comes first: `shoal train {env or 'ppo'} {agent}`.")


def _train(line: Line) -> None:
    from shoal.studies.sweeps import plan_all

    _run(line.options, plan_all(line.named["agent"], line.named["env"], **_arguments(line)))


def _arguments(line: Line) -> dict[str, Any]:
    """The arguments of `plan_all` and `plan_suite` that a line gives."""
    return {
        **given(line.options, "preset", "check", "trust_source", *PLACED, *OF_SPEC),
        **_fields("", line.agent),
        **_fields("env_", line.env),
        **_search(line),
        **_selector(line),
    }


def _train_suite(line: Line) -> None:
    from shoal.studies.suite_file import suite_of
    from shoal.studies.suites import SuiteRun, check_free, plan_suite
    from shoal.training.folder import RunFolder, named
    from shoal.training.processes import group

    options = line.options
    root = Path(options.root or "runs")
    if options.name and not group().number:
        check_free(RunFolder(named(root, options.name)))  # also in a dry run
    suite = suite_of(options.suite, trust_source=options.trust_source)
    if options.wrap:
        suite = suite.wrapped(lambda env: wrapped(env, options.wrap))
    how = given(options, "skip_unfit")
    planned = plan_suite(line.named["agent"], suite, **how, **_arguments(line))  # type: ignore[arg-type]  # by name
    if options.dry_run:
        _describe_suite(planned, root)
        return
    _run_suite(options, SuiteRun(planned, **given(options, "name", "root"), **_how(options)))


def _describe_suite(planned: Any, root: Path) -> None:
    """Print what a suite would train: its notes, programs, and a paragraph for every run."""
    from shoal.studies.description import describe
    from shoal.training.program_store import count_programs

    plans = [task.plan for task in planned.tasks]
    for env, reason in planned.left_out.items():
        print(f"note: {env} is left out: {reason}")
    print(describe(plans, root))
    needs = "needs" if len(plans) == 1 else "need"
    print(f"\n{_count(len(plans), 'run')} {needs} {_count(count_programs(plans), 'set')} of compiled programs")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _run_suite(options: argparse.Namespace, run: Any) -> None:
    """Train a suite, print a table of its scores, and write its page."""
    from shoal.cli.suites import print_scores
    from shoal.reports.report import report as write_report
    from shoal.training.processes import group
    from shoal.training.suite_scores import suite_scores

    for result in run.train():
        if not group().number:
            print(report(result))
    if group().number:
        return
    print()
    print_scores(suite_scores(run.folder.path))
    print(f"{_count(len(run.planned.tasks), 'run')}, {_count(run.programs, 'set')} of programs compiled")
    if options.figures is None:
        print(write_report(run.folder.path, trust_source=options.trust_source))
    print(run.folder.path)


def _selector(line: Line) -> dict[str, Any]:
    """The selector of `--selector` with its fields, as an argument of `plan_all`; empty without one."""
    from shoal.core.registry import SELECTORS

    name = line.options.selector
    return {"selector": SELECTORS[name].build(**line.selector.fixed)} if name else {}


def _search(line: Line) -> dict[str, Any]:
    """The ranges given with `--search`, as an argument of `plan_all`; empty without `--search`."""
    from shoal.specs.settings import join

    options = line.options
    if not options.search:
        return {}
    if options.random is None:
        raise ValueError("--search sets what --random samples: give --random N too.")
    ranges = read_search(options.search)
    for path in join({**line.agent.fixed, **line.agent.sweep}, {**line.env.fixed, **line.env.sweep}):
        if path in ranges:
            raise ValueError(f"{path} is given with --search and with a flag of its own: leave one of them out.")
    return {"search": ranges}


def _repeat(line: Line) -> None:
    """Repeat the run that `--spec` describes, with the steps, seeds and records of the command line if given."""
    from shoal.studies.sweeps import Batch, Task
    from shoal.training.jobs import job_from_spec
    from shoal.training.own_code import check_user_env

    options = line.options
    for name in ("agent", "env", *WHOLE):
        if getattr(options, name):
            what = getattr(options, name) if name in ("agent", "env") else f"--{name}"
            raise ValueError(f"--spec {options.spec} describes the whole run: leave {what} out.")
    job = job_from_spec(options.spec, trust_source=options.trust_source, **given(options, *OF_SPEC))
    if options.check is None:
        check_user_env(job.first.env)
    plan = job.plan(**given(options, *PLACED))
    _run(options, Batch([Task("", job, plan)], job.spec.default_name))


def _run(options: argparse.Namespace, batch: Any) -> None:
    from shoal.cli.table import table
    from shoal.studies.description import describe, layer_rows
    from shoal.training.folder import RunFolder, named
    from shoal.training.processes import group

    root = Path(options.root or "runs")
    if options.name and not group().number:
        batch.folders(RunFolder(named(root, options.name)))  # raises if a folder exists already, also in a dry run
    if options.dry_run:
        notes = [f"note: {note}" for task in batch.tasks for note in task.job.notes]
        print("\n".join([*notes, describe(batch.plans, root)]))
        if len(batch.plans) == 1:
            print(f"\n{table(('layer', 'arrays', 'numbers'), layer_rows(batch.plans[0]))}")
        return
    results = []
    for result in batch.train(**given(options, "name", "root"), **_how(options)):
        if not group().number:
            print(report(result))
            results.append(result)
    if len(results) > 1:
        _print_table([task.label for task in batch.tasks], results)


def _resume(line: Line) -> None:
    from shoal.studies.description import describe
    from shoal.studies.runs import train as run
    from shoal.training.jobs import job_to_resume
    from shoal.training.processes import group
    from shoal.training.suite_folder import is_suite

    options = line.options
    for name in ("name", "root", "init", "spec", *WHOLE):
        if getattr(options, name):
            raise ValueError(f"--{name} is for a new run; --resume continues {options.resume} as it is. Leave it out.")
    changes = {**given(options, *GIVEN), **_fields("", line.agent), **_fields("env_", line.env)}
    changes = {name: value for name, value in changes.items() if value != {}}
    if is_suite(options.resume):
        _resume_suite(options, changes)
        return
    names = (options.agent or None, options.env or None)
    if options.dry_run:
        job = job_to_resume(options.resume, *names, changes, trust_source=options.trust_source)
        print(describe([job.plan(**given(options, *PLACED), resume=True)], Path(options.resume).parent))
        return
    where = given(options, "resume", "figures", "trust_source", *PLACED)
    how = {"cache": not options.no_cache, "progress": options.progress is None, "track": tracking_in(options)}
    result = run(*names, **how, **where, **changes)
    if not group().number:
        print(report(result))


def _resume_suite(options: argparse.Namespace, changes: dict[str, Any]) -> None:
    """Continue the runs of a suite that are not finished. Raises ValueError for options that would change them."""
    from shoal.studies.suites import SuiteRun, plan_resumed

    for name in [*(kind for kind in ("agent", "env") if getattr(options, kind)), *changes]:
        what = getattr(options, name) if name in ("agent", "env") else f"--{name.replace('_', '-')}"
        raise ValueError(f"{options.resume} is a suite, which --resume continues as it is: leave {what} out.")
    planned = plan_resumed(options.resume, trust_source=options.trust_source, **given(options, *PLACED))
    if options.dry_run:
        _describe_suite(planned, Path(options.resume).parent)
        return
    _run_suite(options, SuiteRun(planned, resume=options.resume, **_how(options)))


def _fields(prefix: str, values: FieldValues) -> dict[str, Any]:
    return {f"{prefix}fields": values.fixed, f"{prefix}sweep": values.sweep}


def _how(options: argparse.Namespace) -> dict[str, Any]:
    from shoal.tracking.progress import shown

    return {**given(options, "figures"), "sinks": [shown(options.progress is None)], "track": tracking_in(options)}


def report(result: Any) -> str:
    """The results of a run as text: a table with a row for each setting, the times, and the path of the folder."""
    from shoal.cli.table import SCORE_HEAD, cut_off, score_cells, setting_words, table

    summary = result.summary
    rows = [[setting_words(s["setting"]), *score_cells(s)] for s in summary["settings"]]
    what, scores = "return of greedy actions with the last weights", table(("setting", *SCORE_HEAD), rows)
    if best := summary.get("best_members"):  # their settings differ, so a mean over all of them would describe none
        what, scores = (
            f"best of {summary['members']} members, return of greedy actions with the last weights",
            _table_of_members(best),
        )
    if not summary["last"]["members"] and not result.spec.evaluations:
        what, scores = "no evaluation was asked for (--evaluations 0)", f"`shoal eval {result.folder}` makes one"
    else:
        what += f" over {summary['episodes_per_evaluation']} evaluation episodes"
    dead = sum(not member["alive"] for member in summary["per_member"])
    episodes = summary["episodes_per_evaluation"]
    lines = [
        what,
        scores,
        f"{summary['steps_per_second']:,.0f} steps/s; {summary['total_seconds']:.1f} s in total: "
        f"{summary['compile_seconds']:.1f} compiling, {summary['train_seconds']:.1f} training, "
        f"{summary['eval_seconds']:.1f} evaluating, {summary['other_seconds']:.1f} for the rest (set-up, records, "
        f"checkpoints)",
    ]
    if cut := summary["evaluation_episodes_cut_off"]:
        limit = summary["longest_evaluation_episode"]
        lines.append(cut_off(cut, summary["last"]["members"] * episodes, limit, "--eval-max-steps"))
    if dead:
        lines.append(f"{dead} member{'s' * (dead > 1)} stopped early: a loss or a weight became infinite or NaN")
    return "\n".join([*lines, f"{result.folder}"])


def _table_of_members(best: list[dict[str, Any]]) -> str:
    """The best members of a run with a selector, a row for each."""
    from shoal.cli.table import table

    paths = [*best[0]["hyperparameters"]]
    rows = [
        [row["member"], row["score"], len(row["lineage"]) - 1, *(row["hyperparameters"][path] for path in paths)]
        for row in best
    ]
    return table(("member", "return", "ancestors", *paths), rows)


def _print_table(labels: list[str], results: list[Any]) -> None:
    from shoal.cli.table import SCORE_HEAD, score_cells, setting_words, table

    rows = [
        [
            label,
            setting_words(s["setting"]),
            result.summary["steps_per_member"],
            *score_cells(s),
            round(result.summary["total_seconds"]),
        ]
        for label, result in zip(labels, results, strict=True)
        for s in result.summary["settings"]
    ]
    print()
    print(table(("run", "setting", "steps", *SCORE_HEAD, "seconds"), rows))
