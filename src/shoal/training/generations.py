"""The fitness of an evolution's candidates, from the returns of their members."""

import numpy as np
from jaxtyping import Bool, Float

from shoal.training.describe import Described
from shoal.training.result import Result

EVOLUTION = "shoal.population.evolve:Evolve"  # name of the selector in a spec


def fitness_of(
    returns: Float[np.ndarray, "R M"], alive: Bool[np.ndarray, "M"], seeds: int, which: str
) -> Float[np.ndarray, "P"]:
    """Return the fitness of each candidate; NaN if one of its members failed or had no finished episode.

    `returns` are the mean returns of the training episodes that ended in each record of a generation. A member's score
    is their mean over all records (`which="whole"`) or the last one ("final"); a candidate's fitness is the mean of its
    `seeds` members, which have neighboring slots.
    """
    counted = np.isfinite(used := returns if which == "whole" else returns[-1:])
    total = np.where(counted, used, 0).sum(axis=0)
    scores = np.where(alive & counted.any(axis=0), total / np.maximum(counted.sum(axis=0), 1), np.nan)
    return scores.reshape(-1, seeds).mean(axis=1)


def fitness_of_generations(result: Result) -> Float[np.ndarray, "G P"]:
    """Return the fitness of the candidates of all finished generations.

    Raises ValueError if the run is not an evolution, or has no finished generation.
    """
    if not is_evolution(result):
        raise ValueError(f"{result.folder} is not an evolution: make one with shoal.evolve.")
    fields = result.spec.selector.fields
    every, returns, alive = fields["every"], result.curves["train_return"], result.curves["alive"].astype(bool)
    starts = range(0, len(returns) - every + 1, every)
    if not starts:
        raise ValueError(f"{result.folder} has no finished generation yet.")
    last = every - 1
    return np.stack(
        [fitness_of(returns[s : s + every], alive[s + last], fields["seeds"], fields["fitness"]) for s in starts]
    )


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
