"""The strategies of evosax with traced hyperparameters: `ask` returns candidates, `tell` updates with their costs.

evosax stores learning rates in optax closures and step sizes in schedules, which a compiled program cannot change. Here
both are arguments. The optimizer that evosax gets keeps its learning rate in its state, where `tell` overwrites it
before every step. `ask` overwrites a scheduled step size before it samples candidates. A strategy that adapts its step
size itself gets only the initial one, through evosax's parameters.

A strategy has the name that it has in evosax's registry; `EXCLUDED` lists those that do not fit, with the reason. Like
evosax this minimizes: give costs, not returns.

Episode returns are often equal. evosax 0.3.2 then gives all candidates of equal cost the weight of their middle rank,
so that the weights have another sum and the step size shrinks or grows without a reason. Here each of them gets the
mean of their weights. A generation whose candidates all have the same cost changes only the mean of the distribution.
"""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from shoal.core.errors import unknown_name
from shoal.core.keys import Key
from shoal.core.struct import Struct, static, struct, to_arrays

State = Any  # evosax's own, one kind for each strategy

SHAPINGS = ("default", "ranks", "z-score", "none")
OPTIMIZERS = ("default", "adam", "sgd")
# One half of their candidates is always the other half mirrored at the mean.
ALWAYS_MIRRORED = ("ARS", "PGPE", "ASEBO", "GuidedES", "CR_FM_NES")
# They follow the natural gradient: with a learning rate of 1 they are as published.
NATURAL = ("SNES", "xNES", "SimpleES", "DES")
ADAM_RATE = 0.05
# They evaluate a candidate on one segment of a longer task, such as a part of a training run (Vicol et al. 2021, Li et
# al. 2023), and need to know the number of segments.
OF_SEGMENTS = ("PersistentES", "NoiseReuseES")
EXCLUDED = {
    "RandomSearch": "needs a distribution to sample from",
    "GuidedES": "needs gradients from elsewhere",
    "DiffusionEvolution": "needs to know the number of generations in advance",
    "Rm_ES": "lowers its step size whatever the costs are (in evosax 0.3.2)",
    "SV_CMA_ES": "searches for several solutions at once",
    "SV_Open_ES": "searches for several solutions at once",
}
# They compare costs of different generations, so that costs must not be replaced by ranks within a generation.
COMPARES_GENERATIONS = (
    "CMAAnchoredLES",
    "DifferentialEvolution",
    "GradientlessDescent",
    "HillClimbing",
    "LES",
    "LGA",
    "MR15_GA",
    "PSO",
    "SimulatedAnnealing",
    "iAMaLGaM_Full",
    "iAMaLGaM_Univariate",
)
# In evosax 0.3.2 they multiply the weights of ranks with deviates in the order of the candidates: sort by cost first.
NEED_SORTED_CANDIDATES = ("MA_ES", "LM_MA_ES")
WORK_WITH_ONE_CANDIDATE = ("GradientlessDescent", "HillClimbing", "SimulatedAnnealing")


class LearningRateState(NamedTuple):
    """The state of an optimizer together with its learning rate."""

    rate: Float[Array, ""]
    inner: Any


@struct
class Evolution(Struct):
    """A strategy of evosax for P candidates with D weights each. Make one with `named`."""

    name: str = static()
    strategy: Any = static()  # evosax's object
    takes_learning_rate: bool = static()  # whether it has an optimizer
    is_scheduled: bool = static()  # whether the caller sets the step size in every generation
    has_population: bool = static()  # whether its state is a population of candidates instead of a distribution
    segments: int = static()  # of a task, each evaluated on its own; 1: a task is evaluated as a whole
    arguments: tuple = static()  # the arguments of `named`

    def __eq__(self, other: object) -> bool:  # agents keep it in a static field: equal strategies must share programs
        return isinstance(other, Evolution) and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash(self.arguments)

    @classmethod
    def named(
        cls,
        name: str,
        population_size: int,
        size: int,
        *,
        optimizer: str = "default",
        shaping: str = "default",
        antithetic: bool | None = None,
        segments: int = 1,
    ) -> "Evolution":
        """The strategy that evosax calls `name`.

        With `segments` of 2 or more it must be one of `OF_SEGMENTS`, and a generation evaluates one segment.

        Raises UnknownNameError, with the nearest names, for an unknown name, and ValueError for an option that the
        strategy does not support or a population size that does not fit.
        """
        library = importlib.import_module("evosax.algorithms")  # takes a second: import only when needed
        if name not in library.algorithms:
            names = [other for other in library.algorithms if other not in EXCLUDED and _suits(other, segments)]
            raise unknown_name("strategy", name, names, f"evosax has: {', '.join(names)}.")
        if name in EXCLUDED:
            raise ValueError(f"strategy {name} {EXCLUDED[name]}: try Open_ES or Sep_CMA_ES.")
        if not _suits(name, segments):
            what = "parts of unfinished episodes or runs" if segments == 1 else "whole episodes or runs"
            others = "Open_ES or Sep_CMA_ES" if segments == 1 else " or ".join(OF_SEGMENTS)
            raise ValueError(f"strategy {name} evaluates {what}: try {others}.")
        if population_size < 2 and name not in WORK_WITH_ONE_CANDIDATE:
            raise ValueError(f"population_size={population_size} is too few for strategy {name}: it needs at least 2.")
        if name == "LM_MA_ES" and population_size > 2 * size:
            raise ValueError(  # the rate of its first evolution path, P / D, would exceed 2: its root would be NaN
                f"strategy LM_MA_ES with population_size={population_size} needs at least {population_size / 2:g} "
                f"weights to search for, and here are {size}: use a smaller population, or MA_ES."
            )
        kind = library.algorithms[name]
        accepted = inspect.signature(kind).parameters
        with _rules_of_evosax():
            options = {
                **_optimizer_option(name, accepted, optimizer),
                **_shaping_option(name, kind, shaping),
                **_antithetic_option(name, accepted, antithetic),
            }
            if "std_schedule" in accepted:
                options["std_schedule"] = lambda generation: jnp.float32(1)  # overwritten before it is read
            try:
                made = kind(population_size, np.zeros(size, np.float32), metrics_fn=lambda *_: {}, **options)
            except AssertionError as error:
                raise ValueError(f"strategy {name} with population_size={population_size}: {error}") from None
        return cls(
            name=name,
            strategy=made,
            takes_learning_rate="optimizer" in accepted,
            is_scheduled="std_schedule" in accepted,
            has_population=name in library.population_based_algorithms,
            segments=segments,
            arguments=(name, population_size, size, optimizer, shaping, antithetic, segments),
        )

    @property
    def adapts_sigma(self) -> bool:
        """Whether the strategy takes an initial step size and then adapts it itself."""
        return not self.is_scheduled and hasattr(self._parameters(1.0), "std_init")

    @property
    def sigma_is_initial(self) -> bool:
        """Whether only `init` reads the step size."""
        return not self.is_scheduled and self.adapts_sigma != self.has_population

    @property
    def is_antithetic(self) -> bool:
        """Whether candidate p + P / 2 is candidate p mirrored at the mean."""
        return self.name in ALWAYS_MIRRORED or getattr(self.strategy, "use_antithetic_sampling", False)

    @property
    def default_learning_rate(self) -> float:
        """The learning rate if the user gives none."""
        return 1.0 if self.name in NATURAL else ADAM_RATE

    def init(self, key: Key, center: Float[Array, "D"], sigma: Any) -> State:
        """The state of a search that starts around the weights `center`. `key` is consumed.

        A strategy with a population starts with normal deviates of standard deviation `sigma` around `center`; they are
        the first candidates.
        """
        with _rules_of_evosax():
            if not self.has_population:
                state = self.strategy.init(key, center, self._parameters(sigma))
                if self.name == "xNES":  # evosax puts the first step size into both of two factors
                    state = state.replace(B=jnp.eye(center.size))
                if self.name.startswith("iAMaLGaM"):  # evosax adds the step size to a deviation of 1
                    state = state.replace(C=jnp.zeros_like(state.C))
                return to_arrays(state)
            key, k_population = jax.random.split(key)
            deviates = jax.random.normal(k_population, (self.strategy.population_size, center.size), jnp.float32)
            population = center[None] + sigma * deviates
            costs = jnp.zeros(self.strategy.population_size, jnp.float32)
            return to_arrays(self.strategy.init(key, population, costs, self._parameters(sigma)))

    def ask(self, key: Key, state: State, sigma: Any) -> tuple[Float[Array, "P D"], State]:
        """(candidates to evaluate [P, D], the state to pass to `tell`). `key` is consumed."""
        if self.is_scheduled:
            state = state.replace(std=jnp.asarray(sigma, jnp.float32))
        with _rules_of_evosax():
            population, next_state = self.strategy.ask(key, state, self._parameters(sigma))
            if self.has_population:
                is_first = state.generation_counter == 0
                population = jnp.where(is_first, state.population, population)
                next_state = jax.tree.map(lambda old, new: jnp.where(is_first, old, new), state, next_state)
        return population, to_arrays(next_state)

    def tell(
        self,
        key: Key,
        population: Float[Array, "P D"],
        cost: Float[Array, "P"],
        state: State,
        sigma: Any,
        learning_rate: Any,
    ) -> State:
        """The state after the costs of the candidates (finite numbers; lower is better). `key` is consumed.

        If all costs are equal, a strategy that weights ranks moves its mean to that of the candidates (or not at all if
        its weights add up to 0); step size, covariance and evolution paths do not change.
        """
        if self.takes_learning_rate:
            state = state.replace(opt_state=state.opt_state._replace(rate=jnp.asarray(learning_rate, jnp.float32)))
        with _rules_of_evosax():
            k_tell, k_init = jax.random.split(key)
            parameters = self._parameters(sigma)
            if self.name in NEED_SORTED_CANDIDATES:
                order = jnp.argsort(cost)
                population, cost, state = population[order], cost[order], state.replace(z=state.z[order])
            if hasattr(parameters, "weights"):
                updated = _tell_with_ties(self.strategy, k_tell, population, cost, state, parameters)
            else:
                updated = self.strategy.tell(k_tell, population, cost, state, parameters)[0]
            if self.is_scheduled:
                updated = updated.replace(std=state.std)
            if not self.has_population:
                return to_arrays(updated)
            # evosax initializes a strategy with a population from candidates and their costs: that is generation 0.
            initial = self.strategy.init(k_init, population, cost, parameters)
            initial = initial.replace(generation_counter=updated.generation_counter)
            if self.is_scheduled:
                initial = initial.replace(std=state.std)
            is_first = state.generation_counter == 0
            return to_arrays(jax.tree.map(lambda new, old: jnp.where(is_first, new, old), initial, updated))

    def solution(self, state: State) -> Float[Array, "D"]:
        """The mean of the distribution; for a population the candidate with the lowest last measured cost.

        This is not the best candidate ever, which evosax also stores: its low cost may be due to chance. But
        DifferentialEvolution, MR15_GA, LGA, HillClimbing, GradientlessDescent and SimulatedAnnealing keep a good
        candidate with its one measured cost and never evaluate it again, so that theirs may be the luckiest evaluation
        of the whole run.
        """
        return state.population[jnp.argmin(state.fitness)] if self.has_population else state.mean

    def sigma(self, state: State) -> Float[Array, ""]:
        """The current step size, averaged over dimensions; 0 if the strategy has none."""
        return jnp.mean(state.std) if hasattr(state, "std") else jnp.float32(0)

    def with_smallest_sigma(self, state: State, limit: Any) -> State:
        """The state with a step size of at least `limit`."""
        return state.replace(std=jnp.maximum(state.std, limit)) if hasattr(state, "std") else state

    def _parameters(self, sigma: Any) -> Any:
        with _rules_of_evosax(), jax.ensure_compile_time_eval():  # evosax converts arrays to int
            parameters = self.strategy.default_params
        if self.name in OF_SEGMENTS:
            return parameters.replace(T=self.segments, K=1)
        return parameters.replace(std_init=sigma) if hasattr(parameters, "std_init") else parameters


def _suits(name: str, segments: int) -> bool:
    """Return whether a strategy evaluates tasks in this number of segments."""
    return (name in OF_SEGMENTS) == (segments > 1)


def tie_averaged(
    weights: Float[Array, "P"], cost: Float[Array, "P"], positive_first: bool = False
) -> Float[Array, "P"]:
    """Weights of the ranks, best first, such that candidates of equal cost get the mean of their weights.

    With `positive_first`, tied candidates whose ranks have both positive and negative weights get the mean of the
    positive parts (negative weights count as 0), so that the sum of the positive weights does not change.
    """
    ordered = jnp.sort(cost)
    begin, end = (jnp.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))

    def mean_over_ties(x: Array) -> Array:
        total = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(x)])
        return (total[end] - total[begin]) / (end - begin).astype(x.dtype)

    tied = mean_over_ties(weights)
    if positive_first:
        tied = jnp.where(weights[begin] > 0, mean_over_ties(jnp.maximum(weights, 0)), tied)
    return jnp.where(end - begin > 1, tied, weights)


def with_learning_rate(direction: optax.GradientTransformation) -> optax.GradientTransformation:
    """An optimizer that takes steps of -rate * direction, where `rate` is part of its state and thus traced."""

    def init(params: Any) -> Any:
        return LearningRateState(jnp.float32(0), direction.init(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        step, inner = direction.update(updates, state.inner, params)
        return jax.tree.map(lambda x: -state.rate * x, step), LearningRateState(state.rate, inner)

    return optax.GradientTransformation(init, update)


@contextlib.contextmanager
def _rules_of_evosax() -> Iterator[None]:
    # evosax relies on JAX's standard dtype and rank promotion; the calling program may use stricter settings.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _tell_with_ties(strategy: Any, key: Key, population: Array, cost: Array, state: State, parameters: Any) -> State:
    # evosax looks weights up by the middle rank of tied candidates, where `tie_averaged` puts their mean weight.
    has_path = hasattr(parameters, "mu_eff")
    weights = tie_averaged(parameters.weights, cost, positive_first=has_path)  # paths use only positive weights
    averaged = parameters.replace(weights=weights)
    if has_path:
        averaged = averaged.replace(mu_eff=_mu_eff(parameters, weights))
    updated = strategy.tell(key, population, cost, state, averaged)[0]
    all_equal = jnp.all(cost == cost[0])
    return jax.tree.map(lambda old, new: jnp.where(all_equal, old, new), state.replace(mean=updated.mean), updated)


def _mu_eff(parameters: Any, weights: Float[Array, "P"]) -> Float[Array, ""]:
    # An evolution path is scaled by sqrt(mu_eff), so that its expected length under random selection is known; sigma
    # shrinks if the path is shorter. Averaged weights are more equal, which shortens the path: mu_eff must grow.
    before, after = (jnp.sum(jnp.maximum(w, 0) ** 2) for w in (parameters.weights, weights))
    is_tied = jnp.any(weights != parameters.weights)
    return jnp.where(is_tied, parameters.mu_eff * before / after, parameters.mu_eff)


def _optimizer_option(name: str, accepted: Any, optimizer: str) -> dict[str, Any]:
    if "optimizer" not in accepted:
        if optimizer != "default":
            raise ValueError(f"strategy {name} has no optimizer: leave out optimizer={optimizer!r}.")
        return {}
    if optimizer == "default":
        optimizer = "sgd" if name in NATURAL else "adam"
    return {"optimizer": with_learning_rate(optax.identity() if optimizer == "sgd" else optax.scale_by_adam())}


def _shaping_option(name: str, kind: type, shaping: str) -> dict[str, Any]:
    if shaping == "default":
        return {}
    if name in COMPARES_GENERATIONS and shaping != "none":
        raise ValueError(f"strategy {name} compares costs of different generations: leave out shaping={shaping!r}.")
    functions = importlib.import_module("evosax.core.fitness_shaping")
    if inspect.signature(kind).parameters["fitness_shaping_fn"].default is functions.weights_fitness_shaping_fn:
        raise ValueError(f"strategy {name} has its own weights for ranks: leave out shaping={shaping!r}.")
    names = {
        "ranks": functions.centered_rank_fitness_shaping_fn,
        "z-score": functions.standardize_fitness_shaping_fn,
        "none": functions.identity_fitness_shaping_fn,
    }
    return {"fitness_shaping_fn": names[shaping]}


def _antithetic_option(name: str, accepted: Any, antithetic: bool | None) -> dict[str, Any]:
    if antithetic is None:
        return {}
    if "use_antithetic_sampling" not in accepted:
        raise ValueError(f"strategy {name} has no option for antithetic sampling; Open_ES has.")
    return {"use_antithetic_sampling": antithetic}
