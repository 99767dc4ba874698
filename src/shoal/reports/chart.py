"""Charts as SVG inside HTML. They get as wide as the page, while their text and lines keep their size.

The plotting area is an SVG that is stretched; strokes do not scale with it. Ticks and labels are placed at percentages,
as text that can be selected. Colors are classes of the style sheet, which has values for light and dark pages.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.reports.markup import Html, joined, tag
from shoal.reports.scale import Scale, named_scale, scale_for
from shoal.reports.words import number
from shoal.tracking.text import short_number

WIDTH, HEIGHT = 2000, 1000  # units of the plotting area
MOST_POINTS = 240  # of a line; of more, as many are drawn, evenly spaced
COLORS = 8  # classes c0 to c7
SHADES = 12  # classes v0 to v11, from a low to a high score


class Line(NamedTuple):
    """A line through points; those that are NaN are left out."""

    x: Any
    y: Any
    style: str = "c0"
    words: str = ""  # shown under the pointer


class Band(NamedTuple):
    """The area between two lines."""

    x: Any
    low: Any
    high: Any
    style: str = "c0"


class Dots(NamedTuple):
    """Points. The style may be a color, with `ring` or `cross` for other marks than disks."""

    x: Any
    y: Any
    style: str = "c0"
    words: str = ""


class Pieces(NamedTuple):
    """Straight lines that are not joined, from (x0, y0) to (x1, y1)."""

    x0: Any
    y0: Any
    x1: Any
    y1: Any
    style: str = "c0"


Mark = Line | Band | Dots | Pieces


def chart(
    marks: Sequence[Mark],
    x_label: str,
    y_label: str,
    *,
    about: str,
    legend: Sequence[tuple[str, str]] = (),
    note: str = "",
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    x_words: Callable[[float], str] = short_number,
    x_names: Sequence[str] = (),
    tight_x: bool = True,
    small: bool = False,
    whole_x: bool = False,
    whole_y: bool = False,
) -> Html:
    """Return a chart. `about` describes it for readers who do not see it; `legend` has (style, words) of its marks.

    `note` is a line that explains the marks. `tight_x` leaves no margin left and right of the data. `x_names` are the
    labels of the positions 0, 1, ...; `whole_x` and `whole_y` put ticks at whole numbers only.
    """
    x = scale_for([v for mark in marks for v in _xs(mark)], log=log_x, words=x_words, tight=tight_x, whole=whole_x)
    if x_names:
        x = named_scale(x_names)
    y = scale_for([v for mark in marks for v in _ys(mark)], log=log_y, ticks=4 if small else 5, whole=whole_y)
    longest = max((len(words) for _, words in y.ticks), default=1)
    plot = tag(
        "svg",
        _axes(x, y, x_label),
        tag(
            "svg",
            joined(_drawn(mark, x, y) for mark in marks),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        ),
        class_="plot",
        role="img",
        aria_label=about,
        width="100%",
        height="100%",
    )
    return tag(
        "figure",
        tag("h4", title) if title else None,
        tag("figcaption", note) if note else None,
        tag("ul", *(tag("li", words, class_=style) for style, words in legend), class_="legend") if legend else None,
        tag("p", y_label, class_="y-label"),
        tag("div", plot, class_=f"canvas y{min(max(longest, 2), 9)}"),
        class_="chart small" if small else "chart",
    )


def shade(values: Any, low: float, high: float) -> np.ndarray:
    """Return the class number, 0 to SHADES - 1, of scores between low and high; -1 for those that are not known."""
    values = np.asarray(values, float)
    part = (values - low) / (high - low) if high > low else np.where(np.isfinite(values), 0.5, np.nan)
    return np.where(np.isfinite(values), np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1).astype(int), -1)


def shade_bar(low: float, high: float, words: str) -> Html:
    """Return the key of the shades: a bar from the lowest to the highest score."""
    cells = (
        tag("rect", x=f"{100 * i / SHADES:.2f}%", y="0", width=f"{100.5 / SHADES:.2f}%", height="100%", class_=f"v{i}")
        for i in range(SHADES)
    )
    bar = tag("svg", *cells, class_="shades", role="img", aria_label=f"from {number(low)} to {number(high)}")
    return tag("p", f"{words}: {number(low)} ", bar, f" {number(high)}", class_="key")


def interval_mark(score: Any, low: Any, high: Any, scale: Scale) -> Html:
    """Return a small picture of one score with its interval on a scale, for the row of a table."""
    if score is None or not np.isfinite(score):
        return Html("")
    width, inner = 120, 112
    place = [4 + inner * float(each) for each in scale.at([score, low, high])]
    parts = [tag("line", x1="0", x2=f"{width}", y1="8", y2="8", class_="grid")]
    if np.isfinite(place[1]) and np.isfinite(place[2]):
        parts.append(tag("line", x1=f"{place[1]:.1f}", x2=f"{place[2]:.1f}", y1="8", y2="8", class_="whisker"))
    parts.append(tag("circle", cx=f"{place[0]:.1f}", cy="8", r="3.5", class_="score"))
    words = f"{number(float(score))}"
    return tag("svg", *parts, class_="interval", width=f"{width}", height="16", role="img", aria_label=words)


def evenly(count: int, most: int = MOST_POINTS) -> np.ndarray:
    """Return at most `most` indices of `count` points, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)) if count else np.zeros(0, int)


def _axes(x: Scale, y: Scale, x_label: str) -> Html:
    parts = []
    for place, words in y.ticks:
        at = f"{100 * (1 - place):.2f}%"
        parts.append(tag("line", x1="0", x2="100%", y1=at, y2=at, class_="grid"))
        parts.append(tag("text", words, x="-8", y=at, dy="0.32em", text_anchor="end"))
    for place, words in x.ticks:
        at = f"{100 * place:.2f}%"
        parts.append(tag("line", x1=at, x2=at, y1="100%", y2="100%", class_="tick"))
        parts.append(tag("text", words, x=at, y="100%", dy="1.5em", text_anchor="middle"))
    parts.append(tag("line", x1="0", x2="100%", y1="100%", y2="100%", class_="axis"))
    parts.append(tag("text", x_label, x="50%", y="100%", dy="3.1em", text_anchor="middle", class_="label"))
    return joined(parts)


def _xs(mark: Mark) -> list[Any]:
    return [mark.x0, mark.x1] if isinstance(mark, Pieces) else [mark.x]


def _ys(mark: Mark) -> list[Any]:
    if isinstance(mark, Pieces):
        return [mark.y0, mark.y1]
    return [mark.low, mark.high] if isinstance(mark, Band) else [mark.y]


def _drawn(mark: Mark, x: Scale, y: Scale) -> Html | None:
    match mark:
        case Line():
            at = _places(x.at(mark.x), y.at(mark.y))
            if len(at) == 1:
                return _drawn(Dots(mark.x, mark.y, mark.style, mark.words), x, y)
            return _path("M" + "L".join(at[evenly(len(at))]), f"line {mark.style}", mark.words) if len(at) else None
        case Band():
            across = x.at(mark.x)
            low, high = y.at(mark.low), y.at(mark.high)
            there = np.isfinite(low) & np.isfinite(high)
            kept = np.flatnonzero(there)[evenly(int(there.sum()))]
            around = [*_places(across[kept], high[kept]), *_places(across[kept], low[kept])[::-1]]
            return _path(f"M{'L'.join(around)}Z", f"band {mark.style}") if len(kept) > 1 else None
        case Dots():
            at = _places(x.at(mark.x), y.at(mark.y))
            steps = "".join(f"M{each}h0" for each in at)
            if not len(at):
                return None
            inner = _path(steps, f"hole {mark.style}") if "ring" in mark.style else None
            return joined([_path(steps, f"dot {mark.style}", mark.words), inner])
        case Pieces():
            first, last = _places(x.at(mark.x0), y.at(mark.y0)), _places(x.at(mark.x1), y.at(mark.y1))
            return _path("".join(f"M{a}L{b}" for a, b in zip(first, last, strict=True)), f"piece {mark.style}")


def _path(steps: str, style: str, words: str = "") -> Html:
    title = tag("title", words) if words else ""
    return Html(f'<path class="{style}" d="{steps}">{title}</path>')


def _places(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return `x y` in units of the plotting area for every point that has both."""
    there = np.isfinite(x) & np.isfinite(y)
    across, down = (WIDTH * x[there]).round().astype(int), (HEIGHT * (1 - y[there])).round().astype(int)
    return np.array([f"{a} {b}" for a, b in zip(across, down, strict=True)], dtype=object)
