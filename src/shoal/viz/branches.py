"""The figure of when a change matters: its effect on a run, by the record at which it was made."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shoal.training.branching import Effect
from shoal.training.result import Result
from shoal.viz.chart import Chart, Dots, Levels, Line, Pieces
from shoal.viz.paint import draw
from shoal.viz.run_data import X_AXES, RunData
from shoal.viz.style import PALETTE

MOST = len(PALETTE)  # changes in a figure


def plot_when(effects: Sequence[Effect], results: Sequence[Result], out: str | Path) -> Path:
    """Draw the effect of each change over the steps after which it was made, with its 95 % interval. Returns the path.

    It is the effect on the last evaluation, or on the returns in training where there was none.
    """
    score = "last evaluation" if any(e.score == "last evaluation" for e in effects) else "training"
    steps = {r.spec.branch["record"]: _steps_before(r) for r in results}
    changes = list(dict.fromkeys(e.change for e in effects if e.score == score))[:MOST]
    marks: list = [Levels(y=[0.0], style="c6 dashed")]
    for i, change in enumerate(changes):
        mine = [e for e in effects if e.score == score and e.change == change]
        x, y = np.asarray([steps[e.record] for e in mine]), np.asarray([e.difference for e in mine])
        low, high = np.asarray([e.low for e in mine]), np.asarray([e.high for e in mine])
        marks += [Line(x, y, f"c{i}", change), Pieces(x, low, x, high, f"slim c{i}"), Dots(x, y, f"ring c{i}", change)]
    about = "in the last evaluation" if score == "last evaluation" else "in training from there on"
    chart = Chart(
        marks,
        f"{X_AXES['steps'][1]} before the change",
        f"difference of the return {about}",
        legend=[(f"c{i}", change) for i, change in enumerate(changes)],
        note="changed minus unchanged twins: mean of pairs, 95 % interval (of six pairs or more)",
        tight_x=False,
    )
    return draw(chart, out, f"{RunData(results[0].folder).title}: when does it matter?")


def _steps_before(branch: Result) -> int:
    """Return the environment steps of each member before the branch left its run."""
    record = branch.spec.branch["record"]
    return int(branch.curves["env_steps"][record - 1]) if record else 0
