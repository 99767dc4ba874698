"""The report of several runs: their scores, the differences to the first one, their curves, and what differs."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.ops.aggregates import AGGREGATES
from shoal.ops.statistics import FEWEST
from shoal.reports.chart import interval_mark, legend, panels
from shoal.reports.curves import comparison_section
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import differences_section
from shoal.reports.markup import Cell, Html, cell, code, code_block, joined, render, soft, table, tag
from shoal.reports.members import scale_of, score_cells
from shoal.reports.page import Section, page, warning_box
from shoal.reports.reproduce import started_with
from shoal.reports.suite import suite_section, suite_sentence
from shoal.reports.videos import videos_section
from shoal.reports.words import counted, seconds_in_words, with_interval
from shoal.training.compare import compare
from shoal.training.comparison import Against, Comparison, env_key
from shoal.training.records import score_summary
from shoal.training.suite_scores import suite_scores
from shoal.viz.comparison import efficiency_chart, group_names, profile_chart
from shoal.viz.run_data import distinct_names
from shoal.viz.scale import scale_for
from shoal.viz.words import NONE, number


def comparison_report(
    runs: Sequence[Facts], what: Sequence[Any], suites: Sequence[Path | str] = (), **how: Any
) -> Html:
    """Return the page of several runs. The first group is that to which the others are compared.

    `what` the user gave and `how` are the arguments of `shoal.compare`: they say what a group is. Runs in several
    environments are compared over all of them. The page begins with the scores of the `suites` among `what`.
    """
    names = distinct_names([facts.folder.resolve() for facts in runs])
    whole = _found(what, is_asked=not suites, **how)
    over_all = whole if isinstance(whole, Comparison) and not (whole.is_of_one and whole.are_runs) else None
    in_several = len({env_key(facts.spec) for facts in runs}) > 1
    if over_all or len(runs) > 2 and in_several and isinstance(whole, str):
        compared, alone = _groups(whole), [{}] * (len(runs) - 1)
    else:
        alone = [_compared(facts, runs[0]) for facts in runs[1:]]
        compared = dict(zip(names, [{}, *alone], strict=True))
    scores = [suite_scores(folder) for folder in suites]
    sections = [
        *map(suite_section, scores),
        _groups_section(over_all) if over_all else None,
        _scores_section(runs, names, alone),
        comparison_section(runs),
        differences_section(runs, names),
        videos_section(runs, names),
        _reproduce_section(runs, names),
    ]
    notes = [(name, note) for name, facts in zip(names, runs, strict=True) for note in facts.warnings()]
    said = "not finished"  # as the warning of the run says already
    notes += [(name, note) for name, found in compared.items() for note in found.get("notes", []) if said not in note]
    titles = list(dict.fromkeys(facts.title for facts in runs))
    title = titles[0] if len(titles) == 1 else f"{counted(len(runs), 'run')} compared"
    if len(scores) == 1:
        title = f"{scores[0].agent} on {scores[0].suite}"
    first, *others = compared.items()
    summary = [
        *map(suite_sentence, scores),
        render("comparison", first=first[0], found=others[:8], fewest=FEWEST),
        warning_box([Html("<strong>{}</strong>: {}").format(*note) for note in notes]),
    ]
    under = joined(map(code, names), " · ")
    return page(title, f"a comparison of {counted(len(runs), 'run')}", under, summary, sections)


def _found(runs: Sequence[Any], is_asked: bool = True, **how: Any) -> Comparison | str:
    """The comparison of runs, or the reason why there is none. It raises for what the user asked for (`is_asked`)."""
    try:
        return compare(*runs, **how)
    except (ValueError, FileNotFoundError) as error:
        if is_asked and any(how.values()):
            raise
        return str(error)


def _compared(facts: Facts, first: Facts) -> dict[str, Any]:
    """The comparison of a run with the first one; `reason` says why there is none."""
    found = _found([facts.given, first.given])
    return {"reason": found} if isinstance(found, str) else {**_against(found, 0, 1), "notes": found.notes}


def _groups(whole: Comparison | str) -> dict[str, dict[str, Any]]:
    """The comparisons of all groups with the first one, by name."""
    if isinstance(whole, str):
        return {"the first run": {}, "A group": {"reason": whole}}
    names = group_names(whole)
    found = {name: _against(whole, number, 0) if number else {} for number, name in enumerate(names)}
    return {**found, names[0]: {"notes": whole.notes}}


def _against(found: Comparison, group: int, other: int) -> dict[str, Any]:
    """The words of a paragraph about a group and another one."""
    is_of_one, both = found.is_of_one, (group, other)
    means = [found.returns(g, 0) if is_of_one else found.aggregates[g]["mean"] for g in both]
    words = ("returns", "") if is_of_one else ("normalized scores", " of the normalized score")
    said = {"what": words[0], "unit": words[1], "means": [mean.value for mean in means]}
    return {"against": found.against(group, other), **said}


def _groups_section(found: Comparison) -> Section:
    """The section of the scores of groups over all environments."""
    names = group_names(found)
    values = found.aggregates
    scale = scale_for([[*of_group["IQM"]] for of_group in values])
    rows = []
    for name, group, of_group in zip(names, found.groups, values, strict=True):
        iqm, *cells = [cell(value.value, with_interval(*np.round(value, 3))) for value in of_group.values()]
        picture = interval_mark(*of_group["IQM"], scale)
        rows.append([Cell(tag("strong", name), class_="keep"), len(group.runs), iqm, picture, *cells])
    first, *others = AGGREGATES
    between = [
        [f"{names[a]} vs. {names[b]}", *_pair_cells(found.against(a, b))]
        for a, b in itertools.combinations(range(len(names)), 2)
    ]
    what = "returns" if found.is_of_one else "normalized scores"
    about = [f"{env.name}: 0 and 1 are {env.reference.about}." for env in found.environments]
    parts = [
        soft("Normalized scores over all environments, which count equally, with 95 % intervals over seeds."),
        table(["", "runs", first, "", *others], rows, sortable=True),
        table(["", f"mean difference of {what}", "pairs", "probability that the first is better"], between)
        if between
        else None,
        legend(profile_chart(found, names).legend),
        panels(make(found, names)._replace(legend=()) for make in (profile_chart, efficiency_chart)),
        soft(" ".join(about)),
    ]
    return Section("groups", "Over all environments", parts)


def _pair_cells(against: Against) -> list[Any]:
    difference, chance = against.difference, against.probability
    shown = cell(difference.value, with_interval(*difference)) if difference else cell(None, NONE)
    return [shown, against.pairs, cell(chance.value, with_interval(*chance))]


def _scores_section(runs: Sequence[Facts], names: Sequence[str], found: Sequence[dict[str, Any]]) -> Section:
    scores = [score_summary(facts.scores) for facts in runs]
    scale = scale_of(scores)
    is_compared = any("against" in other for other in found)
    rows = []
    for name, facts, score, other in zip(names, runs, scores, [{}, *found], strict=True):
        difference, *limits = (other["against"].difference if "against" in other else None) or (None, np.nan, np.nan)
        rows.append(
            [
                Cell(tag("strong", name), class_="keep"),
                cell(facts.members, f"{facts.members:,}"),
                *score_cells(score, scale),
                cell(score.get("mean"), number(score.get("mean"))),
                *[cell(difference, with_interval(difference, *limits))] * is_compared,
                cell(facts.seconds, seconds_in_words(facts.seconds)),
            ]
        )
    head = ["run", "members", "IQM (95 % interval)", "", "mean", "time"]
    about = "Return of the last evaluation over all members of a run."
    if is_compared:
        head.insert(-1, "difference (95 % interval)")
        about += " The difference is that of the mean to the first run, over the settings and seeds that both have."
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
