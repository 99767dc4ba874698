"""`shoal bsuite`: score an agent on bsuite's experiments."""

import argparse
import sys
from typing import Any

from shoal.cli.options import add_agent, add_options, given
from shoal.cli.parser import Line, Named, Parser, real_number
from shoal.cli.tracking import add_tracking, tracking_in

MAY_CHANGE = ("resume", "figures", "dry_run", "no_cache", "debug", "track", "trust_source")  # beside --resume


def bsuite_parser() -> Parser:
    """The options of the command; the fields of the agent are flags too."""
    usage = "AGENT [options] [hyperparameters]"
    parser = Parser("bsuite", bsuite, usage, named=_named, without=("num_envs",), opens_run=True)
    add_agent(parser)
    parser.add_argument(
        "--experiments",
        default="",
        metavar="NAME,...",
        help="experiments or tags (default: all). Without MNIST's files its experiments are left out unless named",
    )
    parser.add_argument(
        "--episodes-scale",
        type=real_number,
        default=1.0,
        metavar="X",
        help="fraction of bsuite's episodes to play (default 1); below 1 the scores are not final",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="4 settings of each experiment, 5 %% of the episodes: a test run, whose scores must not be published",
    )
    add_options(parser, seed="", name="name of the run folder (default bsuite-AGENT)", root="", resume="")
    about = "print programs, episodes and steps; compile nothing"
    add_options(parser, figures="make no radar figure", dry_run=about)
    add_tracking(parser)
    return parser


def bsuite(line: Line) -> None:
    """Score an agent on bsuite (Osband et al. 2020). Each member has one environment, as in bsuite, and plays at least
    as many episodes as bsuite requires. Settings of an experiment that differ only in constants are trained in one
    program.

      shoal bsuite ppo --quick
      shoal bsuite ppo --experiments catch,bandit,memory_len
      shoal bsuite ppo --experiments noise --episodes-scale 0.1 --learning-rate 1e-3
      shoal bsuite ppo --dry-run
      shoal bsuite --resume runs/bsuite-ppo
    """
    from shoal.studies import bsuite as study
    from shoal.tracking.progress import PlainLines

    options, asked = line.options, tracking_in(line.options)
    if swept := list(line.agent.sweep):
        raise ValueError(f"{swept[0]} has several values: bsuite scores one agent at a time. Give one value.")
    if options.resume is not None:
        _check_alone(line)
        planned = study.plan_resumed(options.resume, trust_source=options.trust_source)
    elif not options.agent:
        raise ValueError("bsuite needs an agent, as in `shoal bsuite ppo --quick`.")
    else:
        planned = study.plan_bsuite(
            options.agent,
            [word.strip() for word in options.experiments.split(",") if word.strip()],
            episodes_scale=options.episodes_scale,
            quick=options.quick,
            fields=line.agent.fixed,
            **given(options, "seed"),
        )
    if options.dry_run:
        print(_plan_table(planned.programs))
        return
    result = study.run_bsuite(
        planned,
        **given(options, "name", "root", "resume", "figures"),
        sinks=[PlainLines(sys.stdout)],
        track=asked,
    )
    _show(result)


def _named(options: argparse.Namespace) -> Named:
    return {} if options.resume else {"agent": options.agent}


def _check_alone(line: Line) -> None:
    """Raise ValueError if options beside `--resume` would change the run."""
    usual = vars(bsuite_parser().start([]).options)
    also = [name for name, value in vars(line.options).items() if value != usual[name] and name not in MAY_CHANGE]
    if also:
        raise ValueError(
            "--resume continues a run as it was started: leave other options out, as in `shoal bsuite --resume RUN`."
        )


def _show(result: Any) -> None:
    from shoal.cli.table import table

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
        for name, row in result.experiments.items()
    ]
    print(f"\n{table(head, rows)}\n")
    print(table(("tag", "score"), [[tag, value] for tag, value in result.tags.items()]))
    print(f"\n{result.seconds:.0f} s; {result.folder / 'scores.json'}")
    if result.figure is not None:
        print(result.figure)


def _plan_table(programs: list[Any]) -> str:
    from shoal.cli.table import table

    rows = [
        [program.label, len(program.indices), program.logbook.episodes, program.steps * len(program.indices)]
        for program in programs
    ]
    total = sum(row[-1] for row in rows)
    head = ("program", "members", "episodes", "total steps")
    count = f"{len(programs)} program{'s' * (len(programs) > 1)}"
    return f"{table(head, rows)}\n\n{count}, {total:,} steps in all; nothing was compiled."
