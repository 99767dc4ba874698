"""The sections of an evolution: fitness over generations, and the values that it has found."""

from typing import Any

import numpy as np

from shoal.agents.learned_losses import LearnedDrift, LearnedValueLoss
from shoal.reports.chart import Band, Line, chart
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, pairs, tag
from shoal.reports.page import Section
from shoal.reports.words import array_in_words, counted, exact, number
from shoal.specs.describe import Described, describe
from shoal.training.generations import fitness_of_generations
from shoal.viz import evolution as figures

LARGEST_SHOWN = 64  # numbers of an array that are written out


def fitness_in_words(facts: Facts) -> list[Html]:
    """Return the result of an evolution as paragraphs."""
    fitness = _fitness(facts)
    if fitness is None:
        return [tag("p", "No candidate has a fitness yet.", class_="lead")]
    mean = np.nanmean(fitness, axis=1)
    lead = [
        f"In {counted(len(fitness), 'generation')} the mean fitness of the candidates went from ",
        f"{number(float(mean[0]))} to ",
        tag("strong", number(float(mean[-1]))),
        ".",
    ]
    best = np.nanmax(fitness)
    about = (
        f"Fitness is the mean return in training; each generation has {counted(fitness.shape[1], 'candidate')}, each "
        f"trained for {facts.spec.steps:,} steps. The best single candidate had {number(float(best))}, which is partly "
        "luck: the result of the search is its mean, not this candidate. To measure it, train with "
    )
    command = tag("code", f"shoal train {facts.spec.agent} {facts.spec.env_name} --found {facts.shown_path} --seed 1")
    return [tag("p", *lead, class_="lead"), tag("p", about, command, ".")]


def fitness_section(facts: Facts) -> Section | None:
    """Return the section with the fitness over the generations; None as long as there is none."""
    fitness = _fitness(facts)
    if fitness is None:
        return None
    generation = np.flatnonzero(np.isfinite(_all_fitness(facts)).any(axis=1)) + 1
    low, mean, high = (function(fitness, axis=1) for function in (np.nanmin, np.nanmean, np.nanmax))
    made = chart(
        [Band(generation, low, high, "c0"), Line(generation, mean, "c0", "mean of the candidates")],
        "generation",
        "fitness: mean return in training",
        about="fitness over the generations",
        legend=[("c0", "mean of the candidates")],
        note="Band: from the worst candidate to the best.",
        x_words=number,
        whole_x=True,
    )
    return Section("fitness", "Fitness", [made])


def found_section(facts: Facts) -> Section | None:
    """Return the section with the hyperparameters and losses that the search has found."""
    try:
        found = facts.result.found
    except (ValueError, TypeError) as error:
        return Section("found", "What was found", [tag("p", str(error))])
    if not found:
        return None
    numbers = [(tag("code", path), exact(value)) for path, value in found.items() if isinstance(value, int | float)]
    parts: list[Any] = [pairs(numbers)] if numbers else []
    for path, value in found.items():
        if not isinstance(value, int | float):
            parts += [tag("h3", path), *_struct(value)]
    where = (
        "It is in ",
        tag("code", "found.json"),
        " of the run folder; in Python, ",
        tag("code", "Result.found"),
        ".",
    )
    return Section("found", "What was found", [*parts, tag("p", *where, class_="soft")])


def _struct(value: Any) -> list[Html]:
    """A learned loss as a chart beside published ones, and the sizes of its weights."""
    parts = []
    if isinstance(value, LearnedValueLoss):
        x, curves = figures.value_loss_slopes(value)
        lines = [Line(x, y, style, name) for (name, y), style in zip(curves.items(), ("c0", "c6 dashed"), strict=True)]
        legend = [("c0", "evolved"), ("c6 dashed", "squared error")]
        note = figures.SLOPE_NOTE
        parts.append(
            _chart(lines, figures.ERROR_LABEL, figures.SLOPE_LABEL, legend, note, "slope of an evolved value loss")
        )
    if isinstance(value, LearnedDrift):
        x, curves = figures.drifts(value)
        colors = {"evolved": "c0", "PPO": "c1", "DPO": "c2"}
        lines, legend = [], []
        for (name, advantage), y in curves.items():
            style = colors[name] + " dashed" * (advantage < 0)
            lines.append(Line(x, y, style, f"{name}, A = {advantage:+.0f}"))
            legend.append((style, f"{name}, A = {advantage:+.0f}"))
        parts.append(
            _chart(lines, figures.RATIO_LABEL, figures.DRIFT_LABEL, legend, figures.DRIFT_NOTE, "evolved drift")
        )
    described = describe(value)
    rows = []
    if isinstance(described, Described):
        rows = [(tag("code", path), _content(inner)) for path, inner in _leaves(described)]
    return [*parts, pairs(rows)]


def _chart(lines: list[Line], x: str, y: str, legend: list[tuple[str, str]], note: str, about: str) -> Html:
    sentence = f"{note[:1].upper()}{note[1:]}."
    return chart(lines, x, y, about=about, legend=legend, note=sentence, x_words=number)


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
        return ", ".join(number(float(each)) for each in values.ravel())
    return f"{array_in_words(value)}, from {number(float(values.min()))} to {number(float(values.max()))}"


def _all_fitness(facts: Facts) -> np.ndarray:
    try:
        return fitness_of_generations(facts.result)
    except (ValueError, FileNotFoundError):  # no generation is finished
        return np.zeros((0, 1))


def _fitness(facts: Facts) -> np.ndarray | None:
    """The fitness [G, P] of the generations in which a candidate has one; None without any."""
    fitness = _all_fitness(facts)
    fitness = fitness[np.isfinite(fitness).any(axis=1)]
    return fitness if len(fitness) else None
