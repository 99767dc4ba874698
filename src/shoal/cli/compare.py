"""`shoal compare`: compare runs, or groups of runs, in one environment or in many."""

import itertools
import math
from typing import Any

from shoal.cli.parser import Line, Parser, file_ending_in, real_number


def compare_parser() -> Parser:
    """The options of `shoal compare`."""
    parser = Parser("compare", compare_runs, "RUN... [options]")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders")
    about = "the last evaluation (default), the best one, or the mean return of the whole training"
    parser.add_argument("--metric", default="last", choices=("last", "best", "whole"), help=about)
    add_grouping(parser)
    add_figure_options(parser)
    about = "write a table for a paper: .tex (booktabs), .md or .csv"
    parser.add_argument("--table", type=file_ending_in(".tex", ".md", ".csv"), metavar="FILE", help=about)
    return parser


def add_grouping(parser: Parser) -> None:
    """Add the options that say what is compared, and by which scores."""
    about = "compare by `agent` or by a hyperparameter (default: every run, or by agent in several environments)"
    parser.add_argument("--group", default="", metavar="NAME", help=about)
    about = "a name for some runs, which are then compared as one; can be repeated"
    parser.add_argument("--label", action="append", default=[], metavar="NAME=RUN,RUN", help=about)
    about = "a TOML file with the scores that are normalized to 0 and 1, or `range` for those of the runs"
    parser.add_argument("--reference", default="", metavar="FILE", help=about)


def grouping(options: Any) -> dict[str, Any]:
    """The arguments of `shoal.compare` that `add_grouping` has read. Raises ValueError for a label without a name."""
    labels: dict[str, list[str]] = {}
    for text in options.label:
        name, sign, runs = text.partition("=")
        if not sign or not name:
            raise ValueError(f"--label {text} has no name: write --label NAME=RUN,RUN.")
        labels.setdefault(name, []).extend(filter(None, runs.split(",")))
    return {"group": options.group, "label": labels, "reference": options.reference}


def add_figure_options(parser: Parser) -> None:
    """Add the options of a figure for a paper."""
    about = "draw a figure: .pdf, .svg or .png"
    parser.add_argument("--out", type=file_ending_in(".png", ".svg", ".pdf"), metavar="FILE", help=about)
    about = "what the figure shows: aggregates, profile, efficiency, improvement, curves (default: all)"
    parser.add_argument("--show", default="", metavar="PART,PART", help=about)
    about = "of the figure in inches (default 7.6); the text of a page of NeurIPS is 5.5 inches wide"
    parser.add_argument("--width", type=real_number, metavar="INCHES", help=about)
    about = "names of the groups in figure and table, in the order in which they are printed"
    parser.add_argument("--labels", default="", metavar="NAME,NAME", help=about)
    parser.add_argument("--title", default="", metavar="TEXT", help="above the figure")
    parser.add_argument("--legend", default="", choices=("below", "above", "none"), help="default: below")
    about = "sans (default), latex (Computer Modern), times, or an installed family; no TeX is needed"
    parser.add_argument("--font", default="", metavar="NAME", help=about)


def _figure_options(options: Any) -> dict[str, Any]:
    """The arguments of `shoal.plot_comparison`. Raises ValueError for one that has no figure."""
    given = {"width": options.width, "title": options.title, "legend": options.legend, "font": options.font}
    given |= {"show": options.show.split(",") if options.show else None}
    chosen = {name: value for name, value in given.items() if value not in (None, "")}
    if chosen and not options.out:
        raise ValueError(f"--{next(iter(chosen))} is for a figure: give --out FILE too.")
    return chosen


def compare_runs(line: Line) -> None:
    """Compare the returns of two runs: the difference of means with a paired bootstrap interval, over the settings and
    seeds that both have, and the probability that a member of A is better than a member of B. More runs are compared
    over all their environments, in groups, by normalized scores. --out draws a figure, and --table writes a table, for
    a paper.

      shoal compare runs/a runs/b
      shoal compare runs/* --group agent --out figure.pdf --table results.tex
      shoal compare --label ours=runs/a,runs/b --label theirs=runs/c,runs/d
      shoal compare runs/sweep-CartPole runs/sweep-Acrobot --group learning-rate
    """
    from shoal.cli.table import table
    from shoal.ops.aggregates import AGGREGATES
    from shoal.training.compare import compare, letters
    from shoal.training.folder import few

    options = line.options
    figure = _figure_options(options)
    labels = options.labels.split(",") if options.labels else []
    if labels and not (options.out or options.table):
        raise ValueError("--labels is for a figure or a table: give --out FILE or --table FILE too.")
    found = compare(*options.runs, metric=options.metric, **grouping(options))
    groups = range(len(found.groups))
    names = letters(len(groups)) if found.are_runs else [group.name for group in found.groups]
    seeds = [" ".join(dict.fromkeys(str(len(cell.names)) for cell in group.cells)) for group in found.groups]
    if found.is_of_one and not options.reference:  # which is about normalized scores
        rows = []
        for g, group in enumerate(found.groups):
            score = found.returns(g, 0)
            runs = [few(group.runs, 1), int(seeds[g])]
            rows.append([names[g], *runs, float(score.value), _interval(score)])
        print(table(("", "run", "members", "mean", "95 % interval"), rows))
    else:
        rows = [[names[g], seeds[g], *(_in_words(found.aggregates[g][name]) for name in AGGREGATES)] for g in groups]
        print(f"normalized scores{'' if found.is_of_one else ' over all environments'}, with 95 % intervals")
        print(table(("", "members", *AGGREGATES), rows))
        rows = [
            [env.name, *(_in_words(found.returns(g, e, "IQM")) for g in groups)]
            for e, env in enumerate(found.environments)
        ]
        print("\nreturns: interquartile mean over members, with 95 % intervals")
        print(table(("environment", *names), rows))
        print()
        for env in found.environments:
            print(f"{env.name}: 0 and 1 are {env.reference.about}")
    if len(names) == 2:
        _print_two(found, names)
    elif len(names) > 2:
        _print_pairs(found, names)
    for name, group in zip(names, found.groups, strict=True):
        if group.dropped:
            print(f"{group.dropped} member{'s' * (group.dropped > 1)} of {name} left out: no finite score")
    for note in found.notes:
        print(f"note: {note}")
    if options.out:
        from shoal.viz.comparison import plot_comparison

        print(plot_comparison(found, options.out, labels=labels, **figure))
    if options.table:
        from shoal.reports.results_table import comparison_table

        print(comparison_table(found, options.table, labels=labels))


def _print_two(found: Any, names: list[str]) -> None:
    """Print how one group compares to the other, in sentences."""
    from shoal.ops.statistics import FEWEST

    a, b = names
    against = found.against(0, 1)
    if against.difference:
        value, low, high = against.difference
        verdict = f"{a} is better" if low > 0 else f"{b} is better" if high < 0 else "no clear difference"
        interval = f", 95 % interval {_interval(against.difference)}"
        if against.pairs < FEWEST:
            verdict, interval = f"too few pairs to decide: an interval needs {FEWEST}", ""
        pairs = f"{against.pairs} pair{'s' * (against.pairs != 1)}"
        pairs = pairs if found.is_of_one else f"at least {pairs} in each environment"
        print(f"{a} - {b} = {value:.4g}{interval} over {pairs} of the same setting and seed: {verdict}")
    else:
        print("the runs have no setting and seed in common, so there are no pairs to compare")
    chance = against.probability
    interval = "" if math.isnan(chance.low) else f", 95 % interval {_interval(chance)}"
    print(f"probability that a member of {a} beats one of {b}: {chance.value:.3f}{interval}")


def _print_pairs(found: Any, names: list[str]) -> None:
    """Print a table with a row for each pair of groups."""
    from shoal.cli.table import table

    rows = []
    for a, b in itertools.combinations(range(len(names)), 2):
        against = found.against(a, b)
        difference = _in_words(against.difference) if against.difference else "-"
        rows.append([f"{names[a]} - {names[b]}", difference, against.pairs, _in_words(against.probability)])
    print(
        f"\ndifferences of {'returns' if found.is_of_one else 'normalized scores'}, paired by seed, with 95 % intervals"
    )
    print(table(("", "mean difference", "pairs", "probability that the first is better"), rows))


def _in_words(found: Any) -> str:
    return f"{found.value:.4g}" if math.isnan(found.low) else f"{found.value:.4g} {_interval(found)}"


def _interval(found: Any) -> str:
    return "-" if math.isnan(found.low) else f"[{found.low:.4g}, {found.high:.4g}]"
