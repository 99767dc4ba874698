"""Learning curves of runs as charts: the interquartile mean over members, its interval, single members, evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.reports.chart import legend, panels, show
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, joined, soft, tag
from shoal.reports.page import Section, folded
from shoal.training.lives import hyperparameters_in
from shoal.viz.curves import MOST_FIELDS, best_curves, curves_chart, curves_of_runs, panel_charts
from shoal.viz.run_data import X_AXES, Curve
from shoal.viz.style import PALETTE
from shoal.viz.words import number

NOT_SHOWN = ("train_return", "eval_return", "alive")  # metrics that the first chart shows, or warnings say


def curves_section(facts: Facts) -> Section | None:
    """Return the section of a run's learning curves; None as long as no episode has ended."""
    if not facts.curves:
        return None
    curves = facts.data.curves()
    if not _drawable(curves):
        return Section("curves", "Learning curves", [tag("p", "No episode has ended yet, so there is no curve.")])
    shown = best_curves(curves, len(PALETTE))
    unit = "member" if facts.selector else "seed"
    parts = [show(curves_chart(shown, curves, unit)), *_by_fields(facts), _other_metrics(facts, shown, curves)]
    return Section("curves", "Learning curves", parts)


def comparison_section(runs: Sequence[Facts]) -> Section | None:
    """Return the section with the curves of several runs, labeled with their names: a chart for each environment."""
    known = [facts.data for facts in runs if facts.curves]
    by_steps, by_time = (curves_of_runs(known, x) for x in ("steps", "wall"))
    if not all(map(_drawable, by_steps.values())):
        return None
    if len(by_steps) > 1:
        over_time = folded("The same over time", _panels(by_time, X_AXES["wall"][1]))
        return Section("curves", "Learning curves", [_panels(by_steps, X_AXES["steps"][1]), over_time])
    (curves,), (timed,) = by_steps.values(), by_time.values()
    shown = best_curves(curves, len(PALETTE))
    at = {id(curve): index for index, curve in enumerate(curves)}
    over_time = curves_chart([timed[at[id(curve)]] for curve in shown], curves, "member", X_AXES["wall"][1])
    parts = [show(curves_chart(shown, curves, "member")), folded("The same over time", show(over_time))]
    return Section("curves", "Learning curves", parts)


def _panels(curves: Mapping[str, Sequence[Curve]], x_label: str) -> Html:
    """A chart for each environment, with one legend."""
    charts = panel_charts(curves, x_label)
    return joined([legend(charts[0].legend), panels(chart._replace(legend=()) for chart in charts)])


def _by_fields(facts: Facts) -> list[Any]:
    """A small chart for each hyperparameter of a grid of several, with the settings pooled that share a value."""
    fields = facts.spec.varying
    if not 2 <= len(fields) <= MOST_FIELDS or facts.spec.points or facts.selector:
        return []
    pooled = {field: curves for field in fields if _drawable(curves := facts.data.curves(by=field))}
    charts = [
        curves_chart(best_curves(curves, len(PALETTE)), curves, "member", small=True)._replace(title=f"by {field}")
        for field, curves in pooled.items()
    ]
    about = (
        "Each chart pools all settings that have the same value of one hyperparameter: lines are the interquartile "
        "means of their members, bands the 95 % bootstrap intervals."
    )
    return [tag("h3", "By hyperparameter"), tag("p", about), panels(charts)]


def _other_metrics(facts: Facts, shown: Sequence[Curve], curves: Sequence[Curve]) -> Html | None:
    """Small charts of all other metrics, for the curves that are shown."""
    charts, constant = [], []
    chosen = [next(i for i, other in enumerate(curves) if other is curve) for curve in shown]
    for metric in facts.data.metrics:
        if metric in NOT_SHOWN or metric in hyperparameters_in(facts.curves):
            continue
        known = facts.curves[metric][np.isfinite(facts.curves[metric])]
        if known.size and np.ptp(known) == 0:
            constant.append(f"{metric} ({number(known[0].item())})")
        elif known.size:
            of_metric, name = facts.data.curves(metric=metric), facts.data.label_of(metric)
            made = curves_chart([of_metric[i] for i in chosen], curves, "", "environment steps", name, small=True)
            charts.append(made._replace(title=name, y_label="", legend=()))
    if not charts:
        return None
    key = legend([(f"c{i}", curve.label) for i, curve in enumerate(shown)]) if len(curves) > 1 else None
    never = soft(f"These never changed: {', '.join(constant)}.") if constant else None
    return folded(f"Other metrics ({len(charts)})", key, panels(charts), never)


def _drawable(curves: Sequence[Curve]) -> bool:
    return any(np.isfinite(curve.y).any() for curve in curves)
