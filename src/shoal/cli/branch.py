"""`shoal branch`: continue a run from a checkpoint with twins that differ in one value."""

import math
from argparse import Namespace
from typing import Any

from shoal.cli.options import add_options, given
from shoal.cli.parser import Line, Parser, whole_number

COMMON = ("name", "root", "figures", "progress", "devices", "memory_limit_gb", "trust_source")


def branch_parser() -> Parser:
    """The options of the command."""
    parser = Parser("branch", branch, "RUN --at RECORD --vary PATH=VALUES [options]", opens_run=True)
    parser.add_argument("run", metavar="RUN", help="a finished run folder; also a branch")
    at = "the record after which twins leave the run: one that has a checkpoint, 0 for the beginning, or `all`"
    parser.add_argument("--at", required=True, type=_record, metavar="RECORD|all", help=at)
    vary = (
        "values of a hyperparameter, or of env.FIELD: PATH=A|B|C, PATH=LOW..HIGH, PATH=log(LOW,HIGH); may be repeated"
    )
    parser.add_argument("--vary", action="append", default=[], metavar="PATH=VALUES", help=vary)
    about = "values of a range, evenly spaced (default 5)"
    parser.add_argument("--values", type=whole_number, default=5, metavar="N", help=about)
    about = "give every twin N more with other random keys"
    parser.add_argument("--keys", type=whole_number, default=0, metavar="N", help=about)
    add_options(parser, name="name of the run folder (default RUN-at-RECORD)", root="", progress="", devices="")
    add_options(parser, figures="make no figures and no videos", memory_limit_gb="")
    return parser


def branch(line: Line) -> None:
    """Continue a finished run from one of its checkpoints with twins of its members: one without a change, which has
    the bits of the run (on a CPU), and one for each value. All are trained in one program. Prints the effect of each
    value on the rest of the run, with paired intervals, and with --keys how far chance alone spreads the twins of one
    member. Draws the branches.

      shoal branch runs/ppo-CartPole-v1 --at 12 --vary "learning_rate=3e-5|3e-4"
      shoal branch runs/ppo-CartPole-v1 --at 12 --vary env.gravity=5..15 --values 3
      shoal branch runs/ppo-CartPole-v1 --at 12 --keys 16                      what chance alone does from there on
      shoal branch runs/ppo-CartPole-v1 --at all --vary learning_rate=1e-4     when does it matter?
      shoal train ppo CartPole-v1 --seeds 8 --keep-checkpoints 4               more records that a branch can leave
    """
    from shoal.cli.table import table
    from shoal.studies.branches import branch as train_branches

    options = line.options
    vary = _values(options)
    found = train_branches(options.run, options.at, vary, keys=options.keys, **given(options, *COMMON))
    head = ("change", "record", "return", "mean", "difference", "95 % interval", "pairs")
    rows = [
        [e.change, e.record, e.score, e.mean, e.difference, _interval(e.low, e.high), e.pairs] for e in found.effects
    ]
    if rows:
        print(table(head, rows))
    if spreads := found.spreads:
        print("\ntwins of one member without a change, which differ in their random keys only:")
        print(table(("record", "return", "mean", "standard deviation", "twins"), [[*spread] for spread in spreads]))
    same = "have" if found.has_bits_of_run else "do not have"
    print(f"the twins without a change {same} the bits of the run")
    folder = found.results[0].folder
    print(folder.parent if options.at == "all" else folder)


def _record(text: str) -> int | str:
    return text if text == "all" else whole_number(text)


def _values(options: Namespace) -> dict[str, list[Any]]:
    """The values of each path: those in a list, or evenly spaced ones of a range."""
    from shoal.cli.search import parse_word, read_search
    from shoal.core.ranges import Range
    from shoal.training.branching import spaced_values, trunk_of

    if options.values < 1:
        raise ValueError(f"--values {options.values} must be at least 1.")
    spans = read_search(options.vary, "--vary", lambda _, word: [parse_word(word)])
    for path, span in spans.items():
        if span is None:
            raise ValueError(f"--vary {path} has no values: write {path}=A|B or {path}=LOW..HIGH.")
        if span[-1] != "choice" and (fault := Range.of(span).fault()):
            raise ValueError(f"--vary {path}: the range {fault}.")
        if span[-1] == "choice" and (lists := [word for word in span[:-1] if "," in str(word)]):
            raise ValueError(f"--vary {path}: {lists[0]} is no number; write | between values, as in {path}=0.1|0.2.")
    found: dict[str, list[Any]] = {path: [*span[:-1]] for path, span in spans.items() if span[-1] == "choice"}
    if len(found) < len(spans):
        trunk = trunk_of(options.run, trust_source=options.trust_source)
        found |= {path: spaced_values(trunk, path, spans[path], options.values) for path in spans if path not in found}
    return {path: found[path] for path in spans}


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"[{low:.4g}, {high:.4g}]"
