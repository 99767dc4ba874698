"""`shoal suites`: list the suites, the environments of one, and how long a suite would take on this machine."""

import math
from pathlib import Path
from typing import Any

from shoal.cli.options import add_options, given
from shoal.cli.parser import Line, Parser

HEAD = ("suite", "environments", "time here", "summary")


def suites_parser() -> Parser:
    """The options of the command."""
    parser = Parser("suites", suites, "[SUITE] [options]", opens_run=True)
    parser.add_argument("suite", nargs="?", default="", metavar="SUITE", help="a name, or FILE.toml")
    about = "measure how long it takes here, in short trainings in three of its environments"
    parser.add_argument("--measure", action="store_true", help=about)
    parser.add_argument("--agent", default="ppo", metavar="AGENT", help="the agent that is measured (default ppo)")
    about = "of the measured runs (default: those of the agent's presets, otherwise 500_000)"
    add_options(parser, steps=about, seeds="", preset="")
    return parser


def suites(line: Line) -> None:
    """List the suites, with the time that was measured for them on this machine, or the environments of one. A suite is
    a named set of environments for `shoal train AGENT --suite NAME`.

      shoal suites
      shoal suites minigrid-10
      shoal suites minigrid-10 --measure --agent pqn --steps 500_000 --seeds 6
      shoal suites my_suite.toml
      shoal suites --measure
    """
    from shoal.cli.table import table
    from shoal.studies import suite_time
    from shoal.studies.suite_file import suite_of
    from shoal.studies.suite_file import suites as all_suites

    options = line.options
    how = given(options, "steps", "seeds", "preset")
    if how and not options.measure:
        raise ValueError(f"--{next(iter(how))} is of the runs that are measured: give --measure too.")
    chosen = [options.suite] if options.suite else [*all_suites()]
    found = [suite_of(name, trust_source=options.trust_source) for name in chosen]
    for suite in found if options.measure else []:
        suite_time.keep_time(suite.key, suite_time.suite_time(options.agent, suite, **how))
    times = suite_time.kept_times()
    if options.suite:
        (suite,) = found
        print(f"{suite.name}: {suite.summary}" if suite.summary else suite.name)
        for level in suite.levels:
            print("  " + " ".join([str(level.env), *(f"{name}={value}" for name, value in level.fields.items())]))
    else:
        rows = [[suite.name, len(suite.levels), _time(times.get(suite.key)), suite.summary] for suite in found]
        print(table(HEAD, rows))
    for suite in found:
        if suite.key in times:
            print(_measured(suite.name, times[suite.key]))
    if not times:
        print("no time was measured here yet: --measure trains shortly in three environments of each suite")


def _time(found: Any) -> str:
    from shoal.tracking.text import duration

    return "-" if found is None else duration(found.seconds)


def _measured(name: str, found: Any) -> str:
    """A sentence about the measured time of a suite."""
    from shoal.studies.suite_time import PARTS
    from shoal.tracking.text import duration

    agent, seeds = Path(found.agent).name, f"{found.seeds} seed{'s' * (found.seeds != 1)}"
    parts = (f"{duration(getattr(found, part))} {part}" for part in PARTS[:-1])
    return (
        f"{name}: about {_time(found)} for {agent} with {seeds} in {found.of} environments, one after the other: "
        f"{', '.join(parts)}, {duration(found.rest)} for records, checkpoints, figures and videos; from short "
        f"trainings in {', '.join(found.envs)} on {found.day}"
    )


def print_scores(scores: Any) -> None:
    """Print the scores of a suite: a row for each environment, the normalized scores, and notes."""
    from shoal.cli.table import table

    head = ("environment", "members", "random play", "IQM", "95 % interval", "target", "normalized", "95 % interval")
    rows = [
        [row.env, row.members, row.random, *_cells(row.score), row.target, *_cells(row.normalized)]
        for row in scores.rows
    ]
    print(f"{scores.agent} on {scores.suite}: returns of the last evaluation")
    print(table(head, rows))
    counted = sum(row.normalized is not None for row in scores.rows)
    for name, found in scores.normalized.items():
        value, interval = _cells(found)
        print(f"normalized score ({name}) over {counted} environments: {value:.4g}, 95 % interval {interval}")
    for note in scores.notes:
        print(f"note: {note}")


def _cells(found: Any) -> list[Any]:
    """The value of an estimate and its interval as text; "-" where there is none."""
    if found is None:
        return [None, "-"]
    interval = "-" if math.isnan(found.low) else f"[{found.low:.4g}, {found.high:.4g}]"
    return [float(found.value), interval]
