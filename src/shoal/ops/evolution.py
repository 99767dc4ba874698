"""evosax's strategies as functions of traced numbers: a population to try, and what its costs teach.

evosax keeps what it learns with in places that a program cannot change once compiled: learning rates inside optax
closures, step sizes inside schedules. Here both are arguments. The optimizer handed to evosax keeps its learning rate
in its own state, where it is overwritten before every step; a scheduled step size is overwritten before every draw;
and where a strategy adapts its step size itself, only the first one is given, through evosax's own parameters.

A strategy has the name that evosax's registry gives it; `NOT_HERE` says which do not fit, and why. evosax minimizes,
and so does this: give costs, not returns.

Returns of episodes are often equal, and evosax 0.3.2 gives all candidates of equal cost the weight of their middle
rank, so that weights no longer add up and the step size shrinks or grows without a reason. Here each gets the mean of
their weights, and a generation whose candidates all cost the same changes the mean of the search alone.
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
# Half of their candidates are the other half mirrored at the mean, whatever is asked for.
ALWAYS_MIRRORED = ("ARS", "PGPE", "ASEBO", "GuidedES", "CR_FM_NES")
# Their gradient is a natural one: a step of length 1 along it is the strategy as published.
NATURAL = ("SNES", "xNES", "SimpleES", "DES")
ADAM_RATE = 0.05
NOT_HERE = {
    "PersistentES": "judges unfinished episodes, a piece at a time",
    "NoiseReuseES": "judges unfinished episodes, a piece at a time",
    "RandomSearch": "needs a distribution to draw from",
    "GuidedES": "needs gradients from elsewhere",
    "DiffusionEvolution": "moves for a number of generations that is fixed beforehand",
    "Rm_ES": "lowers its step size whatever candidates cost (in evosax 0.3.2)",
    "SV_CMA_ES": "searches for several solutions at once",
    "SV_Open_ES": "searches for several solutions at once",
}
# They compare costs of different generations, which ranks within one do not tell.
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
# They multiply weights of ranks with deviates in the order of candidates (in evosax 0.3.2): candidates come best first.
WEIGH_IN_ORDER = ("MA_ES", "LM_MA_ES")
FOR_ONE = ("GradientlessDescent", "HillClimbing", "SimulatedAnnealing")  # a single candidate is enough for them


class Rated(NamedTuple):
    """State of an optimizer whose learning rate is a number like any other."""

    rate: Float[Array, ""]
    inner: Any


@struct
class Evolution(Struct):
    """A strategy of evosax for P candidates of D numbers each. Make one with `named`."""

    name: str = static()
    strategy: Any = static()  # evosax's object
    takes_rate: bool = static()  # whether it has an optimizer
    is_scheduled: bool = static()  # whether the step size is given from outside in every generation
    has_population: bool = static()  # keeps candidates, not a distribution

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
    ) -> "Evolution":
        """The strategy that evosax calls `name`.

        Raises UnknownNameError with the nearest names for one it does not have, and ValueError for an option that the
        strategy has no place for, or a population size that it cannot split.
        """
        library = importlib.import_module("evosax.algorithms")  # a second of imports: only when it is needed
        if name not in library.algorithms:
            known = [other for other in library.algorithms if other not in NOT_HERE]
            raise unknown_name("strategy", name, known, f"evosax has: {', '.join(known)}.")
        if name in NOT_HERE:
            raise ValueError(f"strategy {name} {NOT_HERE[name]}, which is not for policies: try Open_ES or Sep_CMA_ES.")
        if population_size < 2 and name not in FOR_ONE:
            raise ValueError(f"population_size={population_size} is too few for strategy {name}: it needs 2 at least.")
        if name == "LM_MA_ES" and population_size > 2 * size:
            raise ValueError(  # the rate of its first evolution path, P / D, would exceed 2, and its root is no number
                f"strategy LM_MA_ES with population_size={population_size} needs at least {population_size / 2:g} "
                f"weights to search for, and here are {size}: take fewer candidates, or MA_ES."
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
            takes_rate="optimizer" in accepted,
            is_scheduled="std_schedule" in accepted,
            has_population=name in library.population_based_algorithms,
        )

    @property
    def adapts_sigma(self) -> bool:
        """Whether the strategy takes a first step size and goes on from there itself."""
        return not self.is_scheduled and hasattr(self._parameters(1.0), "std_init")

    @property
    def is_antithetic(self) -> bool:
        """Whether candidate p + P / 2 mirrors candidate p."""
        return self.name in ALWAYS_MIRRORED or getattr(self.strategy, "use_antithetic_sampling", False)

    @property
    def default_rate(self) -> float:
        """A learning rate to begin with."""
        return 1.0 if self.name in NATURAL else ADAM_RATE

    def init(self, key: Key, center: Float[Array, "D"], sigma: Any) -> State:
        """Start around a solution. `key` is consumed.

        Strategies with a population begin with normal deviates of deviation `sigma` around it, which are the first
        candidates to be tried.
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
        """Candidates to try, and the state to hand to `tell`. `key` is consumed."""
        if self.is_scheduled:
            state = state.replace(std=jnp.asarray(sigma, jnp.float32))
        with _rules_of_evosax():
            population, asked = self.strategy.ask(key, state, self._parameters(sigma))
            if self.has_population:
                is_first = state.generation_counter == 0
                population = jnp.where(is_first, state.population, population)
                asked = jax.tree.map(lambda old, new: jnp.where(is_first, old, new), state, asked)
        return population, to_arrays(asked)

    def tell(
        self, key: Key, population: Float[Array, "P D"], cost: Float[Array, "P"], state: State, sigma: Any, rate: Any
    ) -> State:
        """Learn from what the candidates cost (finite numbers; less is better). `key` is consumed.

        Where all cost the same, strategies that weigh ranks move their mean to that of the candidates (those whose
        weights add up to 0 stay), and step size, covariance and paths stay as they were.
        """
        if self.takes_rate:
            state = state.replace(opt_state=state.opt_state._replace(rate=jnp.asarray(rate, jnp.float32)))
        with _rules_of_evosax():
            k_tell, k_init = jax.random.split(key)
            parameters = self._parameters(sigma)
            if self.name in WEIGH_IN_ORDER:
                order = jnp.argsort(cost)
                population, cost, state = population[order], cost[order], state.replace(z=state.z[order])
            if hasattr(parameters, "weights"):
                told = _tell_with_ties(self.strategy, k_tell, population, cost, state, parameters)
            else:
                told = self.strategy.tell(k_tell, population, cost, state, parameters)[0]
            if self.is_scheduled:
                told = told.replace(std=state.std)
            if not self.has_population:
                return to_arrays(told)
            # What the first candidates cost is where such a strategy begins; there is nothing to learn from yet.
            begun = self.strategy.init(k_init, population, cost, parameters)
            begun = begun.replace(generation_counter=told.generation_counter)
            if self.is_scheduled:
                begun = begun.replace(std=state.std)
            is_first = state.generation_counter == 0
            return to_arrays(jax.tree.map(lambda new, old: jnp.where(is_first, new, old), begun, told))

    def solution(self, state: State) -> Float[Array, "D"]:
        """The mean of the distribution; of a population the member that was best when last tried.

        Not evosax's archive of the best ever: that is one lucky evaluation. But DifferentialEvolution, MR15_GA, LGA,
        HillClimbing, GradientlessDescent and SimulatedAnnealing keep what they found, with what it cost once, and never
        try it again: theirs may be the luckiest of a whole run.
        """
        return state.population[jnp.argmin(state.fitness)] if self.has_population else state.mean

    def sigma(self, state: State) -> Float[Array, ""]:
        """The step size now, averaged over dimensions; 0 where the strategy has none."""
        return jnp.mean(state.std) if hasattr(state, "std") else jnp.float32(0)

    def hold_sigma(self, state: State, limit: Any) -> State:
        """The same state with a step size of `limit` at least."""
        return state.replace(std=jnp.maximum(state.std, limit)) if hasattr(state, "std") else state

    def _parameters(self, sigma: Any) -> Any:
        with _rules_of_evosax(), jax.ensure_compile_time_eval():  # some of it asks for whole numbers of arrays
            parameters = self.strategy.default_params
        return parameters.replace(std_init=sigma) if hasattr(parameters, "std_init") else parameters


def tie_averaged(
    weights: Float[Array, "P"], cost: Float[Array, "P"], positive_first: bool = False
) -> Float[Array, "P"]:
    """The weights of ranks, best first, where candidates of equal cost share the mean of their weights.

    With `positive_first` candidates that share ranks of positive and of negative weight get the mean of the positive
    ones (the negative ones count as 0), so that the positive weights keep their sum.
    """
    ordered = jnp.sort(cost)
    begin, end = (jnp.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))

    def mean(of: Array) -> Array:
        total = jnp.concatenate([jnp.zeros(1, of.dtype), jnp.cumsum(of)])
        return (total[end] - total[begin]) / (end - begin).astype(of.dtype)

    shared = mean(weights)
    if positive_first:
        shared = jnp.where(weights[begin] > 0, mean(jnp.maximum(weights, 0)), shared)
    return jnp.where(end - begin > 1, shared, weights)


def rated(direction: optax.GradientTransformation) -> optax.GradientTransformation:
    """Steps of `rate` along a direction, where `rate` is part of the state."""

    def init(params: Any) -> Any:
        return Rated(jnp.float32(0), direction.init(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        step, inner = direction.update(updates, state.inner, params)
        return jax.tree.map(lambda x: -state.rate * x, step), Rated(state.rate, inner)

    return optax.GradientTransformation(init, update)


@contextlib.contextmanager
def _rules_of_evosax() -> Iterator[None]:
    # Its arithmetic relies on JAX's standard promotion; a program around it may be stricter.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _tell_with_ties(strategy: Any, key: Key, population: Array, cost: Array, state: State, parameters: Any) -> State:
    # evosax looks weights up by a candidate's middle rank, where tied candidates find the weight that they share.
    has_path = hasattr(parameters, "mu_eff")
    weights = tie_averaged(parameters.weights, cost, positive_first=has_path)  # a path adds positive weights alone
    shared = parameters.replace(weights=weights)
    if has_path:
        shared = shared.replace(mu_eff=_mu_eff(parameters, weights))
    told = strategy.tell(key, population, cost, state, shared)[0]
    is_flat = jnp.all(cost == cost[0])
    return jax.tree.map(lambda old, new: jnp.where(is_flat, old, new), state.replace(mean=told.mean), told)


def _mu_eff(parameters: Any, weights: Float[Array, "P"]) -> Float[Array, ""]:
    # An evolution path is scaled by sqrt(mu_eff), so that its expected length is known where costs tell nothing; a
    # shorter path makes sigma shrink. Weights that are shared are more even, and the mean that they give is shorter.
    before, after = (jnp.sum(jnp.maximum(w, 0) ** 2) for w in (parameters.weights, weights))
    is_tied = jnp.any(weights != parameters.weights)
    return jnp.where(is_tied, parameters.mu_eff * before / after, parameters.mu_eff)


def _optimizer_option(name: str, accepted: Any, optimizer: str) -> dict[str, Any]:
    if "optimizer" not in accepted:
        if optimizer != "default":
            raise ValueError(f"strategy {name} has no optimizer: leave optimizer={optimizer!r} out.")
        return {}
    if optimizer == "default":
        optimizer = "sgd" if name in NATURAL else "adam"
    return {"optimizer": rated(optax.identity() if optimizer == "sgd" else optax.scale_by_adam())}


def _shaping_option(name: str, kind: type, shaping: str) -> dict[str, Any]:
    if shaping == "default":
        return {}
    if name in COMPARES_GENERATIONS and shaping != "none":
        raise ValueError(f"strategy {name} compares costs of different generations: leave shaping={shaping!r} out.")
    functions = importlib.import_module("evosax.core.fitness_shaping")
    if inspect.signature(kind).parameters["fitness_shaping_fn"].default is functions.weights_fitness_shaping_fn:
        raise ValueError(f"strategy {name} weighs ranks in a way of its own: leave shaping={shaping!r} out.")
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
        raise ValueError(f"strategy {name} leaves no choice of antithetic sampling; Open_ES does.")
    return {"use_antithetic_sampling": antithetic}
