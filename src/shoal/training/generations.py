"""The fitness of an evolution's candidates, from the returns of their members."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from shoal.specs.describe import Described
from shoal.specs.spec import RunSpec, file_name
from shoal.training.lives import training_returns
from shoal.training.references import Reference, range_of
from shoal.training.result import Result

SHARED = "evolution.json"  # the runs of an evolution over several environments
EVOLUTION = "shoal.population.evolve:Evolve"  # name of the selector in a spec


def fitness_of(
    returns: Float[np.ndarray, "R M"], alive: Bool[np.ndarray, "M"], seeds: int, which: str
) -> Float[np.ndarray, "P"]:
    """Return the fitness of each candidate; NaN if one of its members failed or had no finished episode.

    `returns` are the mean returns of the training episodes that ended in each record of a generation. A member's score
    is their mean over the records in which an episode ended (`which="whole"`), or that of the last of these ("final").
    A candidate's fitness is the mean of its `seeds` members, which have neighboring slots.
    """
    counted = np.isfinite(returns)
    if which == "final":
        counted &= np.cumsum(counted[::-1], axis=0)[::-1] == 1  # the last one only
    total = np.where(counted, returns, 0).sum(axis=0)
    scores = np.where(alive & counted.any(axis=0), total / np.maximum(counted.sum(axis=0), 1), np.nan)
    return scores.reshape(-1, seeds).mean(axis=1)


def mean_normalized(fitness: Float[np.ndarray, "E P"], envs: Sequence[Sequence[Any]]) -> Float[np.ndarray, "P"]:
    """Return the mean over E environments of the normalized fitness of each candidate; NaN if it failed in one.

    `envs` has (name, return that is normalized to 0, return that is normalized to 1) of each environment, or (name,):
    there the lowest and the highest candidate have 0 and 1.
    """
    references = [
        Reference(ends[0], ends[1], name) if ends else range_of(own, "fitness")
        for (name, *ends), own in zip(envs, fitness, strict=True)
    ]
    return np.mean([reference.normalized(own) for reference, own in zip(references, fitness, strict=True)], axis=0)


def check_alone(spec: RunSpec) -> None:
    """Raise ValueError for a run whose selector needs those of other environments, so that it is not trained alone."""
    selector = spec.selector
    envs = selector.fields.get("envs", ()) if is_evolve(selector) else ()
    if envs:
        raise ValueError(
            f"this run is a part of an evolution over {', '.join(name for name, *_ in envs)}, in which no run goes on "
            f"alone: continue all with `shoal evolve --resume` and the folder of the evolution."
        )


def fitness_of_generations(result: Result) -> Float[np.ndarray, "G P"]:
    """Return the fitness of the candidates of all finished generations.

    NaN for a candidate that failed, and with `fitness="final"` for all generations in which no training run ended.
    Of an evolution over several environments, the folder of which has those of the other runs, it is the mean of the
    normalized returns. Raises ValueError if the run is not an evolution, or has no finished generation.
    """
    fitness = [_returns_of_generations(run) for run in (result, *runs_beside(result))]
    if len(fitness) == 1:
        return fitness[0]
    envs = result.spec.selector.fields["envs"]
    return np.stack([mean_normalized(np.stack(rows), envs) for rows in zip(*fitness, strict=False)])


def what_fitness_is(result: Result) -> str:
    """Return what the fitness of an evolution is."""
    envs = result.spec.selector.fields.get("envs", ())
    over = f", normalized, over {len(envs)} environments"
    return f"mean return in training{over * bool(runs_beside(result))}"


def runs_beside(result: Result) -> list[Result]:
    """Return the runs of an evolution in its other environments; none for other runs, and for such a run itself."""
    if not (is_evolution(result) and (result.folder / SHARED).exists()):
        return []
    return [Result(folder_beside(result.folder, name)) for name, *_ in result.spec.selector.fields["envs"][1:]]


def folder_beside(folder: Path, env: str) -> Path:
    """Return the folder of the run in another environment, from the folder of an evolution."""
    return folder / "envs" / file_name(env)


def _returns_of_generations(result: Result) -> Float[np.ndarray, "G P"]:
    if not is_evolution(result):
        raise ValueError(f"{result.folder} is not an evolution: make one with shoal.evolve.")
    fields = result.spec.selector.fields
    every, curves = fields["every"], result.curves
    ends = range(every - 1, len(curves["train_return"]), every)  # the last record of each generation
    if not ends:
        raise ValueError(f"{result.folder} has no finished generation yet.")
    found = np.stack(
        [
            fitness_of(
                training_returns(curves, end, every), curves["alive"][end] > 0, fields["seeds"], fields["fitness"]
            )
            for end in ends
        ]
    )
    if fields["fitness"] == "final":
        found[[not is_last_segment(g, fields["segments"]) for g in range(len(found))]] = np.nan
    return found


def is_last_segment(generation: int, segments: int) -> bool:
    """Return whether training runs of this many segments end with a generation (0, 1, ...)."""
    return (generation + 1) % segments == 0


def is_evolution(result: Result) -> bool:
    """Return whether the selector of a run is `Evolve`."""
    return is_evolve(result.spec.selector)


def is_evolve(selector: Any) -> bool:
    """Return whether the selector of a spec is `Evolve`."""
    return isinstance(selector, Described) and selector.name == EVOLUTION


def planned_steps(result: Result) -> int:
    """Return the environment steps that each slot has taken when the run is finished.

    An evolution trains new members in every generation (with segments, every few generations).
    """
    if not is_evolution(result):
        return result.spec.steps
    fields = result.spec.selector.fields
    return result.spec.steps * fields["generations"] // fields["segments"]
