"""Compiled programs that several runs of one process use: each is compiled once, and kept while a later run needs it.

Two runs can use the same programs where the same code is traced for them: agent and environment have the same classes
and static fields, their numbers have the same shapes, and the runs have the same sizes. Levels that differ only in
numbers, such as the length of an episode where no size depends on it, are such runs.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import jax
import numpy as np

from shoal.specs.settings import AgentEnv
from shoal.training.loop import Run
from shoal.training.plan import Plan
from shoal.training.population import Programs, kind_of


class ProgramStore:
    """Gives a run the programs of an earlier one where they are the same. Runs that Python steps have none."""

    def __init__(self, pairs: Iterable[AgentEnv] | None = None) -> None:
        """Set up an empty store for runs of these agents and environments, each of which will be trained once.

        Without pairs, all programs are kept.
        """
        self._waiting = None if pairs is None else Counter(map(jax.tree.structure, pairs))
        self._kept: dict[Hashable, tuple[Any, Programs]] = {}  # with the structure of the pair
        self.compiled = 0  # how many sets of programs were compiled for these runs

    def lend(self, run: Run) -> None:
        """Give a run, before it is opened, the programs of an earlier one if they are the same."""
        if hasattr(run.population, "programs"):
            _, run.population.programs = self._kept.get(program_key(run.plan), (None, None))

    def take_back(self, run: Run, pair: AgentEnv) -> None:
        """Keep the programs of a run that was trained, if a later one may need them. `pair` is that of its job.

        Runs of pairs with the same structure may: whether they do is known when they are planned.
        """
        programs = getattr(run.population, "programs", None)
        key, structure = program_key(run.plan), jax.tree.structure(pair)
        self.compiled += key not in self._kept
        if programs is not None:
            self._kept[key] = structure, programs
        if self._waiting is not None:
            self._waiting[structure] -= 1
            self._kept = {key: kept for key, kept in self._kept.items() if self._waiting[kept[0]] > 0}


def program_key(plan: Plan) -> Hashable:
    """Return what the programs of a plan depend on: plans with equal keys have the same programs."""
    leaves = jax.tree.leaves((plan.agent, plan.env))
    shapes = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves)
    largest = max(wave.stop - wave.start for wave in plan.waves)
    sizes = (largest, plan.spec.eval_episodes, plan.horizon, plan.spec.prng)
    return kind_of(plan), shapes, plan.placement, sizes


def count_programs(plans: Iterable[Plan]) -> int:
    """Return how many sets of programs the runs of these plans need."""
    return len({program_key(plan) for plan in plans})
