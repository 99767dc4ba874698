"""Figures made from the files of run folders: learning curves, and heatmaps of swept hyperparameters.

matplotlib is imported only when a figure is drawn. `pyplot` is never imported: it is slow, and it keeps every figure in
memory. The suffix of the file decides the format: .png, .svg or .pdf.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from shoal.ops.statistics import FEWEST, iqm_band
from shoal.training.disk import replace
from shoal.training.folder import RunFolder, locate
from shoal.training.settings import join
from shoal.training.spec import RunSpec

# Okabe and Ito's palette, whose colors color-blind readers can distinguish too; the strongest colors first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#7A5195")
MOST_MEMBER_LINES = 64  # single members drawn behind each curve
MOST_DETAILED = 4  # figures with more curves show neither single members nor evaluations
INK, PALE_INK, GRID = "#222222", "#6B6B6B", "#E4E4E4"
STYLE: Any = {
    "figure.dpi": 120,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9A9A9A",
    "axes.labelcolor": INK,
    "xtick.color": PALE_INK,
    "ytick.color": PALE_INK,
    "text.color": INK,
    "svg.fonttype": "none",
}
X_AXES = {
    "steps": ("env_steps", "environment steps of each member"),
    "wall": ("wall_seconds", "seconds since the start, compilation included"),
}


class Curve(NamedTuple):
    """The returns of one setting over R records, with a column for each of its M members."""

    label: str
    x: Shaped[np.ndarray, "R"]  # environment steps or seconds
    y: Float[np.ndarray, "R M"]  # returns in training
    eval_y: Float[np.ndarray, "R M"] | None = None  # returns in evaluations, NaN in records without one

    @property
    def is_of_training(self) -> bool:
        """Whether `y` holds returns of training episodes; an agent that collects none (`bc`) has evaluations only."""
        return self.y is not self.eval_y


def plot_run(folder: str | Path, out: str | Path | None = None, x: str = "steps", target: Any = None) -> Path:
    """Draw the learning curves of one run, a line for each setting, into `figures/` of its folder or to `out`.

    `x` is "steps" or "wall" (seconds). `target` is a return at which a horizontal line is drawn. Returns the path.
    """
    folder = locate(folder)
    spec = _spec(folder)
    out = out or folder / "figures" / "learning_curves.png"
    return learning_curves(_curves(folder, x), out, X_AXES[x][1], _title(spec), target)


def plot_runs(folders: Sequence[str | Path], out: str | Path, x: str = "steps", target: Any = None) -> Path:
    """Draw the learning curves of several runs in one figure, labeled with their folders' names. Returns the path."""
    if not folders:
        raise ValueError("there is no run to plot: give at least one run folder.")
    curves, folders = [], [locate(folder) for folder in folders]
    for folder in folders:
        of_run = _curves(folder, x)
        names = [f"{folder.name}, {c.label}" if len(of_run) > 1 else folder.name for c in of_run]
        curves += [curve._replace(label=name) for name, curve in zip(names, of_run, strict=True)]
    titles = {_title(_spec(folder)) for folder in folders}
    return learning_curves(curves, out, X_AXES[x][1], titles.pop() if len(titles) == 1 else "", target)


def learning_curves(
    curves: Sequence[Curve],
    out: str | Path,
    x_label: str = X_AXES["steps"][1],
    title: str = "",
    target: Any = None,
    y_label: str = "episode return",
) -> Path:
    """Draw curves: the interquartile mean over members, its 95 % interval as a band, single members as thin lines.

    Evaluations are rings, with the same interval as a bar. A figure with more than four curves shows neither thin lines
    nor rings, and of more than eight curves only the eight with the highest last value are drawn, as a note in the
    figure says. Returns the path.
    """
    from matplotlib import rc_context

    shown = _best(curves, len(PALETTE))
    with rc_context(STYLE):
        figure, axes = _figure(7.6, 4.6)
        for color, curve in zip(PALETTE, shown, strict=False):
            _draw_population(axes, curve, color)
            if len(shown) <= MOST_DETAILED:
                _draw_members(axes, curve, color)
                _draw_evaluations(axes, curve, color)
        if target is not None:
            axes.axhline(target, color=PALE_INK, linewidth=1, linestyle=(0, (4, 3)), label=f"target {target:g}")
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_formatter(_thousands())
        axes.margins(x=0.02)
        _set_title(axes, title, _legend_of_marks(shown, len(curves)))
        if len(shown) > 1 or target is not None:
            axes.legend(frameon=False, fontsize=9, loc="best")
        return _save(figure, out)


def plot_sweep(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw a heatmap of the last evaluation over the two hyperparameters that a run sweeps. Returns the path.

    Raises ValueError if the run sweeps more or fewer than two, or if its settings are not a grid.
    """
    folder = locate(folder)
    spec = _spec(folder)
    if spec.points:
        raise ValueError(f"the settings of {folder} are not a grid ({', '.join(spec.points)}); a heatmap needs a grid.")
    arrays, axes = _arrays(folder, spec), join(spec.sweep, spec.env_sweep)
    if len(axes) != 2:
        raise ValueError(
            f"{folder} sweeps {len(axes)} hyperparameters ({', '.join(axes) or 'none'}); a heatmap needs two."
        )
    evaluated = np.isfinite(arrays["eval_return"]).any(axis=1)
    name = "eval_return" if evaluated.any() else "train_return"
    last = np.flatnonzero(np.isfinite(arrays[name]).any(axis=1))
    if not last.size:
        raise ValueError(f"{folder} has no finished episode yet, so there is nothing to draw.")
    (row_name, rows), (column_name, columns) = axes.items()
    by_setting = arrays[name][last[-1]].reshape(len(rows) * len(columns), -1)
    scores = iqm_band(by_setting, resamples=1)[0].reshape(len(rows), len(columns))
    kind = "evaluation" if name == "eval_return" else "training"
    label = f"return in {kind}, IQM of {by_setting.shape[1]} seed{'s' * (by_setting.shape[1] > 1)}"
    out = out or folder / "figures" / "sweep.png"
    return sweep_heatmap({row_name: rows}, {column_name: columns}, scores, out, _title(spec), label)


def sweep_heatmap(
    rows: Mapping[str, Sequence[Any]],
    columns: Mapping[str, Sequence[Any]],
    scores: Float[np.ndarray, "rows columns"],
    out: str | Path,
    title: str = "",
    score_label: str = "episode return",
) -> Path:
    """Draw a heatmap of scores over two hyperparameters, each given as {name: values}. Returns the path."""
    from matplotlib import rc_context

    ((row_name, row_values),) = rows.items()
    ((column_name, column_values),) = columns.items()
    if scores.shape != (len(row_values), len(column_values)):
        raise ValueError(
            f"scores has shape {list(scores.shape)} for {len(row_values)} values of {row_name} and "
            f"{len(column_values)} of {column_name}. Give scores[row, column]."
        )
    with rc_context(STYLE):
        figure, axes = _figure(3.0 + 0.75 * len(column_values), 1.9 + 0.5 * len(row_values))
        image = axes.imshow(scores, cmap="viridis", origin="lower", aspect="auto")
        axes.set_xticks(range(len(column_values)), [_short(v) for v in column_values])
        axes.set_yticks(range(len(row_values)), [_short(v) for v in row_values])
        axes.set_xlabel(column_name)
        axes.set_ylabel(row_name)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        _write_scores(axes, image, scores)
        figure.colorbar(image, ax=axes, pad=0.03).outline.set_visible(False)
        _set_title(axes, title, score_label)
        return _save(figure, out)


def preload() -> None:
    """Import the parts of matplotlib that figures need, so that a thread can do it in advance."""
    import matplotlib.backends.backend_agg
    import matplotlib.collections
    import matplotlib.figure
    import matplotlib.ticker  # noqa: F401


def _draw_population(axes: Any, curve: Curve, color: str) -> None:
    there = np.isfinite(curve.y).any(axis=1)
    x, (center, low, high) = curve.x[there], iqm_band(curve.y[there])
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0, zorder=2)
    marker = "." if len(x) < 3 else None
    axes.plot(x, center, color=color, linewidth=1.8, label=curve.label, marker=marker, zorder=3)


def _draw_members(axes: Any, curve: Curve, color: str) -> None:
    from matplotlib.collections import LineCollection

    members = curve.y.T[:: -(-curve.y.shape[1] // MOST_MEMBER_LINES)]
    if len(members) > 1:
        lines = [np.stack([curve.x, member], axis=1) for member in members]
        axes.add_collection(LineCollection(lines, colors=color, alpha=0.16, linewidths=0.7, zorder=1))


def _draw_evaluations(axes: Any, curve: Curve, color: str) -> None:
    if curve.eval_y is None or not _is_evaluated(curve):
        return
    there = np.isfinite(curve.eval_y).any(axis=1)
    x, (center, low, high) = curve.x[there], iqm_band(curve.eval_y[there])
    axes.vlines(x, low, high, color=color, linewidth=1.4, zorder=4)
    axes.plot(x, center, "o", color=color, markerfacecolor="white", markersize=5.5, markeredgewidth=1.5, zorder=5)


def _is_evaluated(curve: Curve) -> bool:
    return curve.eval_y is not None and bool(np.isfinite(curve.eval_y).any())


def _legend_of_marks(shown: Sequence[Curve], total: int) -> str:
    """One line that explains the marks of a figure; `total` counts the curves before the best were chosen."""
    members = sorted({curve.y.shape[1] for curve in shown})
    count = str(members[0]) if len(members) == 1 else f"{members[0]} to {members[-1]}"
    what = "training" if any(curve.is_of_training for curve in shown) else "evaluation"
    parts = [f"line: one seed in {what}"]
    if members != [1]:
        parts = [f"line: {what}, IQM of {count} seeds"]
        parts += ["band: 95 % bootstrap interval"] * (members[-1] >= FEWEST)
    if len(shown) <= MOST_DETAILED:
        parts += ["thin: single seeds"] * (members != [1])
        parts += ["ring: evaluation"] * any(map(_is_evaluated, shown))
    if len(shown) < total:
        parts.append(f"best {len(shown)} of {total}")
    return " · ".join(parts)


def _best(curves: Sequence[Curve], count: int) -> list[Curve]:
    """The `count` curves with the highest last value, in their order. Raises ValueError if all values are NaN."""
    drawable = [curve for curve in curves if np.isfinite(curve.y).any()]
    if not drawable:
        raise ValueError("no episode has ended in these curves yet, so there is nothing to plot.")
    ends = [iqm_band(c.y[np.isfinite(c.y).any(axis=1)][-1:], resamples=1)[0][0] for c in drawable]
    chosen = sorted(np.argsort(ends)[::-1][:count].tolist())
    return [drawable[index] for index in chosen]


def _write_scores(axes: Any, image: Any, scores: np.ndarray) -> None:
    for row, column in itertools.product(*map(range, scores.shape)):
        score = scores[row, column]
        bright = np.isfinite(score) and image.norm(score) > 0.6
        words = _short(score) if np.isfinite(score) else "none"
        axes.text(column, row, words, ha="center", va="center", fontsize=9, color=INK if bright else "white")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _set_title(axes: Any, title: str, note: str) -> None:
    axes.set_title(note, loc="left", fontsize=8.5, color=PALE_INK, pad=8)
    if title:
        axes.annotate(
            title, (0, 1), (0, 25), xycoords="axes fraction", textcoords="offset points", fontsize=12, weight="bold"
        )


def _thousands() -> Any:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")


def _save(figure: Any, out: str | Path) -> Path:
    out = Path(out)
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a figure named {out.name!r} has no known format: end it in .png, .svg or .pdf.")
    out.parent.mkdir(parents=True, exist_ok=True)
    replace(out, lambda path: figure.savefig(path, format=out.suffix[1:].lower()))
    return out


def _curves(folder: Path, x: str) -> list[Curve]:
    """The curves of a run folder, one per setting (members are setting-major)."""
    if x not in X_AXES:
        raise ValueError(f"x={x!r} is unknown. Choose 'steps' or 'wall'.")
    spec = _spec(folder)
    arrays, settings = _arrays(folder, spec), spec.settings()
    labels = [", ".join(f"{path} {_short(value)}" for path, value in setting.items()) for setting in settings]
    train, evaluation = (np.split(arrays[name], len(settings), axis=1) for name in ("train_return", "eval_return"))
    if not np.isfinite(arrays["train_return"]).any():  # training has no episodes (`bc`), or none has ended yet
        train = evaluation
    return [Curve(label, arrays[X_AXES[x][0]], *both) for label, *both in zip(labels, train, evaluation, strict=True)]


def _arrays(folder: Path, spec: RunSpec) -> dict[str, np.ndarray]:
    return RunFolder(folder).read_curves(len(spec.settings()) * spec.seeds)


def _spec(folder: Path) -> RunSpec:
    return RunFolder(folder).read_spec()


def _title(spec: RunSpec) -> str:
    return f"{spec.agent} on {spec.env_name}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) and not isinstance(value, bool) else str(value)
