"""The sections of an evolution: fitness over generations, and the values that it has found."""

from typing import Any

import numpy as np

from shoal.reports.chart import show
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, code, pairs, render, soft, table, tag, with_code
from shoal.reports.page import Section
from shoal.specs.describe import Described, describe
from shoal.training.generations import fitness_of_generations, what_fitness_is
from shoal.training.transfer import TRANSFER, TRANSFER_HEAD, cells_of, references_of
from shoal.viz.evolution import fitness_chart, loss_charts
from shoal.viz.words import array_in_words, exact, number

LARGEST_SHOWN = 64  # numbers of an array that are written out


def fitness_in_words(facts: Facts) -> Html:
    """Return the result of an evolution as paragraphs."""
    fitness = _fitness(facts)
    mean, best = (None, None) if fitness is None else (np.nanmean(fitness, axis=1), float(np.nanmax(fitness)))
    what = what_fitness_is(facts.result)
    return render("fitness", facts=facts, fitness=fitness, mean=mean, best=best, what=what)


def evolution_sections(facts: Facts) -> list[Section | None]:
    """Return the sections that only an evolution has."""
    return [fitness_section(facts), found_section(facts), transfer_section(facts)]


def fitness_section(facts: Facts) -> Section | None:
    """Return the section with the fitness over the generations; None as long as there is none."""
    return None if _fitness(facts) is None else Section("fitness", "Fitness", [show(fitness_chart(facts.result))])


def found_section(facts: Facts) -> Section | None:
    """Return the section with the hyperparameters and losses that the search has found."""
    try:
        found = facts.result.found
    except (ValueError, TypeError) as error:
        return Section("found", "What was found", [tag("p", str(error))])
    if not found:
        return None
    numbers = [(code(path), exact(value)) for path, value in found.items() if isinstance(value, int | float)]
    parts: list[Any] = [pairs(numbers)] if numbers else []
    for path, value in found.items():
        if not isinstance(value, int | float):
            parts += [tag("h3", path), *_struct(path, value)]
    where = with_code("It is in `found.json` of the run folder; in Python, `Result.found`.")
    return Section("found", "What was found", [*parts, soft(where)])


def transfer_section(facts: Facts) -> Section | None:
    """Return the section that compares what was found with the start, in all environments; None where it was not."""
    rows = facts.result.summary.get("transfer") if facts.is_finished else None
    if not rows:
        return None
    about = soft(f"{TRANSFER}. {'; '.join(references_of(rows))}.")
    return Section("transfer", "Transfer", [table(TRANSFER_HEAD, cells_of(rows)), about])


def _struct(path: str, value: Any) -> list[Html]:
    """A learned loss as a chart beside published ones, and the sizes of its weights."""
    described = describe(value)
    leaves = _leaves(described) if isinstance(described, Described) else []
    rows = [(code(path), _content(inner)) for path, inner in leaves]
    return [*map(show, loss_charts({path: value}).values()), pairs(rows)]


def _leaves(described: Described, path: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, inner in described.fields.items():
        whole = f"{path}.{name}" if path else name
        is_nested = isinstance(inner, Described) and inner.kind not in ("array", "function", "dtype")
        found += _leaves(inner, whole) if is_nested else [(whole, inner)]
    return found


def _content(value: Any) -> str:
    if not isinstance(value, Described) or value.kind != "array":
        return exact(value)
    values = np.asarray(value.fields["values"], float)
    if values.size <= LARGEST_SHOWN:
        return ", ".join(number(float(x)) for x in values.ravel())
    return f"{array_in_words(value)}, from {number(float(values.min()))} to {number(float(values.max()))}"


def _fitness(facts: Facts) -> np.ndarray | None:
    """The fitness [G, P] of the generations in which a candidate has one; None without any."""
    try:
        fitness = fitness_of_generations(facts.result)
    except (ValueError, FileNotFoundError):  # no generation is finished
        return None
    fitness = fitness[np.isfinite(fitness).any(axis=1)]
    return fitness if len(fitness) else None
