"""Learning curves of one run or of several, drawn from the files of run folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST, iqm_band
from shoal.specs.spec import file_name
from shoal.training.comparison import env_differences
from shoal.viz.evolution import plot_evolution
from shoal.viz.heatmap import plot_sweep
from shoal.viz.lives import plot_lives
from shoal.viz.run_data import X_AXES, Curve, RunData, distinct_names
from shoal.viz.style import (
    GRID,
    PALE_INK,
    PALETTE,
    check_figure_format,
    figure_style,
    new_figure,
    place_legend,
    save_figure,
    set_axis_label,
    set_titles,
    short,
    thousands,
)

MOST_MEMBER_LINES = 64  # single members drawn behind each curve
MOST_DETAILED = 4  # figures with more curves show neither single members nor evaluations
RING_DISTANCE = 3.0  # points between the evaluations of neighboring curves
MOST_FIELDS = 6  # swept hyperparameters of a run that each get a figure at its end


def plot_figures(folder: str | Path) -> list[Path]:
    """Draw every figure of a run into `figures/` of its folder, and return their paths.

    These are the learning curves; for a grid of two or more hyperparameters also a figure for each of them, in which
    the settings with the same value are pooled; and for a grid of exactly two a heatmap. With a selector, members
    change their setting during training: then lineage, hyperparameters over time and rungs are drawn (`viz.lives`). An
    evolution has figures of its own.
    """
    if paths := plot_evolution(folder):
        return paths
    run = RunData(folder)
    paths = [plot_run(run.folder)]
    fields = run.spec.varying
    if run.spec.selector is not None:
        paths += plot_lives(run.folder)
    if 2 <= len(fields) <= MOST_FIELDS and not run.spec.points and run.spec.selector is None:
        paths += [plot_run(run.folder, by=field) for field in fields]
        paths += [plot_sweep(run.folder)] if len(fields) == 2 else []
    return paths


def plot_run(
    folder: str | Path,
    out: str | Path | None = None,
    x: str = "steps",
    target: Any = None,
    *,
    metric: str = "",
    by: str = "",
    log: bool = False,
) -> Path:
    """Draw the curves of one run, a line for each setting, into `figures/` of its folder or to `out`.

    `x` is "steps" or "wall" (seconds). `target` is a value at which a horizontal line is drawn. `metric` is a column of
    `curves.npz`, such as "value_loss"; without it, the returns in training and in evaluations are drawn. `by` is a
    swept hyperparameter: the figure then has a line for each of its values, pooled over all other hyperparameters.
    `log` makes the y axis logarithmic. Returns the path.
    """
    run = RunData(folder)
    by = run.field(by) if by else ""
    curves = run.curves(x, metric, by)
    others = [field for field in run.spec.varying if field != by]
    title = run.title + (f", by {by}" + (f" (pooled over {', '.join(others)})" if others else "") if by else "")
    name = "-".join([*([metric] if metric else []), *([f"by-{by}"] if by else [])]) or "learning_curves"
    out = out or run.folder / "figures" / f"{file_name(name)}.png"
    y_label = run.label_of(metric) if metric else "episode return"
    return learning_curves(curves, out, X_AXES[x][1], title, target, y_label, unit="member" if by else "seed", log=log)


def plot_runs(
    folders: Sequence[str | Path],
    out: str | Path,
    x: str = "steps",
    target: Any = None,
    *,
    metric: str = "",
    log: bool = False,
) -> Path:
    """Draw the curves of several runs in one figure, labeled with their folders' names. Returns the path.

    A label says if a run is not finished, and if its environment differs from that of the first run. The other
    parameters are those of `plot_run`.
    """
    if not folders:
        raise ValueError("there is no run to plot: give at least one run folder.")
    runs = [RunData(folder) for folder in folders]
    curves: list[Curve] = []
    for run, name in zip(runs, distinct_names([run.folder for run in runs]), strict=True):
        notes = [*_other_environment(runs[0], run), *run.warnings]
        for curve in run.curves(x, metric):
            setting = f"{name}, {curve.label}" if curve.label else name
            curves.append(curve._replace(label=" ".join([setting, *notes]), run=name))
    y_label = runs[0].label_of(metric) if metric else "episode return"
    return learning_curves(curves, out, X_AXES[x][1], _common_title(runs), target, y_label, log=log)


def learning_curves(
    curves: Sequence[Curve],
    out: str | Path,
    x_label: str = X_AXES["steps"][1],
    title: str = "",
    target: Any = None,
    y_label: str = "episode return",
    *,
    unit: str = "seed",
    log: bool = False,
) -> Path:
    """Draw curves: the interquartile mean over members, its 95 % interval as a band, single members as thin lines.

    Evaluations are rings, with the same interval as a bar. A figure with more than four curves shows neither thin lines
    nor rings, and of more than eight curves only the eight with the highest last value (or return) are drawn, as a note
    in the figure says. `unit` is the word for one column of a curve. The legend covers nothing drawn. Returns the path.
    """
    check_figure_format(Path(out))
    shown = [_with_stopped(curve, unit) for curve in best_curves(curves, len(PALETTE))]
    if len(curves) == 1 and shown[0].stopped:
        title = f"{title} {shown[0].label}".strip()
    with figure_style():
        figure, axes = new_figure(7.6, 4.6)
        for index, (color, curve) in enumerate(zip(PALETTE, shown, strict=False)):
            _draw_population(axes, curve, color, 0.2 if len(shown) < 3 else 0.13)
            if len(shown) <= MOST_DETAILED:
                _draw_members(axes, curve, color)
                _draw_evaluations(axes, curve, color, RING_DISTANCE * (index - (len(shown) - 1) / 2))
        if target is not None:
            axes.axhline(target, color=PALE_INK, linewidth=1, linestyle=(0, (4, 3)), label=f"target {target:g}")
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label)
        set_axis_label(axes.yaxis, y_label, 3.6)
        axes.margins(x=0.02)
        if log:
            _set_logarithmic(axes, shown)
        axes.xaxis.set_major_formatter(thousands())
        set_titles(figure, axes, title, _legend_of_marks(shown, curves, unit))
        if len(curves) > 1 or target is not None:
            place_legend(figure, axes)
        return save_figure(figure, out)


def _draw_population(axes: Any, curve: Curve, color: str, alpha: float) -> None:
    there = np.isfinite(curve.y).any(axis=1)
    x, (center, low, high) = curve.x[there], iqm_band(curve.y[there])
    axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, zorder=2)
    marker = "." if len(x) < 3 else None
    axes.plot(x, center, color=color, linewidth=1.8, label=curve.label, marker=marker, zorder=3)


def _draw_members(axes: Any, curve: Curve, color: str) -> None:
    from matplotlib.collections import LineCollection

    members = curve.y.T[:: -(-curve.y.shape[1] // MOST_MEMBER_LINES)]
    if len(members) > 1:
        lines = [np.stack([curve.x, member], axis=1)[np.isfinite(member)] for member in members]
        axes.add_collection(LineCollection(lines, colors=color, alpha=0.16, linewidths=0.7, zorder=1))
    if len(members) < FEWEST:  # there is no band, which would show how far they reach
        axes.autoscale_view()


def _draw_evaluations(axes: Any, curve: Curve, color: str, shift: float) -> None:
    """Draw a ring and a bar for each evaluation, `shift` points to the right, so that curves do not hide each other."""
    from matplotlib.transforms import offset_copy

    if curve.eval_y is None or not _is_evaluated(curve):
        return
    there = np.isfinite(curve.eval_y).any(axis=1)
    x, (center, low, high) = curve.x[there], iqm_band(curve.eval_y[there])
    where = offset_copy(axes.transData, axes.figure, shift, 0, units="points")
    axes.vlines(x, low, high, color=color, linewidth=1.4, zorder=4, transform=where)
    ring = {"markerfacecolor": "white", "markersize": 5.5, "markeredgewidth": 1.5}
    axes.plot(x, center, "o", color=color, zorder=5, transform=where, **ring)
    for values in (center, low, high):  # a shifted transform leaves marks out of the limits of the axes
        axes.update_datalim(np.stack([x, values], axis=1)[np.isfinite(values)])
    axes.autoscale_view()


def _is_evaluated(curve: Curve) -> bool:
    return curve.eval_y is not None and bool(np.isfinite(curve.eval_y).any())


def _with_stopped(curve: Curve, unit: str) -> Curve:
    """The curve with its number of stopped members in the label: they are left out of the mean from then on."""
    if not curve.stopped:
        return curve
    members = curve.y.shape[1]
    note = f"({curve.stopped} of {members} {unit}s stopped: NaN or infinity)"
    return curve._replace(label=f"{curve.label} {note}".strip())


def _legend_of_marks(shown: Sequence[Curve], curves: Sequence[Curve], unit: str) -> str:
    """One text that explains the marks of a figure; `curves` are all, before the best were chosen."""
    members = sorted({curve.y.shape[1] for curve in shown})
    count = str(members[0]) if len(members) == 1 else f"{members[0]} to {members[-1]}"
    what = "training" if any(curve.is_of_training for curve in shown) else "evaluation"
    if any(curve.rank_y is not None for curve in shown):
        what = ""  # the y axis names the metric
    parts = [f"line: one {unit}" + f" in {what}" * bool(what)]
    if members != [1]:
        parts = ["line: " + f"{what}, " * bool(what) + f"IQM of {count} {unit}s"]
        parts += ["band: 95 % bootstrap interval"] * (members[-1] >= FEWEST)
    if len(shown) <= MOST_DETAILED:
        parts += [f"thin: single {unit}s"] * (members != [1])
        parts += ["ring: evaluation"] * (bool(what) and any(map(_is_evaluated, shown)))
    drawable = [curve for curve in curves if np.isfinite(curve.y).any()]
    if len(shown) < len(drawable):
        parts.append(f"best {len(shown)} of {len(curves)}")
    if missing := len(curves) - len(drawable):
        parts.append(f"{missing} without any value")
    return " · ".join(parts)


def best_curves(curves: Sequence[Curve], count: int) -> list[Curve]:
    """Return the `count` curves with the highest last value, in their order; of several runs the best of each.

    Raises ValueError if all values are NaN.
    """
    drawable = [curve for curve in curves if np.isfinite(curve.y).any()]
    if not drawable:
        raise ValueError("no episode has ended in these curves yet, so there is nothing to plot.")
    values = [_last_value(curve) for curve in drawable]
    best_of_run: dict[str, float] = {}
    for curve, value in zip(drawable, values, strict=True):
        best_of_run[curve.run] = max(value, best_of_run.get(curve.run, -np.inf))
    order = sorted(range(len(values)), key=lambda i: (values[i] < best_of_run[drawable[i].run], -values[i]))
    return [drawable[index] for index in sorted(order[:count])]


def _last_value(curve: Curve) -> float:
    values = curve.y if curve.rank_y is None else curve.rank_y
    finite = values[np.isfinite(values).any(axis=1)]
    return float(iqm_band(finite[-1:], resamples=1)[0][0]) if len(finite) else -np.inf


def _set_logarithmic(axes: Any, shown: Sequence[Curve]) -> None:
    lowest = min(float(np.nanmin(curve.y)) for curve in shown)
    if lowest <= 0:
        raise ValueError(f"a logarithmic axis shows positive values only; the lowest value is {lowest:.4g}.")
    axes.set_yscale("log")


def _other_environment(first: RunData, run: RunData) -> list[str]:
    differences = env_differences(first.spec, run.spec)
    values = [f"{short(own)}" if name == "env" else f"{name}={short(own)}" for name, (_, own) in differences.items()]
    return [f"(other environment: {', '.join(values)})"] if values else []


def _common_title(runs: Sequence[RunData]) -> str:
    agents = {run.agent for run in runs}
    envs = {run.spec.env_name for run in runs}
    agent = agents.pop() if len(agents) == 1 else "several agents"
    return f"{agent} on {envs.pop() if len(envs) == 1 else 'several environments'}"
