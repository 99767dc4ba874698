"""Figures of a run with a selector: lineage of members, hyperparameters over time, and the rungs of halving."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.specs.describe import Described
from shoal.training.lives import Life, hyperparameters_in, scores_in
from shoal.training.result import Result
from shoal.viz.run_data import X_AXES, RunData
from shoal.viz.style import (
    GRID,
    INK,
    PALE_INK,
    PALETTE,
    figure_style,
    new_figure,
    save_figure,
    set_axis_label,
    set_titles,
    thousands,
)

COLORS = "viridis"
MOST_PANELS = 12  # hyperparameters in one figure
COLUMNS = 3
DROPPED = "#B8B8B8"


def plot_lives(folder: str | Path) -> list[Path]:
    """Draw all figures of a run with a selector that its records allow, into `figures/`. Returns their paths.

    The figure of the lineage needs copied members, that of the rungs members that halving dropped, and that of
    hyperparameters at least one that may change. A run without a selector has none of these figures.
    """
    result = Result(folder)
    if "occupant" not in result.curves:
        return []
    paths = []
    lives = [*result.lives.values()]
    if any(life.parent >= 0 for life in lives):
        paths.append(plot_lineage(folder))
    if hyperparameters_in(result.curves):
        paths.append(plot_hyperparameters(folder))
    if is_halving(result) and dropped_lives(lives, result):
        paths.append(plot_rungs(folder))
    return paths


def plot_lineage(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw a line for every member, in the row of its slot and colored by its score; a copy is joined to its original.

    Raises ValueError for a run without a selector.
    """
    run, result, lives = _read(folder)
    scores = scores_in(result.curves)
    color = _color_of(scores)
    height = min(9.0, 2.2 + 0.16 * scores.shape[1])
    with figure_style():
        figure, axes = new_figure(7.6, height)
        for life in lives.values():
            edges = edges_of(life, result)
            _draw_line(axes, edges, np.full(len(edges), life.slot), color, life.score, 4 if scores.shape[1] < 40 else 2)
            if life.parent in lives:
                origin = lives[life.parent].slot
                axes.plot([edges[0]] * 2, [origin, life.slot], color=PALE_INK, linewidth=0.7, zorder=1)
                axes.plot(edges[0], origin, "o", color=PALE_INK, markersize=2.5, zorder=3)
                axes.plot(edges[0], life.slot, ">", color=INK, markersize=3.5, zorder=3)
        axes.set_xlabel(X_AXES["steps"][1])
        set_axis_label(axes.yaxis, "slot", height - 1)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.xaxis.set_major_formatter(thousands())
        axes.margins(x=0.01, y=0.03)
        _add_colorbar(figure, axes, color)
        note = "line: a member, in the row of its slot · vertical: a copy, from the dot of its original to the triangle"
        set_titles(figure, axes, f"{run.title}: lineage", note)
        return save_figure(figure, out or run.folder / "figures" / "lineage.png")


def plot_hyperparameters(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw every hyperparameter that varies over time, a line for each member, colored by its score at each time.

    A copy is joined to its original. Raises ValueError for a run in which no hyperparameter may change.
    """
    run, result, lives = _read(folder)
    paths = hyperparameters_in(result.curves)[:MOST_PANELS]
    if not paths:
        raise ValueError(f"{run.folder} has no hyperparameter that may change, so there is nothing to draw.")
    color = _color_of(scores_in(result.curves))
    columns = 2 if len(paths) in (2, 4) else min(COLUMNS, len(paths))
    rows = math.ceil(len(paths) / columns)
    with figure_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(max(4.6, 3.1 * columns + 0.9), 2.3 * rows + 0.9), layout="constrained")
        panels = np.atleast_1d(np.asarray(figure.subplots(rows, columns), object)).ravel()
        for number, (axes, path) in enumerate(zip(panels, paths, strict=False)):
            for life in lives.values():
                _draw_values(axes, life, path, lives, result, color)
            values = result.curves[path]
            if values.min() > 0 and values.max() > 20 * values.min():
                axes.set_yscale("log")
            axes.grid(color=GRID, linewidth=0.6)
            axes.set_title(path, fontsize=9.5, loc="left", color=INK)
            axes.xaxis.set_major_formatter(thousands())
            axes.tick_params(labelsize=8)
            if number + columns >= len(paths):  # no panel is below
                axes.set_xlabel("environment steps", fontsize=8.5)
        for axes in panels[len(paths) :]:
            axes.set_visible(False)
        _add_colorbar(figure, list(panels), color)
        more = len(hyperparameters_in(result.curves)) - len(paths)
        title = f"{run.title}: hyperparameters" + f" (the first {len(paths)} of {len(paths) + more})" * bool(more)
        figure.suptitle(title, x=0.02, ha="left", fontsize=12, weight="bold")
        return save_figure(figure, out or run.folder / "figures" / "hyperparameters.png")


def plot_rungs(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw the scores of all members over time: those that were dropped end in a cross, the others go on in color."""
    run, result, lives = _read(folder)
    dropped = {life.occupant for life in dropped_lives([*lives.values()], result)}
    with figure_style():
        figure, axes = new_figure(7.6, 4.6)
        for life in lives.values():
            is_dropped = life.occupant in dropped
            there = ~np.isnan(life.score)
            x, y = life.env_steps[there], life.score[there]
            color = DROPPED if is_dropped else PALETTE[0]
            axes.plot(x, y, color=color, linewidth=1 if is_dropped else 1.6, marker="." if len(x) < 2 else None)
            if is_dropped and len(x):
                axes.plot(x[-1], y[-1], "x", color=PALETTE[1], markersize=4.5, zorder=4)
        for step in sorted({int(lives[occupant].env_steps[-1]) for occupant in dropped}):
            axes.axvline(step, color=GRID, linewidth=1, zorder=0)
        axes.set_xlabel(X_AXES["steps"][1])
        set_axis_label(axes.yaxis, "mean return", 3.6)
        axes.xaxis.set_major_formatter(thousands())
        note = f"blue: trained to the end ({len(lives) - len(dropped)}) · cross: dropped at a rung ({len(dropped)})"
        set_titles(figure, axes, f"{run.title}: rungs", note)
        return save_figure(figure, out or run.folder / "figures" / "rungs.png")


def _read(folder: str | Path) -> tuple[RunData, Result, dict[int, Life]]:
    run = RunData(folder)
    result = Result(run.folder)
    return run, result, result.lives


def is_halving(result: Result) -> bool:
    """Return whether the selector of a run is halving, so that members which ended were dropped at a rung."""
    described = result.spec.selector
    return isinstance(described, Described) and described.name == "halving"


def dropped_lives(lives: Sequence[Life], result: Result) -> list[Life]:
    """Return the lives that ended before the last record."""
    last = len(result.curves["env_steps"]) - 1
    return [life for life in lives if life.records[-1] < last]


def edges_of(life: Life, result: Result) -> np.ndarray:
    """Return the steps [n + 1] at which the records of a life begin, and at which the last one ends."""
    before = result.curves["env_steps"][life.records[0] - 1] if life.records[0] else 0
    return np.concatenate([np.asarray([before]), life.env_steps])


def _color_of(scores: np.ndarray) -> Any:
    """Return matplotlib's map from scores to colors, over the range of all scores but the lowest twentieth."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    known = scores[np.isfinite(scores)]
    low, high = (np.percentile(known, 5), known.max()) if known.size else (0, 1)
    return ScalarMappable(Normalize(low, high), COLORS)


def _draw_line(axes: Any, x: np.ndarray, y: np.ndarray, color: Any, score: np.ndarray, width: float) -> None:
    """Draw n pieces of a line through n + 1 points, colored by the scores [n]; gray where there is none."""
    from matplotlib.collections import LineCollection

    points = np.stack([x, y], axis=1).astype(float)
    pieces = np.stack([points[:-1], points[1:]], axis=1)
    colors = [color.to_rgba(s) if np.isfinite(s) else DROPPED for s in score]
    axes.add_collection(LineCollection(list(pieces), colors=colors, linewidths=width, zorder=2))
    axes.autoscale_view()


def _draw_values(axes: Any, life: Life, path: str, lives: dict[int, Life], result: Result, color: Any) -> None:
    edges, values = edges_of(life, result), life.hyperparameters[path]
    x, y = np.repeat(edges, 2)[1:-1], np.repeat(values, 2)
    _draw_line(axes, x, y, color, np.repeat(life.score, 2)[:-1], 1.4)
    if life.parent in lives:
        before = lives[life.parent].hyperparameters[path]
        origin = before[np.searchsorted(lives[life.parent].records, life.records[0]) - 1]
        axes.plot([edges[0]] * 2, [origin, values[0]], color=PALE_INK, linewidth=0.5, zorder=1)


def _add_colorbar(figure: Any, axes: Any, color: Any) -> None:
    bar = figure.colorbar(color, ax=axes, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.set_label("score (mean return)", fontsize=9)
