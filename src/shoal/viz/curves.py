"""Learning curves of one run or of several, drawn from the files of run folders."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST, iqm_band
from shoal.specs.spec import file_name
from shoal.training.branching import columns_of
from shoal.training.comparison import env_key, env_label
from shoal.training.result import Result
from shoal.viz.chart import Band, Chart, Dots, Levels, Line, Mark, Pieces, evenly
from shoal.viz.evolution import plot_evolution
from shoal.viz.heatmap import plot_sweep
from shoal.viz.lives import plot_lives
from shoal.viz.paint import draw
from shoal.viz.panels import draw_panels, in_rows
from shoal.viz.run_data import X_AXES, Curve, RunData, distinct_names
from shoal.viz.style import PALETTE, check_figure_format

MOST_DETAILED = 4  # charts with more curves show neither single members nor evaluations
MOST_RINGS = 60  # evaluations of a curve
RING_DISTANCE = 0.007  # between the evaluations of neighboring curves, as a part of the x axis
PANELS_ACROSS = 3  # of a figure with a panel for each environment
MOST_FIELDS = 6  # swept hyperparameters of a run that each get a figure at its end
RESAMPLES = 2000  # bootstrap samples of a band, as in the tables of a report
MOST_RESAMPLED = 128  # members of such a band
QUICK = 200  # bootstrap samples of bands over more members, and of those in small charts


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
    if run.spec.branch:
        paths.append(plot_branches(run.folder))
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


def plot_branches(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw the run up to the record of a branch, and from there its twins, into `figures/branches.png` or to `out`."""
    run, branch = RunData(folder), Result(folder)
    curves, record = branch.curves, branch.spec.branch["record"]
    steps, shown = curves["env_steps"], []
    for name, members in [*columns_of(branch).items()][: len(PALETTE)]:
        start = 0 if name == "unchanged" else max(record - 1, 0)
        trained, evaluated = (curves[column][:, members] for column in ("train_return", "eval_return"))
        trained, evaluated = _once_before(record, trained, evaluated)
        trained, evaluated = trained[start:], evaluated[start:]
        y = evaluated if np.isnan(trained).all() else trained
        shown.append(Curve(name, steps[start:], y, evaluated))
    chart = curves_chart(shown, shown, "twin", points=2000)
    left_at = Levels(x=[float(steps[record - 1]) if record else 0.0], style="c6 dashed")
    chart = chart._replace(marks=[*chart.marks, left_at])
    title = f"{run.title}: branches from record {record}"
    return draw(chart, out or run.folder / "figures" / "branches.png", title)


def _once_before(record: int, *columns: np.ndarray) -> list[np.ndarray]:
    """Return columns [T, N] with NaN in the first rows, up to a record, of members that have the numbers of another.

    Until they leave the run, twins are one member, and count once in the mean and its interval.
    """
    seen, again = set[bytes](), np.zeros(columns[0].shape[1], bool)
    for i in range(len(again)):
        numbers = b"".join(column[:record, i].tobytes() for column in columns)
        again[i] = bool(record) and numbers in seen
        seen.add(numbers)
    before = np.arange(len(columns[0]))[:, None] < record
    return [np.where(before & again, np.nan, column) for column in columns]


def plot_runs(
    folders: Sequence[str | Path],
    out: str | Path,
    x: str = "steps",
    target: Any = None,
    *,
    metric: str = "",
    log: bool = False,
) -> Path:
    """Draw the curves of several runs, labeled with their folders' names, with a panel for each environment.

    Environments that differ in a field are different ones. A curve has one color in all panels; if every agent has one
    run in each, curves are labeled with the agents. A label says if a run is not finished. The other parameters are
    those of `plot_run`. Returns the path.
    """
    if not folders:
        raise ValueError("there is no run to plot: give at least one run folder.")
    runs = [RunData(folder) for folder in folders]
    y_label = runs[0].label_of(metric) if metric else "episode return"
    panels = curves_of_runs(runs, x, metric)
    if len(panels) == 1:
        (curves,) = panels.values()
        return learning_curves(curves, out, X_AXES[x][1], _common_title(runs), target, y_label, log=log)
    charts = panel_charts(panels, X_AXES[x][1], y_label)
    if log:
        _check_positive([curve for curves in panels.values() for curve in curves])
    levels = [Levels(y=[target], style="c6 dashed")] if target is not None else []
    charts = [chart._replace(marks=[*chart.marks, *levels], log_y=log) for chart in charts]
    return draw_panels(in_rows(charts, PANELS_ACROSS), out, _common_title(runs))


def curves_of_runs(runs: Sequence[RunData], x: str = "steps", metric: str = "") -> dict[str, list[Curve]]:
    """Return the labeled curves of several runs by their environments."""
    keys = [env_key(run.spec) for run in runs]
    agents = [(run.agent, key) for run, key in zip(runs, keys, strict=True)]
    by_agent = len({*keys}) > 1 and len({*agents}) == len(runs)
    names = [run.agent for run in runs] if by_agent else distinct_names([run.folder for run in runs])
    found: dict[str, list[Curve]] = {}
    for run, key, name in zip(runs, keys, names, strict=True):
        panel = found.setdefault(env_label(key, keys), [])
        for curve in run.curves(x, metric):
            setting = f"{name}, {curve.label}" if curve.label else name
            panel.append(curve._replace(label=" ".join([setting, *run.warnings]), run=name))
    return found


def panel_charts(panels: Mapping[str, Sequence[Curve]], x_label: str, y_label: str = "episode return") -> list[Chart]:
    """Return a small chart for each environment. The legend of the first one has the curves of all."""
    shown = {env: [_with_stopped(curve, "seed") for curve in best_curves(c, len(PALETTE))] for env, c in panels.items()}
    labels = [*dict.fromkeys(curve.label for curves in shown.values() for curve in curves)]
    styles = {label: series_style(number) for number, label in enumerate(labels)}
    charts = []
    for env, curves in shown.items():
        own = [styles[curve.label] for curve in curves]
        chart = curves_chart(curves, curves, "seed", x_label, y_label, points=2000, small=True, styles=own)
        charts.append(chart._replace(title=env, legend=()))
    charts[0] = charts[0]._replace(legend=[(style, label) for label, style in styles.items()])
    return charts


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
    chart = curves_chart(shown, curves, unit, x_label, y_label, thin_lines=64, points=2000)
    if log:
        _check_positive(shown)
    if target is not None:
        marks = [*chart.marks, Levels(y=[target], style="c6 dashed")]
        chart = chart._replace(marks=marks, legend=[*chart.legend, ("c6 dashed", f"target {target:g}")])
    return draw(chart._replace(log_y=log), out, title)


def curves_chart(
    shown: Sequence[Curve],
    curves: Sequence[Curve],
    unit: str,
    x_label: str = X_AXES["steps"][1],
    y_label: str = "episode return",
    *,
    thin_lines: int = 24,
    points: int = 240,
    small: bool = False,
    styles: Sequence[str] = (),
) -> Chart:
    """Return the chart of some curves; `curves` are all, of which those that are `shown` were chosen.

    A line has at most so many `points`, evenly spaced, and a curve at most so many `thin_lines` of single members.
    `styles` are those of the curves (default: their colors in order).
    """
    styles = styles or [*map(series_style, range(len(shown)))]
    detailed = len(shown) <= MOST_DETAILED and not small
    layers = []  # of each curve; those of all curves lie on each other in this order
    for index, curve in enumerate(shown):
        shift = RING_DISTANCE * (index - (len(shown) - 1) / 2)
        lines = _member_lines(curve, f"thin {styles[index]}", thin_lines, points) if detailed else []
        evaluations = _evaluations(curve, styles[index], shift) if detailed else []
        layers.append([lines, *_population(curve, styles[index], points, small), evaluations])
    legend = [(style, curve.label) for style, curve in zip(styles, shown, strict=True)] if len(curves) > 1 else []
    note = "" if small else _marks_in_words(shown, curves, unit)
    about = f"{y_label} over {x_label}"
    marks = [mark for layer in zip(*layers, strict=True) for part in layer for mark in part]
    return Chart(marks, x_label, y_label, about, legend, note, small=small)


def series_style(index: int) -> str:
    """Return the color of a curve by its number; dashed where the colors are used again."""
    return f"c{index % len(PALETTE)}" + " dashed" * (index >= len(PALETTE))


def _population(curve: Curve, color: str, points: int, quick: bool) -> list[list[Mark]]:
    """The band and the line of a curve."""
    x, center, low, high = _iqm_over(curve.x, curve.y, points, quick)
    return [[Band(x, low, high, color)], [Line(x, center, color, curve.label)]]


def _iqm_over(x: np.ndarray, y: np.ndarray, points: int, quick: bool = False) -> tuple[np.ndarray, ...]:
    """Of at most so many records with a value: their x, interquartile mean over members, and its interval."""
    there = np.flatnonzero(np.isfinite(y).any(axis=1))
    kept = there[evenly(len(there), points)]
    return x[kept], *iqm_band(y[kept], resamples=QUICK if quick or y.shape[1] > MOST_RESAMPLED else RESAMPLES)


def _member_lines(curve: Curve, style: str, most: int, points: int) -> list[Mark]:
    if (members := curve.y.shape[1]) < 2:
        return []
    columns = [(curve.y[:, m], np.flatnonzero(np.isfinite(curve.y[:, m]))) for m in evenly(members, most)]
    kept = [(y, rows[evenly(len(rows), points // 2)]) for y, rows in columns]
    return [Line(curve.x[rows], y[rows], style) for y, rows in kept]


def _evaluations(curve: Curve, color: str, shift: float) -> list[Mark]:
    """A ring and a bar for each evaluation, shifted to the right so that curves do not hide each other."""
    if curve.eval_y is None or not _is_evaluated(curve):
        return []
    x, center, low, high = _iqm_over(curve.x, curve.eval_y, MOST_RINGS)
    x = x + shift * np.ptp(curve.x)
    return [Pieces(x, low, x, high, f"slim {color}"), Dots(x, center, f"ring {color}")]


def _is_evaluated(curve: Curve) -> bool:
    return curve.eval_y is not None and bool(np.isfinite(curve.eval_y).any())


def _with_stopped(curve: Curve, unit: str) -> Curve:
    """The curve with its number of stopped members in the label: they are left out of the mean from then on."""
    if not curve.stopped:
        return curve
    members = curve.y.shape[1]
    note = f"({curve.stopped} of {members} {unit}s stopped: NaN or infinity)"
    return curve._replace(label=f"{curve.label} {note}".strip())


def _marks_in_words(shown: Sequence[Curve], curves: Sequence[Curve], unit: str) -> str:
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


def _check_positive(shown: Sequence[Curve]) -> None:
    lowest = min(float(np.nanmin(curve.y)) for curve in shown)
    if lowest <= 0:
        raise ValueError(f"a logarithmic axis shows positive values only; the lowest value is {lowest:.4g}.")


def _common_title(runs: Sequence[RunData]) -> str:
    agents = {run.agent for run in runs}
    envs = {run.spec.env_name for run in runs}
    agent = agents.pop() if len(agents) == 1 else "several agents"
    return f"{agent} on {envs.pop() if len(envs) == 1 else 'several environments'}"
