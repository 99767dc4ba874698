"""The part of a report about a suite: a row for each environment, and the normalized score over all of them."""

from shoal.ops.aggregates import Estimate
from shoal.reports.chart import interval_mark
from shoal.reports.markup import Cell, Html, cell, soft, table, tag
from shoal.reports.page import Section
from shoal.reports.words import counted, with_interval
from shoal.training.suite_scores import SuiteScores
from shoal.viz.scale import scale_for
from shoal.viz.words import NONE


def suite_sentence(scores: SuiteScores) -> Html:
    """Return the sentence about a suite that a page begins with."""
    known = [row for row in scores.rows if row.normalized is not None]
    head = Html("<strong>{}</strong> on {}").format(scores.agent, scores.suite)
    if not known:
        return tag("p", head, ": no environment has a normalized score.", class_="lead")
    said = [f"{name} {with_interval(*found)}" for name, found in scores.normalized.items()]
    of = f" of {len(scores.rows)}" if len(known) < len(scores.rows) else ""
    what = f"{len(known)}{of} environments" if len(scores.rows) > 1 else counted(1, "environment")
    return tag("p", head, f": normalized score over {what}: {', '.join(said)}.", class_="lead")


def suite_section(scores: SuiteScores) -> Section:
    """Return the table of a suite."""
    scale = scale_for([[*row.normalized] for row in scores.rows if row.normalized is not None] or [[0.0, 1.0]])
    rows = [
        [
            Cell(tag("strong", row.env), class_="keep"),
            row.members,
            _number(row.random),
            _score_cell(row.score),
            _number(row.target),
            _score_cell(row.normalized),
            interval_mark(*row.normalized, scale) if row.normalized is not None else "",
        ]
        for row in scores.rows
    ]
    head = ["environment", "members", "random play", "IQM (95 % interval)", "target", "normalized (95 % interval)", ""]
    about = "Returns of the last evaluation. Normalized scores are 0 for random play and 1 for the target."
    notes = [tag("ul", *(tag("li", note) for note in scores.notes))] if scores.notes else []
    name = f"{scores.agent} on {scores.suite}"
    return Section(name.replace(" ", "-"), name, [table(head, rows, sortable=True), soft(about), *notes])


def _number(value: float | None) -> Cell:
    return cell(None, NONE) if value is None else cell(float(value))


def _score_cell(found: Estimate | None) -> Cell:
    return cell(None, NONE) if found is None else cell(float(found.value), with_interval(*found))
