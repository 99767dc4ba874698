"""The table of a comparison as a file: LaTeX with booktabs, Markdown, or CSV."""

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.core.kinds import checked_kinds
from shoal.ops.aggregates import AGGREGATES, Estimate
from shoal.specs.disk import replace
from shoal.training.comparison import Comparison
from shoal.viz.comparison import group_names

FORMULA = re.compile(r"(\$[^$]+\$)")
LATEX = {sign: f"\\{sign}" for sign in "&%#_{}$"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {"\\": r"\textbackslash{}", "<": "$<$", ">": "$>$", "|": "$|$"}


class Row(NamedTuple):
    """A row of the table: a value with its interval for each group, and which of them are in bold."""

    name: str
    values: list[Estimate]
    is_bold: list[bool]


@checked_kinds()
def comparison_table(found: Comparison, out: Path | str, *, labels: Sequence = ()) -> Path:
    """Write the table of a comparison to a .tex, .md or .csv file, and return its path.

    There is a row for each environment, with the interquartile mean of the returns, and with several environments one
    for each aggregate of the normalized scores. The best value of a row is in bold, and with it every value whose 95 %
    interval reaches into the interval of the best one; if a group has no interval, nothing is. A .tex file needs the
    package booktabs. `labels` are names of the groups. Raises ValueError for another format.
    """
    out, writers = Path(out), {".tex": _latex, ".md": _markdown, ".csv": _csv}
    write = writers.get(out.suffix.lower())
    if write is None:
        raise ValueError(f"a table named {out.name!r} has no known format: end it in {', '.join(writers)}.")
    text = write(*_rows(found), group_names(found, labels))
    out.parent.mkdir(parents=True, exist_ok=True)
    replace(out, lambda path: path.write_text(text, encoding="utf-8"))
    return out


def in_words(found: Estimate, to: str = " to ", minus: str = "-") -> str:
    """Return a value with its interval, `0.76 (0.69 to 0.84)`, with three digits of the largest number."""
    largest = max(abs(number) for number in found if np.isfinite(number))
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest else 2
    value, low, high = (f"{number:.{decimals}f}".replace("-", minus) for number in found)
    return value if math.isnan(found.low) else f"{value} ({low}{to}{high})"


def _rows(found: Comparison) -> tuple[list[Row], list[Row]]:
    """The rows of environments, and those of aggregates: none for one environment."""
    groups = range(len(found.groups))
    returns = [_row(env.name, [found.returns(g, e, "IQM") for g in groups]) for e, env in enumerate(found.environments)]
    if found.is_of_one:
        return returns, []
    return returns, [_row(name, [found.aggregates[g][name] for g in groups]) for name in AGGREGATES]


def _row(name: str, values: list[Estimate]) -> Row:
    best_of = min if name == "optimality gap" else max
    best = best_of(values, key=lambda value: value.value)
    is_known = len(values) > 1 and not any(math.isnan(value.low) for value in values)
    return Row(name, values, [is_known and bool(value.low <= best.high and value.high >= best.low) for value in values])


def _latex(returns: Sequence[Row], aggregates: Sequence[Row], names: Sequence[str]) -> str:
    parts = [[["", *map(_escaped, names)]]]
    for rows in filter(None, (returns, aggregates)):
        parts.append([[_escaped(row.name), *_bold(row, r"\textbf{", "}", to=" to ", minus="$-$")] for row in rows])
    lines = [[" & ".join(cells) + r" \\" for cells in part] for part in parts]
    body = "\n\\midrule\n".join("\n".join(part) for part in lines)
    head = f"% needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{l{'c' * len(names)}}}\n\\toprule\n"
    return f"{head}{body}\n\\bottomrule\n\\end{{tabular}}\n"


def _markdown(returns: Sequence[Row], aggregates: Sequence[Row], names: Sequence[str]) -> str:
    lines = [["", *(name.replace("|", "\\|") for name in names)], ["---"] * (len(names) + 1)]
    lines += [[row.name, *_bold(row, "**", "**")] for row in (*returns, *aggregates)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _csv(returns: Sequence[Row], aggregates: Sequence[Row], names: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "group", "value", "low", "high", "bold"])
    for row in (*returns, *aggregates):
        for name, value, is_bold in zip(names, row.values, row.is_bold, strict=True):
            numbers = ["" if math.isnan(number) else repr(float(number)) for number in value]
            writer.writerow([row.name, name, *numbers, int(is_bold)])
    return text.getvalue()


def _bold(row: Row, start: str, end: str, **how: str) -> list[str]:
    cells = [in_words(value, **how) for value in row.values]
    return [f"{start}{cell}{end}" if is_bold else cell for cell, is_bold in zip(cells, row.is_bold, strict=True)]


def _escaped(text: str) -> str:
    """The text for LaTeX. Formulas between dollar signs stay as they are."""
    parts = enumerate(FORMULA.split(text))
    return "".join(part if i % 2 else "".join(LATEX.get(sign, sign) for sign in part) for i, part in parts)
