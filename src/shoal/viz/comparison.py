"""Figures of a comparison: aggregates, performance profiles, sample efficiency, improvement, and learning curves."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shoal.core.errors import did_you_mean
from shoal.core.kinds import checked_kinds
from shoal.ops.aggregates import AGGREGATES, Estimate
from shoal.training.comparison import Comparison
from shoal.viz.chart import Band, Chart, Dots, Levels, Line, Mark, Pieces
from shoal.viz.curves import PANELS_ACROSS, curves_chart, series_style
from shoal.viz.panels import draw_panels, in_rows
from shoal.viz.run_data import Curve, distinct_names
from shoal.viz.words import number

PARTS = ("aggregates", "profile", "efficiency", "improvement", "curves")
MOST_PAIRS = 10  # of groups with a row of their own; of more groups, those with the first one
NORMALIZED = "normalized score"
LETTER_WIDTH = 0.07  # inches, about, of the names of pairs
NARROWEST = 1.6  # inches of a panel in a row of more than two


@checked_kinds()
def plot_comparison(
    found: Comparison,
    out: Path | str,
    *,
    show: Sequence = PARTS,
    width: float = 7.6,
    labels: Sequence = (),
    title: str = "",
    legend: str = "below",
    font: str = "sans",
) -> Path:
    """Draw a comparison into a .pdf, .svg or .png file, and return its path.

    `show` are the parts, in any number: "aggregates" (IQM, median, mean and optimality gap with 95 % intervals),
    "profile" (the share of runs above each score), "efficiency" (IQM over environments and seeds against steps),
    "improvement" (probability that one group is better than another) and "curves" (a panel of learning curves for each
    environment). `width` is in inches, `labels` are names of the groups in their order. `font` is "sans", "latex"
    (Computer Modern), "times" or an installed family; no TeX is needed. `legend` is "below", "above" or "none".
    Raises ValueError for other values.
    """
    for name in show:
        if name not in PARTS:
            raise ValueError(f"there is no part {name!r}.{did_you_mean(name, PARTS)} Choose among {', '.join(PARTS)}.")
    names = group_names(found, labels)
    show = [part for part in show if part != "improvement" or len(names) > 1]  # which is of pairs of groups
    if not show:
        raise ValueError(f"there is nothing to show: choose among {', '.join(PARTS)}; improvement needs two groups.")
    rows, heights = [], []
    if "aggregates" in show:
        rows.append(aggregate_charts(found, names))
        heights.append(0.75 + 0.22 * len(names))
    charts = {"profile": profile_chart, "efficiency": efficiency_chart, "improvement": improvement_chart}
    beside = [make(found, names) for part, make in charts.items() if part in show]
    panels = curve_charts(found, names) if "curves" in show else []
    if len(panels) == 1:
        beside, panels = [*beside, *panels], []
    if beside:
        words = max((len(name) for chart in beside for name in chart.y_names), default=0) * LETTER_WIDTH
        lines = in_rows(beside, len(beside) if (width - words) / len(beside) >= NARROWEST else 2)
        rows += lines
        heights += [min(2.6, 0.8 * width / len(lines[0]) + 0.4)] * len(lines)
    if panels:
        lines = in_rows(panels, PANELS_ACROSS)
        rows += lines
        heights += [min(2.4, 0.75 * width / len(lines[0]) + 0.4)] * len(lines)
    return draw_panels(rows, out, title, heights=heights, width=width, legend=legend, font=font)


def group_names(found: Comparison, labels: Sequence[str] = ()) -> list[str]:
    """Return the names of the groups, or these labels. Raises ValueError if they are not as many."""
    names = [group.name for group in found.groups]
    names = distinct_names([Path(name) for name in names]) if found.are_runs else names
    if labels and len(labels) != len(names):
        raise ValueError(
            f"{len(labels)} labels do not fit the {len(names)} groups {', '.join(names)}: give one for each."
        )
    return [*labels] or names


def aggregate_charts(found: Comparison, names: Sequence[str]) -> list[Chart]:
    """Return a chart for each aggregate, with a row for each group."""
    charts = []
    for column, name in enumerate(AGGREGATES):
        values = [of_group[name] for of_group in found.aggregates]
        rows = names if column == 0 else [" "] * len(names)
        about = f"{name} of the normalized scores of {len(names)} groups"
        marks = _interval_rows(values, [series_style(g) for g in range(len(names))])
        label = "lower is better" if name == "optimality gap" else NORMALIZED
        how = {"title": name, "y_names": [*rows][::-1], "tight_x": False, "x_words": number}
        charts.append(Chart(marks, label, "", about, **how))
    return charts


def profile_chart(found: Comparison, names: Sequence[str]) -> Chart:
    """Return the chart of the share of runs above each score."""
    thresholds, profiles = found.profiles
    marks = _bands(thresholds, profiles, names)
    about = "share of runs with a higher score, over the score"
    return Chart(marks, NORMALIZED, "share of runs above it", about, _legend(names), title="performance profile")


def efficiency_chart(found: Comparison, names: Sequence[str]) -> Chart:
    """Return the chart of the interquartile mean over environments and seeds against steps."""
    steps = [env.steps for env in found.environments]
    is_same = all(np.array_equal(env_steps, steps[0]) for env_steps in steps)
    x = steps[0] if is_same else steps[0] / steps[0][-1]
    label = "environment steps" if is_same else "share of the steps in each environment"
    marks = _bands(x, found.efficiency, names)
    about = f"interquartile mean of normalized returns over {label}"
    return Chart(marks, label, "IQM, normalized", about, _legend(names), title="sample efficiency")


def improvement_chart(found: Comparison, names: Sequence[str]) -> Chart:
    """Return the chart of the probability that one group is better than another, with a row for each pair."""
    pairs = [*itertools.combinations(range(len(names)), 2)]
    if len(pairs) > MOST_PAIRS:
        pairs = [(0, other) for other in range(1, len(names))]
    values = [found.against(a, b).probability for a, b in pairs]
    marks: list[Mark] = [Levels(x=[0.5], style="c6 dashed"), *_interval_rows(values, ["ink"] * len(pairs))]
    fields = {name.partition("=")[0] for name in names}
    if len(fields) == 1 and all("=" in name for name in names):  # values of one hyperparameter, which the legend names
        names = [name.partition("=")[2] for name in names]
    rows = [f"{names[a]} vs. {names[b]}" for a, b in pairs][::-1]
    about = "probability that a run of one group has a higher score than one of another"
    return Chart(marks, "P(first is better)", "", about, title="improvement", y_names=rows, tight_x=False)


def curve_charts(found: Comparison, names: Sequence[str]) -> list[Chart]:
    """Return a chart of the learning curves of all groups for each environment."""
    charts = []
    for e, env in enumerate(found.environments):
        curves = [Curve(n, env.steps, g.cells[e].curves) for n, g in zip(names, found.groups, strict=True)]
        chart = curves_chart(curves, curves, "seed", "environment steps", "return", small=True)
        charts.append(chart._replace(title=env.name, legend=_legend(names)))
    return charts


def _legend(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(series_style(g), name) for g, name in enumerate(names)]


def _bands(x: np.ndarray, values: Sequence[Estimate], names: Sequence[str]) -> list[Mark]:
    """A line for each group, with its interval as a band behind all lines."""
    bands: list[Mark] = [Band(x, v.low, v.high, series_style(g)) for g, v in enumerate(values)]
    return bands + [Line(x, v.value, series_style(g), names[g]) for g, v in enumerate(values)]


def _interval_rows(values: Sequence[Estimate], styles: Sequence[str]) -> list[Mark]:
    """A point and its interval in each row, the first one at the top."""
    marks: list[Mark] = []
    for row, (found, style) in enumerate(zip(reversed(values), reversed(styles), strict=True)):
        marks.append(Pieces([found.low], [row], [found.high], [row], style))
        marks.append(Dots([found.value], [row], style))
    return marks
