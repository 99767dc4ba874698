"""Figures of several panels with one legend, of a given width and in a given font: for papers."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.viz.chart import Chart
from shoal.viz.paint import legend_key, paint
from shoal.viz.style import (
    INK,
    LETTER,
    TITLE_SIZE,
    check_figure_format,
    figure_style,
    save_figure,
    set_axis_label,
    spelled,
)

LEGENDS = ("below", "above", "none")
ENTRY, LETTER_WIDTH = 0.62, 0.085  # inches that an entry of the legend takes, and each of its letters
WIDTHS = (1.0, 40.0)  # inches
WIDE = 6.0  # inches; a narrower figure has smaller letters
TITLE_SHARE = 0.7  # of the width of a panel that its title may take, beside names of rows
TICK = 0.5  # inches between the ticks of a panel, at least


def draw_panels(
    rows: Sequence[Sequence[Chart]],
    out: str | Path,
    title: str = "",
    *,
    heights: Sequence[float] = (),
    width: float = 7.6,
    legend: str = "below",
    font: str = "sans",
) -> Path:
    """Draw rows of charts, all of one width within a row, into a file. Returns its path.

    `width` of the figure and `heights` of its rows (default: those of panels a little wider than high) are in inches.
    The legend, that of the first chart which has one, is `below` or `above` all panels, or `none`.
    Raises ValueError for another legend, a width outside of 1 to 40 inches, an unknown font or format.
    """
    check_figure_format(Path(out))
    if legend not in LEGENDS:
        raise ValueError(f"legend={legend!r} is unknown. Choose one of {', '.join(LEGENDS)}.")
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise ValueError(f"width={width:g} must be from {WIDTHS[0]:g} to {WIDTHS[1]:g} inches.")
    heights = heights or [0.8 * width / len(row) + 0.3 for row in rows]
    entries = next((chart.legend for row in rows for chart in row if chart.legend), ()) if legend != "none" else ()
    lines = _legend_lines(entries, width)
    first = int(bool(entries) and legend == "above")
    heights = [*[0.12 + 0.2 * lines] * first, *heights, *[0.12 + 0.2 * lines] * (bool(entries) and not first)]
    with figure_style(font):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, sum(heights) + 0.35 * bool(title)), layout="constrained")
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, row, height in zip(parts[first:], rows, heights[first:], strict=False):
            for axes, chart in zip(part.subplots(1, len(row), squeeze=False)[0], row, strict=True):
                _paint_panel(axes, _spelled(chart, font), width / len(row), height, 8 if width < WIDE else 9)
        if entries:
            entries = [(style, spelled(words, font)) for style, words in entries]
            _place_legend(parts[0 if first else -1], entries, lines, 8 if width < WIDE else 9)
        if title:
            weight = "normal" if font == "latex" else "bold"  # which matplotlib has no file of
            figure.suptitle(spelled(title, font), x=0.02, ha="left", fontsize=TITLE_SIZE, weight=weight)
        return save_figure(figure, out)


def in_rows(charts: Sequence[Chart], most: int) -> list[list[Chart]]:
    """Return charts in rows of at most so many, the last one filled with empty places."""
    across = min(most, len(charts))
    filled = [*charts, *[Chart([], "", "")] * (-len(charts) % across)]
    return [filled[i : i + across] for i in range(0, len(filled), across)]


def _spelled(chart: Chart, font: str) -> Chart:
    words = {name: spelled(getattr(chart, name), font) for name in ("title", "x_label", "y_label")}
    return chart._replace(**words, y_names=[spelled(name, font) for name in chart.y_names])


def _paint_panel(axes: Any, chart: Chart, width: float, height: float, size: int) -> None:
    if not chart.marks:  # the place after the last panel
        axes.set_visible(False)
        return
    paint(axes, chart._replace(small=False), ticks=max(2, min(6, int(min(width, height) / TICK) - 1)))
    room = (TITLE_SHARE if chart.y_names else 1) * width * 72 / (LETTER * max(1, len(chart.title)))
    axes.set_title(chart.title, fontsize=min(size, room), loc="left", color=INK)
    set_axis_label(axes.yaxis, chart.y_label or " ", height - 0.4)
    axes.yaxis.label.set_size(min(axes.yaxis.label.get_size(), size))
    set_axis_label(axes.xaxis, chart.x_label or " ", width - 0.7)
    axes.xaxis.label.set_size(min(axes.xaxis.label.get_size(), size))
    axes.tick_params(labelsize=size - 1)


def _legend_lines(entries: Sequence[tuple[str, str]], width: float) -> int:
    """The number of lines of a legend of this width in inches."""
    longest = max((len(words) for _, words in entries), default=0)
    across = max(1, int(width / (ENTRY + LETTER_WIDTH * longest)))
    return math.ceil(len(entries) / across)


def _place_legend(part: Any, entries: Sequence[tuple[str, str]], lines: int, size: int) -> None:
    part.legend(
        [legend_key(style) for style, _ in entries],
        [words for _, words in entries],
        loc="center",
        ncols=math.ceil(len(entries) / lines),
        frameon=False,
        fontsize=size,
    )
