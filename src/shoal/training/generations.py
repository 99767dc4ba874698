"""The fitness of an evolution's candidates, from the returns of their members."""

import numpy as np
from jaxtyping import Bool, Float

from shoal.specs.describe import Described
from shoal.training.lives import training_returns
from shoal.training.result import Result

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


def fitness_of_generations(result: Result) -> Float[np.ndarray, "G P"]:
    """Return the fitness of the candidates of all finished generations.

    NaN for a candidate that failed, and with `fitness="final"` for all generations in which no training run ended.
    Raises ValueError if the run is not an evolution, or has no finished generation.
    """
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
    selector = result.spec.selector
    return isinstance(selector, Described) and selector.name == EVOLUTION


def planned_steps(result: Result) -> int:
    """Return the environment steps that each slot has taken when the run is finished.

    An evolution trains new members in every generation (with segments, every few generations).
    """
    if not is_evolution(result):
        return result.spec.steps
    fields = result.spec.selector.fields
    return result.spec.steps * fields["generations"] // fields["segments"]
