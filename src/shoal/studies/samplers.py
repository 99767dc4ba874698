"""Optuna's samplers and pruners by name, with the settings that suit trials in slots."""

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna import pruners, samplers
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from shoal.core.errors import need, unknown_name
from shoal.studies.search import Space

SINGLE_OBJECTIVE = ("cmaes", "bohb")  # samplers that compare one score, or need a pruner


def check_names(sampler: str, pruner: str, records: int, space: Space, objectives: int = 1) -> tuple[str, str]:
    """Return (sampler, pruner), with "bohb" as what it stands for; with several objectives the pruner is "none".

    Raises ValueError for unknown names, with the nearest, and for a pruner or sampler that cannot work here;
    ImportError for a missing package.
    """
    for kind, name, known in (("sampler", sampler, SAMPLERS), ("pruner", pruner or "none", PRUNERS)):
        if name not in known:
            raise unknown_name(kind, name, known, f"The {kind}s are: {', '.join(known)}.")
    if objectives > 1:
        if sampler in SINGLE_OBJECTIVE:
            others = ", ".join(name for name in SAMPLERS if name not in SINGLE_OBJECTIVE)
            raise ValueError(f"the sampler {sampler} has one objective, not {objectives}: choose one of {others}.")
        if pruner not in ("", "none"):
            raise ValueError(
                f"the pruner {pruner} compares one score, and there are {objectives} objectives: leave the pruner out, "
                f"so that every trial is complete."
            )
        pruner = "none"
    if sampler == "bohb":
        if pruner not in ("", "hyperband"):
            raise ValueError(f"sampler=bohb is tpe with the pruner hyperband, not with {pruner}: leave the pruner out.")
        sampler, pruner = "tpe", "hyperband"
    pruner = pruner or "hyperband"
    if records < (least := PRUNERS[pruner][0]):
        raise ValueError(
            f"the pruner {pruner} needs at least {least} records of each trial, and there are {records}: use more "
            f"records, or pruner=none."
        )
    if sampler == "gp":
        need("torch", "gp", "the sampler gp")
    if sampler == "cmaes":
        need("cmaes", "cmaes", "the sampler cmaes")
        ranges = [dimension for dimension in space.dimensions if not dimension.values]
        if len(ranges) < 2:
            raise ValueError(
                f"the sampler cmaes needs at least two ranges of numbers, and the search has {len(ranges)}."
            )
    return sampler, pruner


class ByNumber(BaseSampler):
    """For each trial a sampler of its own, whose random numbers follow from the seed and the number of the trial.

    So a study that was stopped, or extended, has the same random numbers as one that was not, and no two workers have
    the same. `make` returns the sampler for a seed.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._number, self._sampler = -1, make(seed)

    def _of(self, trial: FrozenTrial) -> BaseSampler:
        if trial.number != self._number:
            own = int(np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0])
            self._number, self._sampler = trial.number, self._make(own)
        return self._sampler

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._of(trial).sample_independent(study, trial, param_name, param_distribution)


def _by_number(make: Callable[..., BaseSampler], **options: Any) -> Callable[[int], BaseSampler]:
    return lambda seed: ByNumber(lambda of_trial: _quietly(make, seed=of_trial, **options), seed)


def _quietly(make: Callable[..., BaseSampler], *arguments: Any, **options: Any) -> BaseSampler:
    """Make a sampler without the warning that Optuna calls it experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return make(*arguments, **options)


# Every sampler from the seed of the study.
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    # A tree-structured Parzen estimator, multivariate; running trials count as bad ones (constant liar).
    "tpe": _by_number(samplers.TPESampler),
    "random": _by_number(samplers.RandomSampler),
    # A scrambled Sobol sequence, which covers the ranges more evenly than random samples. All workers share it.
    "qmc": lambda seed: samplers.QMCSampler(
        scramble=True, seed=seed, independent_sampler=SAMPLERS["random"](seed), warn_independent_sampling=False
    ),
    "gp": _by_number(samplers.GPSampler),  # a Gaussian process
    "cmaes": _by_number(samplers.CmaEsSampler, warn_independent_sampling=False),
    "nsga2": _by_number(samplers.NSGAIISampler),
    "bohb": lambda seed: SAMPLERS["tpe"](seed),  # with the pruner hyperband (Falkner et al. 2018)
    "grid": lambda seed: SAMPLERS["random"](seed),  # `enqueue_grid` has made all its trials
}
ETA = 3  # one of ETA trials goes on at a rung
# Every pruner with the fewest records of a trial, and for a number of records.
PRUNERS: dict[str, tuple[int, Callable[[int], BasePruner]]] = {
    # Several brackets of successive halving; rungs after 1, 3, 9, ... records.
    "hyperband": (ETA, lambda records: pruners.HyperbandPruner(max_resource=records, reduction_factor=ETA)),
    # Asynchronous.
    "halving": (ETA, lambda records: pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=ETA)),
    # Ends a trial whose best score so far is below the median of earlier trials at this record.
    "median": (2, lambda records: pruners.MedianPruner()),
    "percentile": (2, lambda records: pruners.PercentilePruner(25.0)),  # as median, but the best quarter goes on
    "none": (1, lambda records: pruners.NopPruner()),
}


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Return a sampler whose random numbers follow from the seed and the number of a trial."""
    return _quietly(SAMPLERS[name], seed)


def make_pruner(name: str, records: int) -> BasePruner:
    """Return a pruner for trials of this many records."""
    return PRUNERS[name][1](records)


def grid_size(space: Space) -> int:
    """Return the number of trials of a grid search."""
    return math.prod(len(params) for params in space.grid().values())


def check_queue(space: Space, trials: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError or TypeError for a hand-picked trial that names or has what the study does not search."""
    for position, values in enumerate(trials, 1):
        try:
            space.params(values)
        except (ValueError, TypeError) as error:
            raise type(error)(f"trial {position} of the queue (--enqueue): {error}") from None


def enqueue(study: optuna.Study, space: Space, trials: Sequence[Mapping[str, Any]]) -> None:
    """Put hand-picked trials, values by path, in the queue. A sampler chooses what they leave out."""
    for values in trials:
        study.enqueue_trial(space.params(values))


def enqueue_grid(study: optuna.Study, space: Space, seed: int) -> None:
    """Put all trials of a grid in the queue, in a random order that the seed determines, but none that exists.

    Optuna's `GridSampler` may choose the same point for two workers, or again for a trial whose worker died.
    """
    paths, points = list(space.grid()), list(itertools.product(*space.grid().values()))
    have = {tuple(trial.params.get(path) for path in paths) for trial in study.get_trials(deepcopy=False)}
    for number in np.random.default_rng(seed).permutation(len(points)):
        if points[number] not in have:
            params = dict(zip(paths, points[number], strict=True))
            study.add_trial(
                optuna.trial.create_trial(state=TrialState.WAITING, params=params, distributions=space.distributions)
            )
