"""Tables in plain text, for terminals, log files and pasting."""

import math
from collections.abc import Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as text with aligned columns: numbers to the right, words to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    numeric = [all(not isinstance(row[i], str) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(head), line(["-" * w for w in widths]), *map(line, cells)])


def score_cells(score: Mapping[str, Any]) -> list[Any]:
    """The cells under `SCORE_HEAD` for one score of `summary.json`."""
    if not score.get("members"):
        return [0, None, None, None, "none evaluated"]
    low, high = score["iqm_low"], score["iqm_high"]  # of few members None in a file, NaN in memory
    interval = "-" if low is None or math.isnan(low) else f"[{low:.4g}, {high:.4g}]"
    return [score["members"], score["mean"], score["percentile_5"], score["iqm"], interval]


SCORE_HEAD = ("members", "mean", "5th pct", "IQM", "95 % interval")


def cut_off(count: int, of: int, limit: int, option: str) -> str:
    """A sentence about evaluation episodes that did not end within the `limit` of steps; `option` changes it."""
    return f"{count:,} of {of:,} episodes were cut off after {limit:,} steps: their returns are those so far ({option})"


def setting_words(setting: Mapping[str, Any]) -> str:
    """A setting as text: `learning_rate=0.001 env.gravity=5`; `all` for an empty one."""
    return " ".join(f"{name}={value}" for name, value in setting.items()) or "all"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
