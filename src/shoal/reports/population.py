"""Sections of a run with a selector: its best members, lineage, hyperparameters over time, and rungs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.reports.chart import legend, panels, show
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, cell, code, soft, table, tag
from shoal.reports.page import Section
from shoal.reports.words import counted, few
from shoal.specs.roster import NOBODY
from shoal.training.lives import Life, best_members, hyperparameters_in, lineage
from shoal.viz.chart import Band, Chart, Line, Mark, evenly
from shoal.viz.lives import MOST_PANELS, copies_of, dropped_lives, edges_of, is_halving, lineage_chart, rungs_chart
from shoal.viz.scale import is_logarithmic

MOST_SLOTS = 64  # whose lines are drawn one by one; of more, the best and those that the best descends from
MOST_LIVES = 200  # lines in the chart of rungs
BEST = 5  # members in the table


def population_section(facts: Facts) -> Section | None:
    """Return the section on what a selector did; None for other runs."""
    if not facts.has_lives:
        return None
    lives = facts.result.lives
    best = best_members(facts.curves, 1)[0]["occupant"]
    line = [occupant for occupant in lineage(lives, best) if occupant in lives]
    copies = [life for life in lives.values() if life.parent != NOBODY]
    fresh = len(lives) - len(copies) - min(facts.members, len(lives))
    counts = [f"{counted(len(lives), 'member')} were trained in {counted(facts.members, 'slot')}"]
    counts += [f"{len(copies):,} of them began as copies of others"] if copies else []
    counts += [f"{fresh:,} began anew in the slot of another one"] if fresh > 0 else []
    parts: list[Any] = [tag("p", "; ".join(counts) + ".")]
    if hyperparameters_in(facts.curves):
        parts += [tag("h3", "Best members"), _best_table(facts)]
    if copies:
        parts += [tag("h3", "Lineage"), *_lineage(facts, lives, line)]
    parts += _hyperparameters(facts, lives, line)
    if is_halving(facts.result):
        parts += _rungs(facts)
    return Section("population", f"Population: {facts.selector}", parts)


def _best_table(facts: Facts) -> Html:
    best = best_members(facts.curves, BEST)
    paths = [*best[0]["hyperparameters"]]
    head = ["member", "slot", "return", "ancestors", *map(code, paths)]
    rows = [
        [
            *(cell(row[name]) for name in ("occupant", "member", "score")),
            cell(len(row["lineage"]) - 1, few(row["lineage"][1:]) or "none"),
            *map(cell, row["hyperparameters"].values()),
        ]
        for row in best
    ]
    return table(head, rows, sortable=True)


def _lineage(facts: Facts, lives: Mapping[int, Life], line: Sequence[int]) -> list[Any]:
    """The chart of who was copied from whom, and the ancestors of the best member in words."""
    slots = _slots_to_show(facts.members, lives, line)
    made = lineage_chart(facts.result, slots)
    if len(slots) < facts.members:
        of = f"{len(slots)} of {facts.members:,} slots are shown: those of the best member's ancestors, and others"
        made = made._replace(note=f"{made.note} · {of}")
    about = (
        f"Ancestors of the best member: {' from '.join(map(str, line))}." if len(line) > 1 else "It has no ancestor."
    )
    return [show(made), soft(f"The best member is number {line[0]}. {about}")]


def _slots_to_show(members: int, lives: Mapping[int, Life], line: Sequence[int]) -> list[int]:
    """All slots of a small population; of a large one those of the lineage, and others evenly spread."""
    if members <= MOST_SLOTS:
        return list(range(members))
    kept = {lives[occupant].slot for occupant in line}
    others = [slot for slot in range(members) if slot not in kept]
    kept |= {others[i] for i in evenly(len(others), max(0, MOST_SLOTS - len(kept)))}
    return sorted(kept)


def _hyperparameters(facts: Facts, lives: Mapping[int, Life], line: Sequence[int]) -> list[Any]:
    """A chart for each hyperparameter that may change: its distribution over members, and the best member's lineage."""
    paths = hyperparameters_in(facts.curves)
    if not paths:
        return []
    charts = [_over_time(facts, path, lives, line) for path in paths[:MOST_PANELS]]
    key = legend([("c0", "median and range over the members"), ("c1", "the best member and its ancestors")])
    left = len(paths) - MOST_PANELS
    more = soft(f"{left} more are in curves.npz.") if left > 0 else None
    return [tag("h3", "Hyperparameters over time"), key, panels(charts), more]


def _over_time(facts: Facts, path: str, lives: Mapping[int, Life], line: Sequence[int]) -> Chart:
    steps, busy = facts.curves["env_steps"], facts.curves["occupant"] != NOBODY
    values = np.where(busy, facts.curves[path].astype(float), np.nan)
    low, middle, high = np.nanquantile(np.where(busy.any(axis=1)[:, None], values, 0), (0, 0.5, 1), axis=1)
    marks: list[Mark] = [Band(steps, low, high, "c0")]
    if facts.members <= MOST_SLOTS:
        marks += [Line(*_steps(life, path, facts), "thin c0") for life in lives.values()]
    marks.append(Line(steps, middle, "c0", "median"))
    for copy, occupant in zip([None, *line], line, strict=False):
        life = lives[occupant]
        count = len(life.records) if copy is None else np.searchsorted(life.records, lives[copy].records[0])
        x, y = _steps(life, path, facts)  # of an ancestor only until it was copied
        marks.append(Line(x[: 2 * count], y[: 2 * count], "c1", f"member {occupant}"))
    marks.append(copies_of([lives[occupant] for occupant in line], path, facts.result, "c1"))
    about = f"{path} over environment steps"
    return Chart(marks, "environment steps", "", about, title=path, log_y=is_logarithmic(values))


def _rungs(facts: Facts) -> list[Any]:
    """The scores of all members over time: those that were dropped end early."""
    if not dropped_lives([*facts.result.lives.values()], facts.result):
        return []
    return [tag("h3", "Rungs"), show(rungs_chart(facts.result, MOST_LIVES))]


def _steps(life: Life, path: str, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """A value over time as a line with corners: it changes between two records, not gradually."""
    return np.repeat(edges_of(life, facts.result), 2)[1:-1], np.repeat(life.hyperparameters[path].astype(float), 2)
