"""The figure of a study's slots over time: the trial of each slot, record by record, and how busy the slots were."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int

from shoal.viz.style import PALE_INK, PALETTE, figure_style, new_figure, save_figure, set_axis_label, set_titles

MOST_NUMBERED = 400  # bars whose trial numbers are written, where they fit
IDLE = "#F0F0F0"


def plot_slots(trials: Int[np.ndarray, "R M"], out: str | Path, *, title: str = "slots over time") -> Path:
    """Draw each trial as a bar in the row of its slot, and below them the share of busy slots in each record.

    `trials` has the number of the trial in each slot, as the curve `trial` of a run with slots; -1: the slot is idle.
    Raises ValueError if no slot has a trial.
    """
    if not (busy := trials >= 0).any():
        raise ValueError("no slot trained a trial, so there is nothing to draw.")
    records, slots = trials.shape
    bars = [[*_bars(column)] for column in trials.T]
    height = min(9.0, 2.6 + 0.16 * slots)
    with figure_style():
        figure, _ = new_figure(8.0, height)
        figure.clear()
        axes, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [max(1.5, height - 2.2), 1]})
        axes.set_facecolor(IDLE)
        for slot, of_slot in enumerate(bars):
            places = [(first, end - first) for first, end, _ in of_slot]
            colors = [PALETTE[trial % len(PALETTE)] for _, _, trial in of_slot]
            axes.broken_barh(places, (slot - 0.42, 0.84), facecolors=colors, edgecolors="white", lw=0.6)
        axes.set_xlim(0, records)
        axes.set_ylim(slots - 0.5, -0.5)
        axes.yaxis.get_major_locator().set_params(integer=True)
        set_axis_label(axes.yaxis, "slot", height - 2.2)
        row = (height - 2.2) * 72 / slots  # points
        if sum(map(len, bars)) <= MOST_NUMBERED and row >= 5:
            for slot, first, end, trial in ((slot, *bar) for slot, of_slot in enumerate(bars) for bar in of_slot):
                width = (end - first) / records * 6.6 * 72
                if (size := min(8.0, 0.75 * row, 1.6 * width / len(str(trial)))) >= 4:
                    axes.text((first + end) / 2, slot, str(trial), color="white", ha="center", va="center", size=size)
        share, edges = 100 * busy.mean(axis=1), np.arange(records + 1)
        below.stairs(share, edges, fill=True, color=PALETTE[0], alpha=0.25)
        below.stairs(share, edges, color=PALETTE[0])
        below.set_ylim(0, 104)
        below.set_xlabel("record")
        set_axis_label(below.yaxis, "busy (%)", 1.1)
        below.axhline(100 * busy.mean(), color=PALE_INK, linewidth=0.8, linestyle="--")
        below.xaxis.get_major_locator().set_params(integer=True)
        note = (
            f"bar: a trial in the row of its slot, with its number where it fits · grey: idle · {slots} slots, "
            f"{len(np.unique(trials[busy]))} trials · busy {busy.mean():.1%} of the time (dashed)"
        )
        set_titles(figure, axes, title, note)
        return save_figure(figure, out)


def _bars(trials: Int[np.ndarray, "R"]) -> Iterator[tuple[int, int, int]]:
    """Yield (first record, the record after the last one, trial) of each trial in a slot."""
    firsts = np.flatnonzero(np.diff(trials, prepend=trials[0] - 1)).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(trials)], strict=True):
        if trials[first] >= 0:
            yield first, end, int(trials[first])
