"""Charts as SVG inside HTML. They get as wide as the page, while their text and lines keep their size.

The plotting area is an SVG that is stretched; strokes do not scale with it. Ticks and labels are placed at percentages,
as text that can be selected. Colors are classes of the style sheet, which has values for light and dark pages.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shoal.reports.markup import Html, joined, render, tag
from shoal.viz.chart import Band, Chart, Dots, Levels, Line, Mark, Pieces, evenly
from shoal.viz.scale import Scale

WIDTH, HEIGHT = 2000, 1000  # units of the plotting area
MOST_POINTS = 240  # of a line; of more, as many are drawn, evenly spaced
COLORS = 8  # classes c0 to c7
SHADES = 12  # classes v0 to v11, from a low to a high score


def chart(marks: Sequence[Mark], x_label: str, y_label: str, **how: Any) -> Html:
    """Return the chart of marks on a page. `how` are the other fields of `viz.chart.Chart`."""
    return show(Chart(marks, x_label, y_label, **how))


def show(shown: Chart) -> Html:
    """Return a chart as HTML: its words, its legend, and the plotting area."""
    x, y = shown.scales()
    longest = max((len(words) for _, words in y.ticks), default=1)
    return render(
        "chart",
        chart=shown,
        legend=legend(shown.legend),
        shades=shade_bar(*shown.value_range, shown.value_words) if shown.value_words else None,
        room=min(max(longest, 2), 9),  # letters left of the axis
        x_ticks=[(f"{100 * x.at(value):.2f}%", words) for value, words in x.ticks],
        y_ticks=[(f"{100 * (1 - y.at(value)):.2f}%", words) for value, words in y.ticks],
        marks=joined(_drawn(mark, x, y, shown.value_range) for mark in shown.marks),
        width=WIDTH,
        height=HEIGHT,
    )


def legend(marks: Sequence[tuple[str, str]]) -> Html | None:
    """Return the key of (style, words) of marks; None without any."""
    return render("legend", marks=marks) if marks else None


def panels(charts: Iterable[Chart | Html]) -> Html:
    """Return small charts side by side, as far as there is room."""
    parts = (chart if isinstance(chart, Html) else show(chart._replace(small=True)) for chart in charts)
    return tag("div", *parts, class_="panels")


def shade(values: Any, low: float, high: float) -> np.ndarray:
    """Return the class number, 0 to SHADES - 1, of scores between low and high; -1 for those that are not known."""
    values = np.asarray(values, float)
    part = (values - low) / (high - low) if high > low else np.where(np.isfinite(values), 0.5, np.nan)
    return np.where(np.isfinite(values), np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1).astype(int), -1)


def shade_bar(low: float, high: float, words: str) -> Html:
    """Return the key of the shades: a bar from the lowest to the highest score."""
    return render("shades", low=low, high=high, words=words, count=SHADES)


def interval_mark(score: Any, low: Any, high: Any, scale: Scale) -> Html:
    """Return a small picture of one score with its interval on a scale, for the row of a table."""
    if score is None or not np.isfinite(score):
        return Html("")
    places = 4 + 112 * scale.at([score, low, high])
    return render("interval", score=score, places=places, has_interval=np.isfinite(places).all())


def _drawn(mark: Mark, x: Scale, y: Scale, value_range: tuple[float, float]) -> Html | None:
    match mark:
        case Line():
            at = _places(x.at(mark.x), y.at(mark.y))
            if len(at) == 1:
                return _drawn(Dots(mark.x, mark.y, mark.style, mark.words), x, y, value_range)
            steps = "M" + "L".join(at[evenly(len(at), MOST_POINTS)])
            return _path(steps, f"line {mark.style}", mark.words) if len(at) else None
        case Band():
            across, low, high = x.at(mark.x), y.at(mark.low), y.at(mark.high)
            there = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
            kept = there[evenly(len(there), MOST_POINTS)]
            around = [*_places(across[kept], high[kept]), *_places(across[kept], low[kept])[::-1]]
            return _path(f"M{'L'.join(around)}Z", f"band {mark.style}") if len(kept) > 1 else None
        case Dots():
            steps = "".join(f"M{point}h0" for point in _places(x.at(mark.x), y.at(mark.y)))
            inner = _path(steps, f"hole {mark.style}") if "ring" in mark.style else None
            return joined([_path(steps, f"dot {mark.style}", mark.words), inner]) if steps else None
        case Pieces():
            return _pieces(mark, x, y, value_range)
        case Levels():
            steps = [f"M{WIDTH * at:.0f} 0V{HEIGHT}" for at in x.at(mark.x)]
            steps += [f"M0 {HEIGHT * (1 - at):.0f}H{WIDTH}" for at in y.at(mark.y)]
            return _path("".join(steps), f"level {mark.style}")


def _pieces(mark: Pieces, x: Scale, y: Scale, value_range: tuple[float, float]) -> Html:
    """A path of all pieces; one for each color of their values."""
    ends = np.stack([x.at(mark.x0), y.at(mark.y0), x.at(mark.x1), y.at(mark.y1)], axis=1)
    there = np.isfinite(ends).all(axis=1)
    first, last = _places(*ends[there].T[:2]), _places(*ends[there].T[2:])
    steps = np.array([f"M{a}L{b}" for a, b in zip(first, last, strict=True)], object)
    if mark.values is None:
        return _path("".join(steps), f"piece {mark.style}")
    colors = shade(np.asarray(mark.values, float)[there], *value_range)
    styles = {color: f"piece {f'v{color}' if color >= 0 else 'c6'} {mark.style}".strip() for color in np.unique(colors)}
    return joined(_path("".join(steps[colors == color]), style) for color, style in styles.items())


def _path(steps: str, style: str, words: str = "") -> Html:
    return tag("path", tag("title", words) if words else None, class_=style, d=steps)


def _places(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return `x y` in units of the plotting area for every point that has both."""
    there = np.isfinite(x) & np.isfinite(y)
    across, down = (WIDTH * x[there]).round().astype(int), (HEIGHT * (1 - y[there])).round().astype(int)
    return np.array([f"{a} {b}" for a, b in zip(across, down, strict=True)], dtype=object)
