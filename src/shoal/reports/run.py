"""The report of one run."""

import numpy as np

from shoal.reports.curves import curves_section
from shoal.reports.evolution import evolution_sections, fitness_in_words
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import hyperparameters_section
from shoal.reports.markup import Html, joined, tag
from shoal.reports.members import members_section, result_in_words, settings_section
from shoal.reports.network import network_section
from shoal.reports.page import Section, key_figures, page, warning_box
from shoal.reports.population import population_section
from shoal.reports.reproduce import provenance_section, reproduce_section
from shoal.reports.videos import videos_section
from shoal.reports.words import counted, interval, seconds_in_words
from shoal.training.generations import planned_steps
from shoal.viz.words import NONE, number


def run_report(facts: Facts) -> Html:
    """Return the page of one run."""
    summary = [
        fitness_in_words(facts) if facts.is_evolution else result_in_words(facts),
        key_figures(_figures(facts)),
        warning_box(facts.warnings()),
    ]
    sections: list[Section | None] = [
        *(evolution_sections(facts) if facts.is_evolution else [curves_section(facts)]),
        population_section(facts),
        settings_section(facts),
        None if facts.is_evolution else members_section(facts),
        videos_section([facts]),
        hyperparameters_section(facts),
        network_section(facts),
        reproduce_section(facts),
        provenance_section(facts),
    ]
    return page(facts.title, kind_of(facts), under(facts), summary, sections)


def kind_of(facts: Facts) -> str:
    """Return what a report is about, in a few words."""
    if facts.is_evolution:
        return "an evolution"
    if facts.result.exported:
        return "an exported policy"
    return f"a population with {facts.selector}" if facts.selector else "a run"


def under(facts: Facts) -> Html:
    """Return the line below the title: the folder, and when the run was made."""
    when = str(facts.provenance.get("time", ""))[:10]
    state = None if facts.is_finished else tag("strong", "not finished")
    parts = [tag("code", facts.name), *([when] if when else []), *([state] if state else [])]
    return joined(parts, " · ")


def _figures(facts: Facts) -> list[tuple]:
    spec, settings = facts.spec, len(facts.result.settings)
    members = f"{settings:,} settings x {counted(spec.seeds, 'seed')}" if settings > 1 else ""
    if facts.is_evolution:
        seeds = spec.selector.fields["seeds"]
        members = f"{facts.members // seeds:,} candidates x {counted(seeds, 'seed')}"
    elif facts.selector:
        members = f"slots of {facts.selector}"
    steps = ("environment steps", _short(facts.steps_done), "in each slot" if facts.selector else "of each member")
    if not facts.is_finished:
        steps = (
            "environment steps",
            _short(facts.steps_done),
            f"of {planned_steps(facts.result):,} that each {'slot' if facts.is_evolution else 'member'} should get",
        )
    return [
        *_score(facts),
        ("members" if members else "seeds", f"{facts.members:,}", members),
        steps,
        ("time", seconds_in_words(facts.seconds), _speed(facts)),
    ]


def _score(facts: Facts) -> list[tuple]:
    if facts.is_evolution or not facts.is_evaluated:
        return []
    scores = facts.score_of_settings
    best = max(scores, key=lambda score: score.get("mean", -np.inf))
    if facts.selector:
        return [("best return", number(float(np.nanmax(facts.scores))), f"of {counted(facts.members, 'member')}")]
    words = "of the best setting" if len(scores) > 1 else ""
    if best["members"] > 1 and best["min"] == best["max"]:
        return [(f"return {words}".strip(), number(best["mean"]), "the same for every seed")]
    if "iqm_low" in best and (limits := interval(best["iqm_low"], best["iqm_high"])) != NONE:
        return [(f"IQM of the return {words}".strip(), number(best["iqm"]), f"95 % interval {limits}")]
    return [(f"mean return {words}".strip(), number(best["mean"]), "too few seeds for an interval")]


def _speed(facts: Facts) -> str:
    rate = facts.summary.get("steps_per_second")
    return f"{_short(round(rate))} steps per second" if rate else ""


def _short(count: int) -> str:
    """Return a large count in few digits: `500,224`, `40 million`."""
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.4g} {word}"
    return f"{count:,}"
