"""A comparison of groups of runs over one environment or many: scores, aggregates, differences, curves.

A score is the return of a member in one environment. Scores of several environments are averaged after they were
normalized (`training.references`); the statistics are those of `ops.aggregates`. `training.compare` makes comparisons.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.core.registry import ENVS
from shoal.ops.aggregates import (
    AGGREGATES,
    Estimate,
    estimate,
    iqm_curve,
    paired_difference,
    performance_profile,
    probability_of_improvement,
)
from shoal.specs.describe import describe
from shoal.specs.spec import RunSpec, plain
from shoal.training.generations import planned_steps
from shoal.training.references import Reference
from shoal.training.result import Result

EnvKey = tuple[str, tuple[tuple[str, str], ...]]  # the name of an environment, and its fields with their values
THRESHOLDS = 61  # of a performance profile


class Environment(NamedTuple):
    """An environment of a comparison, the returns that are normalized to 0 and 1, and the steps of its curves."""

    name: str
    reference: Reference
    steps: Float[np.ndarray, "T"]


class Cell(NamedTuple):
    """The S members of a group in one environment. Members of two groups with one name have the same seed."""

    names: tuple[str, ...]
    scores: Float[np.ndarray, "S"]  # returns
    curves: Float[np.ndarray, "T S"]  # returns in training; in evaluations where training has no episodes


class Group(NamedTuple):
    """The members of some runs that are compared as one, in each environment."""

    name: str
    runs: tuple[str, ...]
    cells: tuple[Cell, ...]
    dropped: int  # members that were left out: no finite score


class Against(NamedTuple):
    """One group against another."""

    pairs: int  # of members with the same setting and seed, in the environment that has the fewest
    difference: Estimate | None  # mean of the pairs, of normalized scores if there are several environments
    probability: Estimate  # that a random member has a higher score than one of the other group


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `compare`. Groups are numbered in their order."""

    metric: str
    environments: tuple[Environment, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...]  # what a reader must know before trusting it
    are_runs: bool  # whether every run is a group of its own

    @property
    def is_of_one(self) -> bool:
        """Whether there is one environment, so that differences are differences of returns."""
        return len(self.environments) == 1

    def scores(self, group: int) -> list[Float[np.ndarray, "_"]]:
        """Return the normalized scores of a group in each environment, in increasing order."""
        pairs = zip(self.environments, self.groups[group].cells, strict=True)
        return [np.sort(env.reference.normalized(cell.scores)) for env, cell in pairs]

    @cached_property
    def aggregates(self) -> list[dict[str, Estimate]]:
        """Of each group the aggregates of its normalized scores, by the names in `ops.aggregates.AGGREGATES`."""
        names = AGGREGATES.items()
        return [{name: estimate(how, self.scores(g)) for name, how in names} for g in range(len(self.groups))]

    def returns(self, group: int, env: int, statistic: str = "mean") -> Estimate:
        """Return an aggregate, by its name, of the returns of a group in one environment."""
        return estimate(AGGREGATES[statistic], [np.sort(self.groups[group].cells[env].scores)])

    def against(self, group: int, other: int) -> Against:
        """Compare two groups. With the roles exchanged, all numbers are the same, with the other sign (or 1 - P)."""
        first, second = self._named_scores(group), self._named_scores(other)
        common = [sorted({*x} & {*y}) for x, y in zip(first, second, strict=True)]
        a, b = (_in_order(scores, common) for scores in (first, second))
        all_a, all_b = (_in_order(scores, map(sorted, scores)) for scores in (first, second))
        have_same_seeds = all(x.keys() == y.keys() for x, y in zip(first, second, strict=True))
        return Against(
            pairs=min(map(len, common)),
            difference=paired_difference(a, b) if all(common) else None,
            probability=probability_of_improvement(all_a, all_b, paired=have_same_seeds),
        )

    def _named_scores(self, group: int) -> list[dict[str, float]]:
        """In each environment the scores of a group by the name of the member: returns, if there is one environment."""
        found = []
        for env, cell in zip(self.environments, self.groups[group].cells, strict=True):
            scores = cell.scores if self.is_of_one else env.reference.normalized(cell.scores)
            found.append(dict(zip(cell.names, scores, strict=True)))
        return found

    @cached_property
    def profiles(self) -> tuple[Float[np.ndarray, "T"], list[Estimate]]:
        """Thresholds, and of each group the share of its normalized scores above them, averaged over environments."""
        every = [self.scores(g) for g in range(len(self.groups))]
        known = np.concatenate([values for scores in every for values in scores])
        thresholds = np.linspace(min(0.0, known.min()), max(1.0, known.max()), THRESHOLDS)
        return thresholds, [performance_profile(scores, thresholds) for scores in every]

    @cached_property
    def efficiency(self) -> list[Estimate]:
        """Of each group the interquartile mean over environments and seeds at the `steps` of the environments."""
        return [
            iqm_curve([e.reference.normalized(c.curves) for e, c in zip(self.environments, group.cells, strict=True)])
            for group in self.groups
        ]


def _in_order(scores: Sequence[dict[str, float]], names: Iterable[Sequence[str]]) -> list[np.ndarray]:
    """Return the scores of these members in each environment."""
    return [np.array([of_env[name] for name in own]) for of_env, own in zip(scores, names, strict=True)]


def trained_share(run: Result) -> float:
    """Return the share of its steps that a run has been trained for: 1 if it is finished."""
    return 1.0 if run.is_finished else min(1.0, float(run.curves["env_steps"][-1]) / planned_steps(run))


def env_differences(a: RunSpec, b: RunSpec) -> dict[str, tuple[Any, Any]]:
    """Return what differs between the environments of two runs: `{"env": names}`, or the values of fields by path."""
    if a.env_name != b.env_name:
        return {"env": (a.env_name, b.env_name)}
    of_a, of_b = _env_fields(a), _env_fields(b)
    fields = {name: (of_a.get(name), of_b.get(name)) for name in {**of_a, **of_b}}
    return {f"env.{name}": both for name, both in fields.items() if plain(both[0]) != plain(both[1])}


def env_key(spec: RunSpec, values: Mapping[str, Any] = MappingProxyType({}), path: str = "") -> EnvKey:
    """Return what tells environments apart: the name and the fields, also those of a setting, without one at `path`."""
    fields = {f"env.{name}": value for name, value in _env_fields(spec).items()}
    fields |= {name: value for name, value in values.items() if name.startswith("env.")}
    return spec.env_name, tuple(sorted((name, str(plain(value))) for name, value in fields.items() if name != path))


def _env_fields(spec: RunSpec) -> Mapping[str, Any]:
    """Return all fields of the environment. Policies of the zoo, and runs of older versions, lack some usual ones."""
    return {**_usual_fields(spec.env), **spec.env_fields}


@lru_cache(maxsize=256)
def _usual_fields(env: str) -> Mapping[str, Any]:
    """Return the fields of an environment of shoal as `spec.json` has them; none for those of others."""
    return describe(ENVS[env].build()).fields if env in [*ENVS] else {}


def env_label(key: EnvKey, keys: Iterable[EnvKey]) -> str:
    """Return the name of an environment of a key, with the fields by which it differs from others of the same name."""
    name, fields = key
    others = [dict(other) for same, other in keys if same == name]
    differing = [(k, v) for k, v in fields if any(other.get(k) != v for other in others)]
    return " ".join([name, *(f"{k.removeprefix('env.')}={v}" for k, v in differing)])
