"""Optuna's samplers and pruners by name, with the settings that suit trials in slots."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna import pruners, samplers
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from shoal.core.errors import need
from shoal.core.kinds import checked_kinds
from shoal.studies.makers import function_of, make, name_of, takes
from shoal.studies.search import Space

SINGLE_OBJECTIVE = ("cmaes", "bohb")  # samplers that compare one score, or need a pruner


def check_names(sampler: str, pruner: str, records: int, space: Space, objectives: int = 1) -> tuple[str, str]:
    """Return (sampler, pruner), with "bohb" as what it stands for; with several objectives the pruner is "none".

    Both are texts that the user named on this command (`studies/makers.py`). Raises ValueError or TypeError for unknown
    names and options, with the nearest, and for a pruner or sampler that cannot work here; ImportError for a missing
    package.
    """
    function_of("sampler", sampler, SAMPLERS, is_named=True)
    function_of("pruner", pruner or "none", PRUNERS, is_named=True)
    if objectives > 1:
        if name_of(sampler) in SINGLE_OBJECTIVE:
            others = ", ".join(name for name in SAMPLERS if name not in SINGLE_OBJECTIVE)
            raise ValueError(f"the sampler {sampler} has one objective, not {objectives}: choose one of {others}.")
        if pruner not in ("", "none"):
            raise ValueError(
                f"the pruner {pruner} compares one score, and there are {objectives} objectives: leave the pruner out, "
                f"so that every trial is complete."
            )
        pruner = "none"
    if name_of(sampler) == "bohb":
        if name_of(pruner) not in ("", "hyperband"):
            raise ValueError(f"sampler=bohb is tpe with the pruner hyperband, not with {pruner}: leave the pruner out.")
        sampler, pruner = sampler.replace("bohb", "tpe", 1), pruner or "hyperband"
    pruner = pruner or "hyperband"
    make_pruner(pruner, records)
    if sampler == "gp":
        need("torch", "gp", "the sampler gp")
    if sampler == "cmaes":
        need("cmaes", "cmaes", "the sampler cmaes")
        ranges = [dimension for dimension in space.dimensions if not dimension.values]
        if len(ranges) < 2:
            raise ValueError(
                f"the sampler cmaes needs at least two ranges of numbers, and the search has {len(ranges)}."
            )
    make_sampler(sampler, 0)
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

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._of(trial).before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._of(trial).after_trial(study, trial, state, values)


def _by_number(make: Callable[..., BaseSampler], **options: Any) -> Callable[[int], BaseSampler]:
    return lambda seed: ByNumber(lambda of_trial: make(seed=of_trial, **options), seed)


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


@checked_kinds()
def _hyperband(records: int, *, min_resource: int = 1, eta: int = 3) -> BasePruner:
    """Several brackets of successive halving. One of `eta` trials goes on at a rung; the first comes after
    `min_resource` records, each other one after `eta` times as many as the one before.
    """
    _check_rungs("hyperband", records, min_resource, eta)
    return pruners.HyperbandPruner(min_resource, records, eta)


@checked_kinds()
def _halving(records: int, *, min_resource: int = 1, eta: int = 3) -> BasePruner:
    """One bracket of `_hyperband`; asynchronous."""
    _check_rungs("halving", records, min_resource, eta)
    return pruners.SuccessiveHalvingPruner(min_resource=min_resource, reduction_factor=eta)


def _median(records: int) -> BasePruner:
    """Ends a trial whose best score so far is below the median of earlier trials at this record."""
    _check_records("median", records, 2)
    return pruners.MedianPruner()


def _percentile(records: int) -> BasePruner:
    """As `_median`, but only the best quarter goes on."""
    _check_records("percentile", records, 2)
    return pruners.PercentilePruner(25.0)


# Every pruner from the number of records of a trial. Further parameters are its options.
PRUNERS: dict[str, Callable[..., BasePruner]] = {
    "hyperband": _hyperband,
    "halving": _halving,
    "median": _median,
    "percentile": _percentile,
    "none": lambda records: pruners.NopPruner(),
}


def make_sampler(text: str, seed: int) -> BaseSampler:
    """Return the sampler that a text describes; its random numbers follow from the seed and the number of a trial.

    A function of the user's own is called for each trial if it has a parameter `seed`, otherwise once.
    """

    def of_seed(seed: int) -> BaseSampler:
        return make("sampler", text, SAMPLERS, seed=seed)

    is_own = ":" in name_of(text) and takes(function_of("sampler", text, SAMPLERS), "seed")
    return ByNumber(of_seed, seed) if is_own else of_seed(seed)


def make_pruner(text: str, records: int) -> BasePruner:
    """Return the pruner that a text describes, for trials of this many records."""
    return make("pruner", text, PRUNERS, records=records)


def _check_rungs(name: str, records: int, min_resource: int, eta: int) -> None:
    """Raise ValueError for options of a pruner with rungs that are out of bounds, or need more records."""
    for option, value, least in (("min_resource", min_resource, 1), ("eta", eta, 2)):
        if value < least:
            raise ValueError(f"{option}={value} of the pruner {name} must be at least {least}.")
    _check_records(name, records, min_resource * eta)


def _check_records(name: str, records: int, least: int) -> None:
    if records < least:
        raise ValueError(
            f"the pruner {name} needs at least {least} records of each trial, and there are {records}: use more "
            f"records, or pruner=none."
        )


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
