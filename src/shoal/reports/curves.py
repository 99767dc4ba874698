"""Learning curves of runs as charts: the interquartile mean over members, its interval, single members, evaluations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST, iqm_band
from shoal.reports.chart import Band, Dots, Line, Mark, chart, evenly
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, tag
from shoal.reports.page import Section, folded
from shoal.reports.words import counted, number
from shoal.training.comparison import env_differences
from shoal.training.lives import hyperparameters_in
from shoal.viz.curves import MOST_DETAILED, MOST_FIELDS, best_curves
from shoal.viz.run_data import X_AXES, Curve, distinct_names
from shoal.viz.style import PALETTE

MOST_THIN_LINES = 24  # single members behind a curve
THIN_POINTS = 100  # of such a line
MOST_RESAMPLED = 128  # members of a band with as many bootstrap samples as in the tables
QUICK = 200  # bootstrap samples of a band over more members, and of those in small charts
STEPS = X_AXES["steps"][1]
NOT_SHOWN = ("train_return", "eval_return", "alive")  # metrics that the first chart shows, or warnings say


def curves_section(facts: Facts) -> Section | None:
    """Return the section of a run's learning curves; None as long as no episode has ended."""
    if not facts.curves:
        return None
    curves = facts.data.curves()
    if not _drawable(curves):
        return Section("curves", "Learning curves", [tag("p", "No episode has ended yet, so there is no curve.")])
    shown = best_curves(curves, len(PALETTE))
    parts = [returns_chart(shown, curves, _unit(facts)), *_by_fields(facts), _other_metrics(facts, shown, curves)]
    return Section("curves", "Learning curves", parts)


def comparison_section(runs: Sequence[Facts]) -> Section | None:
    """Return the section with the curves of several runs in one chart, labeled with their names."""
    curves: list[Curve] = []
    names = distinct_names([facts.folder for facts in runs])
    for facts, name in zip(runs, names, strict=True):
        if facts.curves:
            other = " (other environment)" * bool(env_differences(runs[0].spec, facts.spec))
            for curve in facts.data.curves():
                label = f"{name}, {curve.label}" if curve.label else name
                curves.append(curve._replace(label=" ".join([label + other, *facts.data.warnings]), run=name))
    if not _drawable(curves):
        return None
    shown = best_curves(curves, len(PALETTE))
    by_time = [
        curve._replace(label="", run=name)
        for facts, name in zip(runs, names, strict=True)
        if facts.curves
        for curve in facts.data.curves("wall")
    ]
    timed = [by_time[next(i for i, each in enumerate(curves) if each is curve)] for curve in shown]
    parts = [
        returns_chart(shown, curves, "member"),
        folded("The same over time", returns_chart(timed, curves, "member", X_AXES["wall"][1], legend_of=shown)),
    ]
    return Section("curves", "Learning curves", parts)


def returns_chart(
    shown: Sequence[Curve],
    curves: Sequence[Curve],
    unit: str,
    x_label: str = STEPS,
    legend_of: Sequence[Curve] = (),
    title: str = "",
    small: bool = False,
) -> Html:
    """Return the chart of the returns of some curves; `curves` are all, of which those that are `shown` were chosen."""
    marks: list[Mark] = []
    detailed = len(shown) <= MOST_DETAILED and not small
    for index, curve in enumerate(shown):
        color = f"c{index % len(PALETTE)}"
        marks += _population(curve, color, detailed)
    legend = [(f"c{i % len(PALETTE)}", curve.label) for i, curve in enumerate(legend_of or shown)]
    return chart(
        marks,
        x_label,
        "episode return",
        about=f"learning curves: episode return over {x_label}",
        legend=legend if len(curves) > 1 else (),
        note="" if small else _note(shown, curves, unit, detailed),
        title=title,
        small=small,
    )


def _population(curve: Curve, color: str, detailed: bool) -> list[Mark]:
    there = np.isfinite(curve.y).any(axis=1)
    resamples = 2000 if detailed and curve.y.shape[1] <= MOST_RESAMPLED else QUICK
    kept = np.flatnonzero(there)[evenly(int(there.sum()))]
    x, (center, low, high) = curve.x[kept], iqm_band(curve.y[kept], resamples=resamples)
    marks: list[Mark] = []
    if detailed and curve.y.shape[1] > 1:
        for member in evenly(curve.y.shape[1], MOST_THIN_LINES):
            rows = np.flatnonzero(np.isfinite(curve.y[:, member]))
            rows = rows[evenly(len(rows), THIN_POINTS)]
            marks.append(Line(curve.x[rows], curve.y[rows, member], f"thin {color}"))
    marks += [Band(x, low, high, color), Line(x, center, color, curve.label)]
    if detailed and curve.eval_y is not None and np.isfinite(curve.eval_y).any():
        there = np.isfinite(curve.eval_y).any(axis=1)
        kept = np.flatnonzero(there)[evenly(int(there.sum()), 60)]
        center, _, _ = iqm_band(curve.eval_y[kept], resamples=1)
        marks.append(Dots(curve.x[kept], center, f"ring {color}"))
    return marks


def _note(shown: Sequence[Curve], curves: Sequence[Curve], unit: str, detailed: bool) -> str:
    counts = sorted({curve.y.shape[1] for curve in shown})
    trained = any(curve.is_of_training for curve in shown)
    what = "training" if trained else "evaluation"
    if counts == [1]:
        parts = [f"Line: the return of one {unit} in {what}."]
    else:
        count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        parts = [f"Line: the interquartile mean (IQM) of the return in {what}, over {count} {unit}s."]
        parts += ["Band: its 95 % bootstrap interval."] * (counts[-1] >= FEWEST)
    if detailed:
        parts += [f"Thin lines: single {unit}s."] * (counts != [1])
        evaluated = trained and any(c.eval_y is not None and np.isfinite(c.eval_y).any() for c in shown)
        parts += ["Rings: evaluations."] * evaluated
    if len(shown) < len(curves):
        parts.append(f"The best {len(shown)} of {counted(len(curves), 'curve')} are shown.")
    return " ".join(parts)


def _by_fields(facts: Facts) -> list[Any]:
    """A small chart for each hyperparameter of a grid of several, with the settings pooled that share a value."""
    fields = facts.spec.varying
    if not 2 <= len(fields) <= MOST_FIELDS or facts.spec.points or facts.selector:
        return []
    panels = []
    for field in fields:
        curves = facts.data.curves(by=field)
        if _drawable(curves):
            shown = best_curves(curves, len(PALETTE))
            panels.append(returns_chart(shown, curves, "member", title=f"by {field}", small=True))
    about = (
        "Each chart pools all settings that have the same value of one hyperparameter: lines are the interquartile "
        "means of their members, bands the 95 % bootstrap intervals."
    )
    return [tag("h3", "By hyperparameter"), tag("p", about), tag("div", *panels, class_="panels")]


def _other_metrics(facts: Facts, shown: Sequence[Curve], curves: Sequence[Curve]) -> Html | None:
    """Small charts of all other metrics, for the curves that are shown."""
    panels, constant = [], []
    chosen = [next(i for i, each in enumerate(curves) if each is curve) for curve in shown]
    for metric in facts.data.metrics:
        if metric in NOT_SHOWN or metric in hyperparameters_in(facts.curves):
            continue
        known = facts.curves[metric][np.isfinite(facts.curves[metric])]
        if known.size and np.ptp(known) == 0:
            constant.append(f"{metric} ({number(known[0].item())})")
        elif known.size:
            of_metric = facts.data.curves(metric=metric)
            marks = [mark for i, index in enumerate(chosen) for mark in _population(of_metric[index], f"c{i}", False)]
            about, title = f"{facts.data.label_of(metric)} over {STEPS}", facts.data.label_of(metric)
            panels.append(chart(marks, "environment steps", "", about=about, title=title, small=True))
    if not panels:
        return None
    legend = [(f"c{i}", curve.label) for i, curve in enumerate(shown)] if len(curves) > 1 else []
    key = tag("ul", *(tag("li", words, class_=style) for style, words in legend), class_="legend") if legend else None
    never = tag("p", f"These never changed: {', '.join(constant)}.", class_="soft") if constant else None
    return folded(f"Other metrics ({len(panels)})", key, tag("div", *panels, class_="panels"), never)


def _drawable(curves: Sequence[Curve]) -> bool:
    return any(np.isfinite(curve.y).any() for curve in curves)


def _unit(facts: Facts) -> str:
    return "member" if facts.selector else "seed"
