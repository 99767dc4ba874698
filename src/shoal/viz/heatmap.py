"""Heatmaps: the last value of a metric over two swept hyperparameters."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from shoal.ops.statistics import iqm_band
from shoal.viz.run_data import RunData
from shoal.viz.style import INK, figure_style, new_figure, save_figure, set_axis_label, set_titles
from shoal.viz.words import number, rounded

MOST_NUMBERED = 18  # columns or rows of a heatmap whose cells show their values
WIDEST = 13.0  # inches, of all cells together
NO_VALUE = "#D9D9D9"  # the color of cells without a value


def plot_sweep(
    folder: str | Path, out: str | Path | None = None, by: Sequence[str] = (), metric: str = "eval_return"
) -> Path:
    """Draw a heatmap of the last value of a metric over two hyperparameters that a run sweeps. Returns the path.

    `by` names the two hyperparameters (rows, columns); it can be left out if the run sweeps exactly two. A cell is the
    interquartile mean over its seeds and, if the run sweeps more, over all values of the others. Without evaluations,
    the return of training is shown. Raises ValueError if the settings are not a grid of the two.
    """
    run = RunData(folder)
    by = by or run.spec.varying
    if len(by) != 2:
        raise ValueError(
            f"{run.folder} sweeps {len(by)} hyperparameters ({', '.join(by) or 'none'}); a heatmap needs two."
        )
    if metric == "eval_return" and not np.isfinite(run.arrays[metric]).any():
        metric = "train_return"
    rows, columns, scores = scores_of_grid(run, by, _last_values(run, metric))
    pooled = [field for field in run.spec.varying if field not in by]
    members = run.spec.members // scores.size
    of = f"IQM of {members} seeds" if members > 1 else "one seed"
    if pooled:
        of = f"IQM of {members} members, pooled over {', '.join(pooled)}"
    if out is None:
        name = "sweep.png" if not pooled and metric.endswith("_return") else f"sweep-{by[0]}-{by[1]}-{metric}.png"
        out = run.folder / "figures" / name
    label = f"{run.label_of(metric)} at the end, {of}"
    return sweep_heatmap({by[0]: rows}, {by[1]: columns}, scores, out, run.title, label)


def scores_of_grid(
    run: RunData, by: Sequence[str], values: Float[np.ndarray, "M"]
) -> tuple[list[Any], list[Any], Float[np.ndarray, "rows columns"]]:
    """Return the values of two hyperparameters, and the interquartile mean of `values` over the members with both.

    Raises ValueError if no member has some pair of them.
    """
    rows, columns = (run.values_of(field) for field in by)
    groups = [run.members_with({by[0]: row, by[1]: column}) for row in rows for column in columns]
    if not all(group.any() for group in groups):
        raise ValueError(f"the settings of {run.folder} are not a grid ({', '.join(by)}); a heatmap needs a grid.")
    scores = np.array([iqm_band(values[None, group], resamples=1)[0][0] for group in groups])
    return rows, columns, scores.reshape(len(rows), -1)


def sweep_heatmap(
    rows: Mapping[str, Sequence[Any]],
    columns: Mapping[str, Sequence[Any]],
    scores: Float[np.ndarray, "rows columns"],
    out: str | Path,
    title: str = "",
    score_label: str = "episode return",
) -> Path:
    """Draw a heatmap of scores over two hyperparameters, each given as {name: values}. Returns the path.

    Cells are equally large, whatever the distances between the values, so values on a logarithmic scale are fine.
    """
    ((row_name, row_values),) = rows.items()
    ((column_name, column_values),) = columns.items()
    if scores.shape != (len(row_values), len(column_values)):
        raise ValueError(
            f"scores has shape {list(scores.shape)} for {len(row_values)} values of {row_name} and "
            f"{len(column_values)} of {column_name}. Give scores[row, column]."
        )
    cell = min(0.75, WIDEST / len(column_values))
    with figure_style():
        figure, axes = new_figure(max(4.8, 2.6 + cell * len(column_values)), 2.0 + min(0.5, cell) * len(row_values))
        image = axes.imshow(scores, cmap="viridis", origin="lower", aspect="auto")
        axes.set_facecolor(NO_VALUE)
        axes.set_xticks(range(len(column_values)), [*map(rounded, column_values)])
        axes.set_yticks(range(len(row_values)), [*map(rounded, row_values)])
        if len(column_values) > 8:
            axes.tick_params(axis="x", labelrotation=45)
        set_axis_label(axes.xaxis, column_name, cell * len(column_values))
        set_axis_label(axes.yaxis, row_name, 0.7 + min(0.5, cell) * len(row_values))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if max(scores.shape) <= MOST_NUMBERED:
            _write_scores(axes, image, scores)
        figure.colorbar(image, ax=axes, pad=0.03).outline.set_visible(False)
        set_titles(figure, axes, title, score_label)
        return save_figure(figure, out)


def _last_values(run: RunData, metric: str) -> Float[np.ndarray, "M"]:
    """Return the values [M] of the last record in which a member has one."""
    values = run.values(metric)
    recorded = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not recorded.size:
        raise ValueError(f"{run.folder} has no value of {metric} yet, so there is nothing to draw.")
    return values[recorded[-1]]


def _write_scores(axes: Any, image: Any, scores: np.ndarray) -> None:
    """Write the score of each cell into it, black on bright colors and white on dark ones."""
    for row, column in itertools.product(*map(range, scores.shape)):
        score = scores[row, column]
        words, color = "none", INK
        if np.isfinite(score):
            luminance = np.dot(np.power(image.to_rgba(score)[:3], 2.2), (0.2126, 0.7152, 0.0722))
            words, color = number(score), INK if luminance > 0.22 else "white"  # the color with the higher contrast
        axes.text(column, row, words, ha="center", va="center", fontsize=9, color=color)
