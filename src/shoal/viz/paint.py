"""Paint a chart with matplotlib, as a figure in a file."""

from pathlib import Path
from typing import Any

import numpy as np

from shoal.viz.chart import Band, Chart, Dots, Levels, Mark, Pieces
from shoal.viz.scale import Scale
from shoal.viz.style import (
    GRID,
    INK,
    PALETTE,
    add_colorbar,
    figure_style,
    new_figure,
    place_legend,
    save_figure,
    set_axis_label,
    set_titles,
)

COLORS = {**{f"c{i}": color for i, color in enumerate(PALETTE)}, "ink": INK, "grid": GRID}
TICKS = 7  # of each axis, about
UNKNOWN = "#B8B8B8"  # the color of pieces whose value is not known
LINES = {"thin": (0.7, 0.16), "slim": (1.2, 1), "hair": (0.6, 1), "faint": (1.0, 0.5)}  # (width, opacity)
SIZES = {"slim": 2.5, "large": 7.0, "ring": 5.5, "start": 3.5}  # of dots, in points
SHAPES = {"cross": "x", "start": ">"}
RING = {"markerfacecolor": "white", "markeredgewidth": 1.5}


def draw(chart: Chart, out: str | Path, title: str = "", size: tuple[float, float] = (7.6, 4.6)) -> Path:
    """Draw a chart of this size in inches into a file, below its note and this title. Returns the path."""
    with figure_style():
        figure, axes = new_figure(*size)
        paint(axes, chart)
        if chart.value_words:
            add_colorbar(figure, axes, color_map(chart), chart.value_words)
        set_axis_label(axes.yaxis, chart.y_label, size[1] - 1)
        set_titles(figure, axes, title, chart.note)
        if chart.legend:
            place_legend(
                figure, axes, [legend_key(style) for style, _ in chart.legend], [words for _, words in chart.legend]
            )
        return save_figure(figure, out)


def paint(axes: Any, chart: Chart, ticks: int = TICKS) -> None:
    """Paint the marks of a chart, with their axes of about so many ticks, into the axes of matplotlib."""
    for order, mark in enumerate(chart.marks):
        for artist in _painted(axes, mark, chart):
            artist.set(zorder=2 + order / len(chart.marks), clip_on=False)
    scales = chart._replace(tight_x=False).scales(ticks)
    for name, axis, scale in zip("xy", (axes.xaxis, axes.yaxis), scales, strict=True):
        axes.set(**{f"{name}scale": "log" if scale.log else "linear", f"{name}lim": scale.limits})
        set_ticks(axis, scale)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(chart.x_label)


def color_map(chart: Chart) -> Any:
    """Return matplotlib's map from the values of a chart to colors."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(*chart.value_range), "viridis")


def set_ticks(axis: Any, scale: Scale) -> None:
    """Give an axis of matplotlib the ticks of a scale, and no others."""
    from matplotlib.ticker import NullLocator

    axis.set_ticks([value for value, _ in scale.ticks], [words for _, words in scale.ticks])
    axis.set_minor_locator(NullLocator())


def _painted(axes: Any, mark: Mark, chart: Chart) -> list[Any]:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    color = _color(mark.style)
    if isinstance(mark, Band):
        return [axes.fill_between(mark.x, mark.low, mark.high, color=color, alpha=0.16, linewidth=0)]
    if isinstance(mark, Levels):
        how = {"color": color, **_line(mark.style), "linewidth": 1}
        return [*(axes.axvline(x, **how) for x in mark.x), *(axes.axhline(y, **how) for y in mark.y)]
    if isinstance(mark, Pieces):
        ends = np.stack([*map(np.asarray, np.broadcast_arrays(*mark[:4]))], axis=-1).astype(float)
        there = np.isfinite(ends).all(axis=1)
        colors: Any = color
        if mark.values is not None:
            values = np.asarray(mark.values, float)[there]
            colors = np.where(np.isfinite(values)[:, None], color_map(chart).to_rgba(values), to_rgba(UNKNOWN))
        width = _line(mark.style, 3.5)["linewidth"]
        return [axes.add_collection(LineCollection([*ends[there].reshape(-1, 2, 2)], colors=colors, linewidths=width))]
    x, y = np.asarray(mark.x), np.asarray(mark.y, float)
    there = np.isfinite(y) & np.isfinite(np.asarray(x, float))
    x, y = x[there], y[there]
    if isinstance(mark, Dots):
        return axes.plot(x, y, label=mark.words or None, **_dots(mark.style))
    if "thin" in mark.style.split():  # many of them: not one artist for each that a legend would name
        how = _line(mark.style)
        lines = LineCollection(
            [np.stack([x, y], axis=1)], colors=color, linewidths=how["linewidth"], alpha=how["alpha"]
        )
        return [axes.add_collection(lines)]
    marker = "." if len(x) < 3 else None
    return axes.plot(x, y, color=color, marker=marker, label=mark.words or None, **_line(mark.style))


def legend_key(style: str) -> Any:
    """Return the mark of a style in a legend."""
    from matplotlib.lines import Line2D

    is_dots = "dotted" in style.split()
    return Line2D([], [], **(_dots(style) if is_dots else {"color": _color(style), **_line(style)}))


def _line(style: str, width: float = 1.8) -> dict[str, Any]:
    words = style.split()
    width, alpha = next((LINES[word] for word in words if word in LINES), (width, 1.0))
    return {"linewidth": width, "alpha": alpha, "linestyle": (0, (4, 3)) if "dashed" in words else "-"}


def _dots(style: str) -> dict[str, Any]:
    words = style.split()
    size = next((SIZES[word] for word in words if word in SIZES), 4.5)
    shape = next((SHAPES[word] for word in words if word in SHAPES), "o")
    how = {"color": _color(style), "marker": shape, "linestyle": "", "markersize": size}
    return {**how, "alpha": 0.55 if "faint" in words else 1.0, **(RING if "ring" in words else {})}


def _color(style: str) -> str:
    return next((COLORS[word] for word in style.split() if word in COLORS), INK)
