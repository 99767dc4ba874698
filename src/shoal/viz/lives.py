"""Figures of a run with a selector: lineage of members, hyperparameters over time, and the rungs of halving."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shoal.specs.describe import Described
from shoal.specs.roster import NOBODY
from shoal.training.lives import Life, best_members, hyperparameters_in, lineage, scores_in
from shoal.training.result import Result
from shoal.viz.chart import Chart, Dots, Levels, Line, Mark, Pieces, evenly
from shoal.viz.paint import color_map, draw, paint
from shoal.viz.run_data import X_AXES, RunData
from shoal.viz.scale import is_logarithmic
from shoal.viz.style import INK, TITLE_SIZE, add_colorbar, figure_style, save_figure

MOST_PANELS = 12  # hyperparameters in one figure
COLUMNS = 3
STEPS = X_AXES["steps"][1]
SCORE = "score (mean return)"
LINEAGE_NOTE = (
    "line: a member, in the row of its slot · vertical: a copy, which begins at the mark · black: ancestors of the best"
)


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
    run, result = _read(folder)
    slots = scores_in(result.curves).shape[1]
    chart = lineage_chart(result, range(slots))
    out = out or run.folder / "figures" / "lineage.png"
    return draw(chart, out, f"{run.title}: lineage", (7.6, min(9.0, 2.2 + 0.16 * slots)))


def plot_hyperparameters(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw every hyperparameter that varies over time, a line for each member, colored by its score at each time.

    A copy is joined to its original. Raises ValueError for a run in which no hyperparameter may change.
    """
    run, result = _read(folder)
    every = hyperparameters_in(result.curves)
    if not every:
        raise ValueError(f"{run.folder} has no hyperparameter that may change, so there is nothing to draw.")
    paths = every[:MOST_PANELS]
    columns = 2 if len(paths) in (2, 4) else min(COLUMNS, len(paths))
    rows = math.ceil(len(paths) / columns)
    charts = [_values_chart(result, path) for path in paths]
    with figure_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(max(4.6, 3.1 * columns + 0.9), 2.3 * rows + 0.9), layout="constrained")
        panels = np.atleast_1d(np.asarray(figure.subplots(rows, columns), object)).ravel()
        for number, (axes, chart) in enumerate(zip(panels, charts, strict=False)):
            is_above = number + columns < len(paths)  # another panel, which names the x axis
            paint(axes, chart._replace(x_label="" if is_above else chart.x_label))
            axes.set_title(chart.title, fontsize=9.5, loc="left", color=INK)
            axes.xaxis.label.set_size(8.5)
            axes.tick_params(labelsize=8)
        for axes in panels[len(paths) :]:
            axes.set_visible(False)
        add_colorbar(figure, list(panels), color_map(charts[0]), SCORE)
        title = f"{run.title}: hyperparameters"
        title += f" (the first {len(paths)} of {len(every)})" if len(paths) < len(every) else ""
        figure.suptitle(title, x=0.02, ha="left", fontsize=TITLE_SIZE, weight="bold")
        return save_figure(figure, out or run.folder / "figures" / "hyperparameters.png")


def plot_rungs(folder: str | Path, out: str | Path | None = None) -> Path:
    """Draw the scores of all members over time: those that were dropped end in a cross, the others go on in color."""
    run, result = _read(folder)
    return draw(rungs_chart(result), out or run.folder / "figures" / "rungs.png", f"{run.title}: rungs")


def lineage_chart(result: Result, slots: Sequence[int]) -> Chart:
    """Return the chart of who was copied from whom, with a row for each of these slots.

    The best member and its ancestors have their copies in ink.
    """
    scores, lives = scores_in(result.curves), result.lives
    record, row = np.nonzero(result.curves["occupant"][:, slots] != NOBODY)
    start, end = _times(result.curves)
    width = "slim" if len(slots) > 40 else ""
    bars = Pieces(start[record], row, end[record], row, width, scores[record, np.asarray(slots)[row]])
    row_of = {slot: row for row, slot in enumerate(slots)}
    line = lineage(lives, best_members(result.curves, 1)[0]["occupant"])
    copies = [life for life in lives.values() if life.parent in lives]
    copies = [life for life in copies if {life.slot, lives[life.parent].slot} <= {*slots}]
    ends = [(start[life.records[0]], row_of[lives[life.parent].slot], row_of[life.slot]) for life in copies]
    x, origin, own = np.array(ends, float).reshape(-1, 3).T
    of_best = np.array([life.occupant in line for life in copies], bool)
    marks: list[Mark] = [
        Pieces(x, origin, x, own, "c6 hair"),
        bars,
        Pieces(x[of_best], origin[of_best], x[of_best], own[of_best], "ink slim"),
        Dots(x, origin, "c6 slim"),
        Dots(x, own, "ink start"),
    ]
    about, colors = "lineage of the members", {"value_range": _range(scores), "value_words": SCORE}
    return Chart(marks, STEPS, "slot", about, note=LINEAGE_NOTE, small=len(slots) <= 8, whole_y=True, **colors)


def rungs_chart(result: Result, most: int = 10**9) -> Chart:
    """Return the chart of the scores of members over time, in which those that were dropped end early.

    Of more than `most` members, as many are shown: of those that went on at most half of it.
    """
    lives = [*result.lives.values()]
    others = dropped_lives(lives, result)
    dropped = {life.occupant for life in others}
    going_on = [life for life in lives if life.occupant not in dropped]
    going_on = going_on if len(lives) <= most else going_on[: most // 2]
    others = [others[i] for i in evenly(len(others), most - len(going_on))]
    steps = sorted({int(life.env_steps[-1]) for life in others})
    last = [(life, np.flatnonzero(np.isfinite(life.score))[-1:]) for life in others]
    ends = [(life.env_steps[at], life.score[at]) for life, at in last if len(at)]
    words = {"c0": "trained to the end", "c6 faint": "dropped", "c1 cross dotted": "last score of a dropped member"}
    marks: list[Mark] = [Levels(x=steps)]
    for style, chosen in (("c6 faint", others), ("c0", going_on)):
        marks += [Line(life.env_steps, life.score, style, f"member {life.occupant}") for life in chosen]
    x, y = np.array(ends, float).reshape(-1, 2).T
    marks.append(Dots(x, y, "c1 cross"))
    note = f"{len(dropped):,} of {len(lives):,} members were dropped at a rung"
    if (shown := len(going_on) + len(others)) < len(lives):
        note += f" · {shown} of them are shown"
    legend = [*words.items()]
    return Chart(marks, STEPS, "mean return", "scores of members until they were dropped", legend, note)


def _read(folder: str | Path) -> tuple[RunData, Result]:
    run = RunData(folder)
    return run, Result(run.folder)


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


def copies_of(lives: Sequence[Life], path: str, result: Result, style: str) -> Pieces:
    """Return vertical lines from the values of originals to those of their copies, which these lives are."""
    everyone, joins = result.lives, []
    for life in lives:
        if life.parent in everyone:
            before = everyone[life.parent]
            last = max(0, int(np.searchsorted(before.records, life.records[0])) - 1)
            values = before.hyperparameters[path][last], life.hyperparameters[path][0]
            joins.append((edges_of(life, result)[0], *map(float, values)))
    x, start, end = np.array(joins, float).reshape(-1, 3).T
    return Pieces(x, start, x, end, style)


def _values_chart(result: Result, path: str) -> Chart:
    """The values of one hyperparameter over time, in the colors of the scores of their members."""
    value, occupant, scores = result.curves[path], result.curves["occupant"], scores_in(result.curves)
    start, end = _times(result.curves)
    record, slot = np.nonzero(occupant != NOBODY)
    level = value[record, slot]
    changed, of = np.nonzero((occupant[1:] == occupant[:-1]) & (value[1:] != value[:-1]))  # of the same member
    marks = [
        copies_of([*result.lives.values()], path, result, "c6 hair"),
        Pieces(end[changed], value[changed, of], end[changed], value[changed + 1, of], "c6 hair"),
        Pieces(start[record], level, end[record], level, "slim", scores[record, slot]),
    ]
    is_log = is_logarithmic(value)
    return Chart(marks, "environment steps", "", title=path, log_y=is_log, small=True, value_range=_range(scores))


def _times(curves: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The steps at which each record begins and ends."""
    return np.append(0, curves["env_steps"][:-1]), curves["env_steps"]


def _range(scores: np.ndarray) -> tuple[float, float]:
    """The range of the colors of scores: of all but the lowest twentieth."""
    known = scores[np.isfinite(scores)]
    return (float(np.percentile(known, 5)), float(known.max())) if known.size else (0.0, 1.0)
