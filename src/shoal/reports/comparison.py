"""The report of several runs: their scores, the differences to the first one, their curves, and what differs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST
from shoal.reports.curves import comparison_section
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import differences_section
from shoal.reports.markup import Cell, Html, cell, code, code_block, joined, render, soft, table, tag
from shoal.reports.members import scale_of, score_cells
from shoal.reports.page import Section, page, warning_box
from shoal.reports.reproduce import started_with
from shoal.reports.videos import videos_section
from shoal.reports.words import counted, seconds_in_words, with_interval
from shoal.training.compare import compare
from shoal.training.records import score_summary
from shoal.viz.run_data import distinct_names
from shoal.viz.words import number


def comparison_report(runs: Sequence[Facts]) -> Html:
    """Return the page of several runs. The first one is that to which the others are compared."""
    names = distinct_names([facts.folder.resolve() for facts in runs])
    found = [_compared(facts, runs[0]) for facts in runs[1:]]
    sections = [
        _scores_section(runs, names, found),
        comparison_section(runs),
        differences_section(runs, names),
        videos_section(runs, names),
        _reproduce_section(runs, names),
    ]
    named = list(zip(names, runs, [{}, *found], strict=True))
    notes = [(name, note) for name, facts, _ in named for note in facts.warnings()]
    said = "not finished"  # as the warning of the run says already
    notes += [(name, note) for name, _, comparison in named for note in comparison.get("notes", []) if said not in note]
    titles = list(dict.fromkeys(facts.title for facts in runs))
    title = titles[0] if len(titles) == 1 else f"{counted(len(runs), 'run')} compared"
    summary = [
        render("comparison", first=names[0], found=list(zip(names[1:], found, strict=True))[:8], fewest=FEWEST),
        warning_box([Html("<strong>{}</strong>: {}").format(*note) for note in notes]),
    ]
    under = joined(map(code, names), " · ")
    return page(title, f"a comparison of {counted(len(runs), 'run')}", under, summary, sections)


def _compared(facts: Facts, first: Facts) -> dict[str, Any]:
    """The comparison of a run with the first one; `reason` says why there is none."""
    try:
        found = compare(facts.given, first.given)
    except (ValueError, FileNotFoundError) as error:
        return {"reason": str(error)}
    return {"against": found.against(0, 1), "means": [found.returns(g, 0).value for g in (0, 1)], "notes": found.notes}


def _scores_section(runs: Sequence[Facts], names: Sequence[str], found: Sequence[dict[str, Any]]) -> Section:
    scores = [score_summary(facts.scores) for facts in runs]
    scale = scale_of(scores)
    rows = []
    for name, facts, score, other in zip(names, runs, scores, [{}, *found], strict=True):
        difference, *span = (other["against"].difference if "against" in other else None) or (None, np.nan, np.nan)
        rows.append(
            [
                Cell(tag("strong", name), class_="keep"),
                cell(facts.members, f"{facts.members:,}"),
                *score_cells(score, scale),
                cell(score.get("mean"), number(score.get("mean"))),
                cell(difference, with_interval(difference, *span)),
                cell(facts.seconds, seconds_in_words(facts.seconds)),
            ]
        )
    head = ["run", "members", "IQM (95 % interval)", "", "mean", "difference (95 % interval)", "time"]
    about = (
        "Return of the last evaluation over all members of a run. The difference is that of the mean to the first run, "
        "over the settings and seeds that both have."
    )
    return Section("scores", "Scores", [table(head, rows, sortable=True), soft(about)])


def _reproduce_section(runs: Sequence[Facts], names: Sequence[str]) -> Section:
    about = (
        "The first line started the run, the second one repeats it from its folder. A report of a single run says more."
    )
    parts = [soft(about)]
    for facts, name in zip(runs, names, strict=True):
        lines = [started_with(facts.provenance), f"shoal train --spec {facts.given}"]
        parts += [tag("h3", name), code_block("\n".join(filter(None, lines)))]
    return Section("reproduce", "How to reproduce them", parts)
