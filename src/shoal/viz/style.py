"""The parts of all figures: colors, fonts, titles that are wrapped, a legend that covers no curve, and file formats.

matplotlib is imported only when a figure is drawn. `pyplot` is never imported: it is slow, and it keeps every figure in
memory. The suffix of the file decides the format: .png, .svg or .pdf.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.specs.disk import replace

# After Okabe and Ito's palette, whose colors color-blind readers can distinguish too; the strongest colors first. Its
# light colors are darker here, so that each has a contrast of at least 3.5 to white. Reports have the same ones.
PALETTE = ("#0072b2", "#d55e00", "#008a64", "#b8578f", "#b87900", "#2f8fc4", "#666666", "#7a5195")
INK, PALE_INK, GRID = "#222222", "#5F5F5F", "#E4E4E4"
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
    "pdf.fonttype": 42,  # TrueType, which journals ask for
}
# By name: fonts that come with matplotlib, so that no TeX is needed. Where a font lacks a letter, the next one has it.
FONTS: Any = {
    "sans": {},
    "latex": {
        "font.family": ["cmr10", "DejaVu Serif"],
        "mathtext.fontset": "cm",
        "axes.unicode_minus": False,
        "axes.formatter.use_mathtext": True,  # else matplotlib warns, for its own labels of ticks
    },
    "times": {"font.family": ["STIXGeneral", "DejaVu Serif"], "mathtext.fontset": "stix"},
}
TITLE_SIZE, NOTE_SIZE, LEGEND_SIZE = 12, 8.5, 9  # points
LETTER = 0.54  # mean width of a letter, as a fraction of the font's size
LEFT_MARGIN = 1.0  # inches, at most: from the edge of a figure to its axes
CORNERS = ("upper left", "upper right", "lower right", "lower left", "center right", "center left")
CLEARANCE = 4  # pixels between a legend inside the axes and the nearest curve


@contextmanager
def figure_style(font: str = "sans") -> Iterator[None]:
    """Draw with the style of shoal's figures, whatever style the user or another library has set in matplotlib.

    `font` is one of `FONTS`, or the name of a family that is installed. Raises ValueError for another one.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | (FONTS[font] if font in FONTS else _installed(font)))
        yield


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of this size in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def set_titles(figure: Any, axes: Any, title: str, note: str) -> None:
    """Write a bold title, and a note that explains the marks, above the axes. Long ones are wrapped."""
    room = figure.get_figwidth() - LEFT_MARGIN
    note = _wrapped(note, figure, room, fontsize=NOTE_SIZE)
    axes.set_title(note, loc="left", fontsize=NOTE_SIZE, color=PALE_INK, pad=8)
    if title:
        font = {"fontsize": TITLE_SIZE, "weight": "bold"}
        figure.suptitle(_wrapped(title, figure, room, **font), x=0.02, ha="left", **font)


def set_axis_label(axis: Any, name: str, inches: float) -> None:
    """Write the label of an axis that is about `inches` long, in a smaller font if it would be longer than that."""
    axis.set_label_text(name, fontsize=max(5.0, min(10.0, inches * 72 / (LETTER * len(name)))))


def place_legend(figure: Any, axes: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend where it covers nothing drawn: inside the axes, else beside them, else (long labels) below them.

    Beside and below, the figure becomes larger, so that the axes keep their size.
    """
    room = figure.get_figwidth() - LEFT_MARGIN
    labels = [_wrapped(label, figure, room, fontsize=LEGEND_SIZE) for label in labels]
    legend = axes.legend(handles, labels, frameon=False, fontsize=LEGEND_SIZE, loc=CORNERS[0])
    legend.set_in_layout(False)
    figure.get_layout_engine().execute(figure)
    drawn = [
        path.transformed(artist.get_transform())
        for artist in [*axes.lines, *axes.collections]
        for path in ([artist.get_path()] if hasattr(artist, "get_path") else artist.get_paths())
    ]
    box = axes.get_window_extent()
    for corner in CORNERS:
        legend.set_loc(corner)
        around = legend.get_window_extent().padded(CLEARANCE)
        if around.width > box.width or around.height > box.height:
            break
        if not any(path.intersects_bbox(around, filled=True) for path in drawn):
            figure.set_layout_engine("none")  # keep the positions
            return
    width, height = (side / figure.dpi for side in legend.get_window_extent().size)
    legend.remove()
    beside = width <= 0.4 * figure.get_figwidth()
    figure.set_size_inches(
        figure.get_figwidth() + beside * (width + 0.15), figure.get_figheight() + (not beside) * (height + 0.15)
    )
    loc = "outside right upper" if beside else "outside lower left"
    figure.legend(handles, labels, frameon=False, fontsize=LEGEND_SIZE, loc=loc)


def add_colorbar(figure: Any, axes: Any, colors: Any, label: str = "") -> None:
    """Add the key of a map from numbers to colors."""
    bar = figure.colorbar(colors, ax=axes, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.set_label(label, fontsize=9)


def save_figure(figure: Any, out: str | Path) -> Path:
    """Write a figure and return its path. Missing folders are made. Raises ValueError for an unknown suffix."""
    out = Path(out)
    check_figure_format(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")  # else the file's writer would repeat the layout
    for title in figure.texts:
        title.set_x(figure.axes[0].get_position().x0)
    replace(out, lambda path: _write(figure, path, out.suffix[1:].lower()))
    return out


def _write(figure: Any, path: Path, suffix: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if suffix == "png":  # `savefig` draws twice
        FigureCanvasAgg(figure).print_png(path)
    else:
        figure.savefig(path, format=suffix)


def check_figure_format(out: Path) -> None:
    """Raise ValueError if the suffix of a figure's file is not known."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a figure named {out.name!r} has no known format: end it in .png, .svg or .pdf.")


def preload() -> None:
    """Import the parts of matplotlib that figures need, so that a thread can do it in advance."""
    import matplotlib.backends.backend_agg
    import matplotlib.collections
    import matplotlib.figure
    import matplotlib.ticker  # noqa: F401


def spelled(words: str, font: str) -> str:
    """Return a text for a font: the file of Computer Modern has other letters in the place of some signs."""
    if font != "latex" or "$" in words:
        return words
    return re.sub(r"[<>|_{}]", lambda found: f"$\\{found[0]}$" if found[0] in "_{}" else f"${found[0]}$", words)


def _installed(font: str) -> dict[str, Any]:
    from matplotlib.font_manager import findfont

    try:
        findfont(font, fallback_to_default=False)
    except ValueError:
        known = ", ".join(FONTS)
        raise ValueError(f"font {font!r} is not installed. Choose {known}, or an installed family.") from None
    return {"font.family": [font, "DejaVu Sans"]}


def _wrapped(words: str, figure: Any, room: float, **font: Any) -> str:
    """Break a text into lines that are at most `room` inches wide in this font."""
    probe = figure.text(0, 0, words, **font)
    letters = int(len(words) * room * figure.dpi / max(1.0, probe.get_window_extent().width))
    while probe.get_window_extent().width > room * figure.dpi and letters > 1:
        probe.set_text("\n".join(textwrap.wrap(words, letters, break_on_hyphens=False)))
        letters = min(letters - 1, int(0.96 * letters))
    probe.remove()
    return probe.get_text()
