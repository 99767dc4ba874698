"""The figure of a study's slots over time: the trial of each slot, chunk by chunk, and how busy the slots were."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.viz.style import PALE_INK, PALETTE, figure_style, new_figure, save_figure, set_axis_label, set_titles

COLUMNS = ("slot", "trial", "first", "last")
MOST_NUMBERED = 400  # spans whose trial numbers are written, where they fit
IDLE = "#F0F0F0"
NO_TRIAL = -1


class Span(NamedTuple):
    """The chunks, from the first to the last, in which a slot trained a trial."""

    slot: int
    trial: int
    first: int
    last: int


def spans_in(trials: np.ndarray) -> list[Span]:
    """Return the spans of a table [chunks, slots] of trial numbers, in which -1 is an idle slot."""
    spans = []
    for slot, column in enumerate(np.asarray(trials).T):
        begins = np.flatnonzero(np.diff(column, prepend=column[0] - 1))
        for first, end in zip(begins, [*begins[1:], len(column)], strict=True):
            if column[first] != NO_TRIAL:
                spans.append(Span(slot, int(column[first]), int(first), int(end) - 1))
    return spans


def write_spans(path: Path, spans: Sequence[Span]) -> None:
    """Write spans as a CSV file with the columns slot, trial, first and last."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *spans])


def read_spans(path: Path) -> list[Span]:
    """Return the spans of a CSV file. Raises ValueError, with the line, for what `write_spans` does not write."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ValueError(f"{path} has no columns {', '.join(COLUMNS)} in its first line.")
    spans = []
    for number, row in enumerate(rows[1:], 2):
        try:
            span = Span(*map(int, row))
        except (TypeError, ValueError):
            raise ValueError(f"{path}, line {number}: {','.join(row)} are not four whole numbers.") from None
        if not 0 <= span.first <= span.last or span.slot < 0:
            raise ValueError(f"{path}, line {number}: slot {span.slot} cannot train from {span.first} to {span.last}.")
        spans.append(span)
    return spans


def busy_share(spans: Sequence[Span], slots: int = 0, chunks: int = 0) -> float:
    """Return the share of slots and chunks in which a trial was trained, from 0 to 1.

    slots, chunks: their numbers; 0 means as many as the spans name.
    """
    busy, slots, chunks = _table(spans, slots, chunks)
    return float(busy.mean()) if busy.size else 0.0


def plot_slots(
    spans: Sequence[Span], out: str | Path, *, slots: int = 0, chunks: int = 0, title: str = "slots over time"
) -> Path:
    """Draw a bar for every span in the row of its slot, and below them the share of busy slots in each chunk.

    slots, chunks: as in `busy_share`. Raises ValueError without any span, or for two spans of a slot at a time.
    """
    if not spans:
        raise ValueError("no slot trained a trial, so there is nothing to draw.")
    busy, slots, chunks = _table(spans, slots, chunks)
    if (busy > 1).any():
        slot, chunk = np.argwhere(busy > 1)[0]
        raise ValueError(f"slot {slot} has two trials in chunk {chunk}: each slot trains one at a time.")
    height = min(9.0, 2.6 + 0.16 * slots)
    with figure_style():
        from matplotlib.collections import PolyCollection

        figure, _ = new_figure(8.0, height)
        figure.clear()
        axes, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [max(1.5, height - 2.2), 1]})
        colors = [PALETTE[span.trial % len(PALETTE)] for span in spans]
        axes.set_facecolor(IDLE)
        axes.add_collection(
            PolyCollection([_box(span) for span in spans], facecolors=colors, edgecolors="white", lw=0.6)
        )
        axes.set_xlim(0, chunks)
        axes.set_ylim(slots - 0.5, -0.5)
        axes.yaxis.get_major_locator().set_params(integer=True)
        set_axis_label(axes.yaxis, "slot", height - 2.2)
        row = (height - 2.2) * 72 / slots  # points
        if len(spans) <= MOST_NUMBERED and row >= 5:
            for span in spans:
                width = (span.last - span.first + 1) / chunks * 6.6 * 72
                size = min(8.0, 0.75 * row, 1.6 * width / max(1, len(str(span.trial))))
                if size >= 4:
                    middle = (span.first + span.last + 1) / 2
                    axes.text(middle, span.slot, str(span.trial), color="white", ha="center", va="center", size=size)
        share = 100 * busy.mean(axis=0)
        below.stairs(share, np.arange(chunks + 1), fill=True, color=PALETTE[0], alpha=0.25)
        below.stairs(share, np.arange(chunks + 1), color=PALETTE[0])
        below.set_ylim(0, 104)
        below.set_xlabel("chunk")
        set_axis_label(below.yaxis, "busy (%)", 1.1)
        below.axhline(100 * busy.mean(), color=PALE_INK, linewidth=0.8, linestyle="--")
        below.xaxis.get_major_locator().set_params(integer=True)
        note = (
            f"bar: a trial in the row of its slot, with its number where it fits · grey: idle · {slots} slots, "
            f"{len({span.trial for span in spans})} trials · busy {busy.mean():.1%} of the time (dashed)"
        )
        set_titles(figure, axes, title, note)
        return save_figure(figure, out)


def _table(spans: Sequence[Span], slots: int, chunks: int) -> tuple[np.ndarray, int, int]:
    """Return (the number of trials [slots, chunks], slots, chunks)."""
    slots = slots or max((span.slot for span in spans), default=-1) + 1
    chunks = chunks or max((span.last for span in spans), default=-1) + 1
    busy = np.zeros((slots, chunks), int)
    for span in spans:
        busy[span.slot, span.first : span.last + 1] += 1
    return busy, slots, chunks


def _box(span: Span) -> list[tuple[float, float]]:
    left, right, top, bottom = span.first, span.last + 1, span.slot - 0.42, span.slot + 0.42
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
