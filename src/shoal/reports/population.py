"""Sections of a run with a selector: its best members, lineage, hyperparameters over time, and rungs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.reports.chart import Band, Dots, Line, Mark, Pieces, chart, evenly, shade, shade_bar
from shoal.reports.curves import STEPS
from shoal.reports.facts import Facts
from shoal.reports.markup import Cell, Html, table, tag
from shoal.reports.page import Section
from shoal.reports.scale import is_logarithmic
from shoal.reports.words import counted, few, number
from shoal.specs.roster import NOBODY
from shoal.training.lives import Life, best_members, hyperparameters_in, lineage, lives_in, scores_in
from shoal.training.result import Result
from shoal.viz.lives import dropped_lives, edges_of, is_halving

MOST_SLOTS = 64  # whose lines are drawn one by one; of more, the best and those that the best descends from
MOST_PANELS = 12  # hyperparameters with a chart
MOST_LIVES = 200  # lines in the chart of rungs
BEST = 5  # members in the table


def population_section(facts: Facts) -> Section | None:
    """Return the section on what a selector did; None for other runs."""
    if not facts.has_lives:
        return None
    lives = lives_in(facts.curves)
    best = best_members(facts.curves, 1)[0]["occupant"]
    line = [each for each in lineage(lives, best) if each in lives]
    copies = [life for life in lives.values() if life.parent != NOBODY]
    fresh = len(lives) - len(copies) - min(facts.members, len(lives))
    counts = [f"{counted(len(lives), 'member')} were trained in {counted(facts.members, 'slot')}"]
    counts += [f"{len(copies):,} of them began as copies of others"] * bool(copies)
    counts += [f"{fresh:,} began anew in the slot of another one"] * (fresh > 0)
    parts: list[Any] = [tag("p", "; ".join(counts) + ".")]
    if hyperparameters_in(facts.curves):
        parts += [tag("h3", "Best members"), _best_table(facts)]
    if copies:
        parts += [tag("h3", "Lineage"), *_lineage(facts, lives, line)]
    parts += _hyperparameters(facts, lives, line)
    if is_halving(facts.result):
        parts += _rungs(facts, lives)
    return Section("population", f"Population: {facts.selector}", parts)


def _best_table(facts: Facts) -> Html:
    best = best_members(facts.curves, BEST)
    paths = [*best[0]["hyperparameters"]]
    head = ["member", "slot", "return", "ancestors", *(tag("code", path) for path in paths)]
    rows = [
        [
            Cell(f"{each['occupant']}", each["occupant"]),
            Cell(f"{each['member']}", each["member"]),
            Cell(number(each["score"]), each["score"]),
            Cell(few(each["lineage"][1:]) or "none", len(each["lineage"]) - 1),
            *(Cell(number(each["hyperparameters"][path]), each["hyperparameters"][path]) for path in paths),
        ]
        for each in best
    ]
    return table(head, rows, sortable=True)


def _lineage(facts: Facts, lives: Mapping[int, Life], line: Sequence[int]) -> list[Any]:
    """The chart of who was copied from whom: a row for each slot, colored by score, with a line for each copy."""
    scores = scores_in(facts.curves)
    low, high = _range(scores)
    slots = _slots_to_show(facts.members, lives, line)
    row = {slot: place for place, slot in enumerate(slots)}
    shown = [life for life in lives.values() if life.slot in row]
    marks: list[Mark] = []
    width = "" if len(slots) <= 24 else " slim"
    pieces: dict[int, list[tuple[float, float, int]]] = {}
    for life in shown:
        edges = edges_of(life, facts.result)
        for start, end, color in zip(edges[:-1], edges[1:], shade(life.score, low, high), strict=True):
            pieces.setdefault(int(color), []).append((start, end, row[life.slot]))
    for color, parts in sorted(pieces.items()):
        start, end, y = (np.asarray(column, float) for column in zip(*parts, strict=True))
        marks.append(Pieces(start, y, end, y, f"{f'v{color}' if color >= 0 else 'c6'}{width}"))
    copies = [life for life in shown if life.parent in lives and lives[life.parent].slot in row]
    for style, chosen in (("c6 slim", copies), ("ink slim", [life for life in copies if life.occupant in line])):
        x = np.asarray([edges_of(life, facts.result)[0] for life in chosen], float)
        from_, to = (
            [float(row[each.slot]) for each in each_of] for each_of in ([lives[c.parent] for c in chosen], chosen)
        )
        marks.append(Pieces(x, np.asarray(from_), x, np.asarray(to), style))
    ends = [edges_of(life, facts.result)[0] for life in copies]
    marks.append(Dots(np.asarray(ends, float), np.asarray([row[life.slot] for life in copies], float), f"ink{width}"))
    words = (
        "Each row is a slot, each line a member, in the color of its score. A vertical line is a copy; the dot is at "
        "its end, where the copy begins."
    )
    if len(slots) < facts.members:
        words += (
            f" {len(slots)} of {facts.members:,} slots are shown: those of the best member's ancestors, and others."
        )
    about = (
        f"Ancestors of the best member: {' from '.join(map(str, line))}." if len(line) > 1 else "It has no ancestor."
    )
    made = chart(marks, STEPS, "slot", about="lineage of the members", note=words, small=len(slots) <= 8, whole_y=True)
    return [
        shade_bar(low, high, "score"),
        made,
        tag("p", f"The best member is number {line[0]}. {about}", class_="soft"),
    ]


def _slots_to_show(members: int, lives: Mapping[int, Life], line: Sequence[int]) -> list[int]:
    """All slots of a small population; of a large one those of the lineage, and others evenly spread."""
    if members <= MOST_SLOTS:
        return list(range(members))
    kept = {lives[each].slot for each in line}
    others = [slot for slot in range(members) if slot not in kept]
    kept |= {others[i] for i in evenly(len(others), max(0, MOST_SLOTS - len(kept)))}
    return sorted(kept)


def _hyperparameters(facts: Facts, lives: Mapping[int, Life], line: Sequence[int]) -> list[Any]:
    """A chart for each hyperparameter that may change: its distribution over members, and the best member's lineage."""
    paths = hyperparameters_in(facts.curves)
    if not paths:
        return []
    steps, busy = facts.curves["env_steps"], facts.curves["occupant"] != NOBODY
    few_members = facts.members <= MOST_SLOTS
    panels = []
    for path in paths[:MOST_PANELS]:
        values = np.where(busy, facts.curves[path].astype(float), np.nan)
        low, middle, high = np.nanquantile(np.where(busy.any(axis=1)[:, None], values, 0), (0, 0.5, 1), axis=1)
        marks: list[Mark] = [Band(steps, low, high, "c0")]
        if few_members:
            marks += [Line(*_steps(life, path, facts.result), "thin c0") for life in lives.values()]
        marks.append(Line(steps, middle, "c0", "median"))
        for copy, occupant in zip([None, *line], line, strict=False):
            life = lives[occupant]
            count = len(life.records) if copy is None else np.searchsorted(life.records, lives[copy].records[0])
            x, y = _steps(life, path, facts.result)  # of an ancestor only until it was copied
            marks.append(Line(x[: 2 * count], y[: 2 * count], "c1", f"member {occupant}"))
        marks += _copies(lives, line, path, facts.result)
        panels.append(
            chart(
                marks,
                "environment steps",
                "",
                about=f"{path} over environment steps",
                title=path,
                small=True,
                log_y=is_logarithmic(values),
            )
        )
    legend = tag(
        "ul",
        tag("li", "median and range over the members", class_="c0"),
        tag("li", "the best member and its ancestors", class_="c1"),
        class_="legend",
    )
    left = len(paths) - MOST_PANELS
    more = tag("p", f"{left} more are in curves.npz.", class_="soft") if left > 0 else None
    return [tag("h3", "Hyperparameters over time"), legend, tag("div", *panels, class_="panels"), more]


def _copies(lives: Mapping[int, Life], line: Sequence[int], path: str, result: Result) -> list[Mark]:
    """Vertical lines in the lineage, from the value of an original to that of its copy."""
    joins = []
    for occupant in line:
        life = lives[occupant]
        if life.parent in lives:
            before = lives[life.parent]
            last = max(0, int(np.searchsorted(before.records, life.records[0])) - 1)
            values = (before.hyperparameters[path][last], life.hyperparameters[path][0])
            joins.append((edges_of(life, result)[0], *map(float, values)))
    if not joins:
        return []
    x, start, end = (np.asarray(column, float) for column in zip(*joins, strict=True))
    return [Pieces(x, start, x, end, "c1")]


def _rungs(facts: Facts, lives: Mapping[int, Life]) -> list[Any]:
    """The scores of all members over time: those that were dropped end early."""
    dropped = {life.occupant for life in dropped_lives([*lives.values()], facts.result)}
    if not dropped:
        return []
    shown = _lives_to_show([*lives.values()], dropped)
    marks: list[Mark] = []
    for life in shown:
        there = np.flatnonzero(np.isfinite(life.score))
        is_dropped = life.occupant in dropped
        marks.append(
            Line(life.env_steps[there], life.score[there], "thin c6" if is_dropped else "c0", f"member {life.occupant}")
        )
    ends = [
        (life.env_steps[there[-1]], life.score[there[-1]])
        for life in shown
        if life.occupant in dropped and len(there := np.flatnonzero(np.isfinite(life.score)))
    ]
    if ends:
        x, y = (np.asarray(column, float) for column in zip(*ends, strict=True))
        marks.append(Dots(x, y, "c1"))
    note = f"{len(dropped):,} of {counted(len(lives), 'member')} were dropped at a rung."
    note += f" {len(shown)} of them are shown." if len(shown) < len(lives) else ""
    legend = [("c0", "trained to the end"), ("c6", "dropped"), ("c1 dotted", "last score of a dropped member")]
    made = chart(
        marks, STEPS, "mean return", about="scores of members until they were dropped", legend=legend, note=note
    )
    return [tag("h3", "Rungs"), made]


def _lives_to_show(lives: Sequence[Life], dropped: set[int]) -> list[Life]:
    if len(lives) <= MOST_LIVES:
        return [*lives]
    going_on = [life for life in lives if life.occupant not in dropped][: MOST_LIVES // 2]
    others = [life for life in lives if life.occupant in dropped]
    return [*(others[i] for i in evenly(len(others), MOST_LIVES - len(going_on))), *going_on]


def _steps(life: Life, path: str, result: Result) -> tuple[np.ndarray, np.ndarray]:
    """A value over time as a line with corners: it changes between two records, not gradually."""
    edges = edges_of(life, result)
    return np.repeat(edges, 2)[1:-1], np.repeat(life.hyperparameters[path].astype(float), 2)


def _range(scores: np.ndarray) -> tuple[float, float]:
    known = scores[np.isfinite(scores)]
    return (float(np.percentile(known, 5)), float(known.max())) if known.size else (0.0, 1.0)
