"""A chart as a value: marks, axes and words. `viz.paint` draws it into a file, `reports.chart` on a page.

The two are drawn apart because a page needs what a picture has not: it is light or dark as its reader prefers, its
texts can be selected and keep their size at any width, and words appear under the pointer. A figure is a PNG, SVG or
PDF file for an article. All that can be shared is here: data, ranges and ticks (`viz.scale`), colors and styles.

A style is a color and other words, in any order: `c0` to `c7` and `ink` are colors, `dashed`, `thin` (one of many
lines), `slim`, `hair`, `faint`, `large`, `ring`, `cross` and `start` (where a line begins) change the form of a mark.
`grid` is the style of a line that is part of the plotting area.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.tracking.text import short_number
from shoal.viz.scale import Scale, named_scale, scale_for


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
    """Points."""

    x: Any
    y: Any
    style: str = "c0"
    words: str = ""


class Pieces(NamedTuple):
    """Straight lines that are not joined, from (x0, y0) to (x1, y1); with `values`, in their colors."""

    x0: Any
    y0: Any
    x1: Any
    y1: Any
    style: str = "c0"
    values: Any = None  # numbers; NaN: not known


class Levels(NamedTuple):
    """Straight lines through the whole plotting area, at some values of x and of y."""

    x: Sequence[float] = ()
    y: Sequence[float] = ()
    style: str = "grid"


Mark = Line | Band | Dots | Pieces | Levels


class Chart(NamedTuple):
    """Marks with their axes and words. `about` describes it for readers who do not see it."""

    marks: Sequence[Mark]
    x_label: str
    y_label: str
    about: str = ""
    legend: Sequence[tuple[str, str]] = ()  # (style, words) of the marks
    note: str = ""  # a line that explains the marks
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    x_words: Callable[[float], str] = short_number
    x_names: Sequence[str] = ()  # the labels of the positions 0, 1, ...
    y_names: Sequence[str] = ()
    tight_x: bool = True  # no margin left and right of the data
    small: bool = False
    whole_x: bool = False  # ticks at whole numbers only
    whole_y: bool = False
    value_range: tuple[float, float] = (0.0, 1.0)  # of the colors of pieces with values
    value_words: str = ""  # what these values are

    def scales(self, ticks: int = 5) -> tuple[Scale, Scale]:
        """Return the axes, which show all marks, with about this number of ticks; those of a small chart with fewer."""
        x = [value for mark in self.marks for value in _along(mark, "x")]
        y = [value for mark in self.marks for value in _along(mark, "y")]
        words, whole = self.x_words, self.whole_x
        return (
            named_scale(self.x_names)
            if self.x_names
            else scale_for(
                x, log=self.log_x, ticks=5 if self.small else ticks, words=words, tight=self.tight_x, whole=whole
            ),
            named_scale(self.y_names)
            if self.y_names
            else scale_for(y, log=self.log_y, ticks=4 if self.small else ticks, whole=self.whole_y),
        )


def evenly(count: int, most: int) -> np.ndarray:
    """Return at most `most` indices of `count` points, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)) if count else np.zeros(0, int)


def _along(mark: Mark, axis: str) -> list[Any]:
    """The values that a mark shows along the axis "x" or "y"."""
    if isinstance(mark, Pieces):
        return [mark.x0, mark.x1] if axis == "x" else [mark.y0, mark.y1]
    if isinstance(mark, Band) and axis == "y":
        return [mark.low, mark.high]
    return [getattr(mark, axis)]
