"""The report of several runs: their scores, the differences to the first one, their curves, and what differs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST
from shoal.reports.chart import interval_mark
from shoal.reports.curves import comparison_section
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import differences_section
from shoal.reports.markup import Cell, Html, code_block, joined, table, tag
from shoal.reports.page import Section, page, warning_box
from shoal.reports.reproduce import started_with
from shoal.reports.videos import videos_section
from shoal.reports.words import counted, number, seconds_in_words, with_interval
from shoal.training.comparison import compare
from shoal.training.records import score_summary
from shoal.viz.run_data import distinct_names
from shoal.viz.scale import scale_for


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
    notes = [
        joined([tag("strong", name), ": ", note])
        for facts, name in zip(runs, names, strict=True)
        for note in facts.warnings()
    ]
    notes += [
        joined([tag("strong", name), f": {note}"])
        for name, each in zip(names[1:], found, strict=True)
        for note in each.get("notes", [])
        if "not finished" not in note  # as its own warning says already
    ]
    titles = list(dict.fromkeys(facts.title for facts in runs))
    title = titles[0] if len(titles) == 1 else f"{counted(len(runs), 'run')} compared"
    under = joined((tag("code", name) for name in names), " · ")
    summary = [*_in_words(names, found), warning_box(notes)]
    return page(title, f"a comparison of {counted(len(runs), 'run')}", under, summary, sections)


def _compared(facts: Facts, first: Facts) -> dict[str, Any]:
    """The comparison of a run with the first one; `reason` says why there is none."""
    try:
        return compare(facts.given, first.given)
    except (ValueError, FileNotFoundError) as error:
        return {"reason": str(error)}


def _in_words(names: Sequence[str], found: Sequence[dict[str, Any]]) -> list[Html]:
    return [
        tag("p", joined(_sentence(name, names[0], each)), class_="lead" if len(found) == 1 else None)
        for name, each in list(zip(names[1:], found, strict=True))[:8]
    ]


def _sentence(name: str, first: str, found: dict[str, Any]) -> list[Any]:
    """What the comparison of a run with the first one says, as a sentence."""
    if "reason" in found:
        return [tag("strong", name), f" cannot be compared: {found['reason']}"]
    chance = f"a random member of it is better with a probability of {100 * found['probability_of_improvement']:.0f} %"
    if not found["pairs"]:
        means = f"{number(found['mean'][0])} and {number(found['mean'][1])}"
        return [
            tag("strong", name),
            f" and {first} have mean returns of {means}. They share no setting and seed, so their members cannot "
            f"be paired; {chance}.",
        ]
    difference = found["difference"]
    low, high = found["difference_interval"]
    pairs = counted(found["pairs"], "pair")
    measured = f"by {number(abs(difference))} on average"
    if np.isfinite(low):
        low, high = (low, high) if difference >= 0 else (-high, -low)
        measured += (
            f" (95 % confidence interval {number(low)} to {number(high)}, over {pairs} of the same setting and seed)"
        )
    else:
        measured += f" over {pairs} of the same setting and seed"
    if found["pairs"] < FEWEST:
        verdict = f" differs from {first} {measured}. These are too few pairs to decide which one is better"
    elif low > 0:
        verdict = f" is {'better' if difference > 0 else 'worse'} than {first} {measured}"
    else:
        verdict = f" is not clearly different from {first}: it is {'higher' if difference >= 0 else 'lower'} {measured}"
    return [tag("strong", name), f"{verdict}; {chance}."]


def _scores_section(runs: Sequence[Facts], names: Sequence[str], found: Sequence[dict[str, Any]]) -> Section:
    scores = [score_summary(facts.scores) for facts in runs]
    bounds = [score[name] for score in scores for name in ("iqm", "iqm_low", "iqm_high") if name in score]
    scale = scale_for([bounds])
    rows = []
    for name, facts, score, other in zip(names, runs, scores, [{}, *found], strict=True):
        low, high = score.get("iqm_low", np.nan), score.get("iqm_high", np.nan)
        difference, span = other.get("difference"), other.get("difference_interval", (np.nan, np.nan))
        rows.append(
            [
                Cell(tag("strong", name), class_="keep"),
                Cell(f"{facts.members:,}", facts.members),
                Cell(with_interval(score.get("iqm"), low, high), score.get("iqm", float("nan"))),
                interval_mark(score.get("iqm"), low, high, scale),
                Cell(number(score.get("mean")), score.get("mean", float("nan"))),
                Cell(with_interval(difference, *span), float("nan") if difference is None else difference),
                Cell(seconds_in_words(facts.seconds), facts.seconds or float("nan")),
            ]
        )
    head = ["run", "members", "IQM (95 % interval)", "", "mean", "difference (95 % interval)", "time"]
    about = (
        "Return of the last evaluation over all members of a run. The difference is that of the mean to the first run, "
        "over the settings and seeds that both have."
    )
    return Section("scores", "Scores", [table(head, rows, sortable=True), tag("p", about, class_="soft")])


def _reproduce_section(runs: Sequence[Facts], names: Sequence[str]) -> Section:
    parts: list[Any] = []
    for facts, name in zip(runs, names, strict=True):
        command = started_with(facts.provenance)
        again = f"shoal train --spec {facts.shown_path}"
        parts += [tag("h3", name), code_block(f"{command}\n{again}" if command else again)]
    about = (
        "The first line started the run, the second one repeats it from its folder. A report of a single run says more."
    )
    return Section("reproduce", "How to reproduce them", [tag("p", about, class_="soft"), *parts])
