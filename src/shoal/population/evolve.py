"""Evolve: an evolution strategy searches for hyperparameters and losses; fitness is the return of training runs.

Every generation, each of P candidates is trained with K seeds from the beginning. All candidates have the same seeds
(common random numbers), and each generation has new ones. Sources: Salimans et al. 2017 for the strategy; Lu 2023,
"Achieving 4000x Speedups and Meta-Evolving Discoveries with PureJaxRL", for evolved value losses; Lu et al. 2022,
"Discovered Policy Optimisation", for evolved drifts; Vicol et al. 2021 and Li et al. 2023 for segments of training.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from shoal.agents.es import without_failures
from shoal.core.agent import Agent, check_choices, check_counts
from shoal.core.env import Env, Key
from shoal.core.kinds import fitted
from shoal.core.ranges import Range
from shoal.core.struct import FieldInfo, Number, Struct, hyper, static, struct
from shoal.ops.evolution import OPTIMIZERS, SHAPINGS, Evolution
from shoal.population.search_space import SearchSpace
from shoal.population.varying import read_range
from shoal.specs.points import check_read
from shoal.specs.roster import Roster
from shoal.specs.selector import FRESH, Schedule, Selector, Standing, Turnover, UserChoices
from shoal.specs.settings import AgentEnv, get
from shoal.training.generations import fitness_of, is_last_segment, mean_normalized

FITNESSES = ("whole", "final")
# From a generation to its training returns [R, M], and which members are alive [M], in every environment.
Source = Callable[[int], Sequence[tuple[np.ndarray, np.ndarray]]]


@struct
class Evolve(Selector):
    """Search for hyperparameters and parts with a strategy of evosax. `shoal.evolve` makes one that fits its run.

    The run has P x `seeds` slots: the members of a candidate have neighboring slots. `vary` has a tuple for each path
    that varies: `("learning_rate", 1e-5, 1e-2, "log")` or `("env.gravity", 5, 15)` for a number, and `("value_loss",)`
    for a struct with weights. The search starts at the values that agent and environment have.

    The fitness of a candidate is the mean return of the episodes during its training, averaged over its seeds: over all
    records of the training run ("whole"), so that fast learning counts, or at its end, in the last record ("final"). A
    record in which no episode ended does not count. A candidate fails if one of its members stops because of NaN or
    infinity, or finishes no episode. Failed candidates count as the worst.

    With `segments` of 2 or more, and a strategy made for them (PersistentES, NoiseReuseES), a generation is only one
    segment of the training run. In the next generation every member continues its training with another candidate; one
    in which no episode ended in a segment keeps its last return. These strategies add up the fitness of all segments,
    so with "final" the fitness is 0 in all but the last.

    `envs` are the environments of an evolution over several of them, which `shoal.evolve(envs=...)` runs: (name, return
    that is normalized to 0, return that is normalized to 1) or (name,) for each. The fitness of a candidate is then the
    mean of its normalized returns. For (name,) the lowest and the highest candidate of each generation have 0 and 1.
    """

    learning_rate: Number = hyper(0.02, valid=(0, 100), help="of the strategy's optimizer; no effect if it has none")
    sigma: Number = hyper(0.05, valid=(1e-9, 1e3), help="standard deviation of the candidates around their mean")
    sigma_decay: Number = hyper(1.0, valid=(0, 1), help="factor of sigma per generation; applied where runs begin")

    vary: tuple = static(())
    generations: int = static(100)
    seeds: int = static(2, help="members of each candidate")
    every: int = static(5, help="records of a generation")
    segments: int = static(1, help="generations of one training run")
    fitness: str = static("whole", choices=FITNESSES)
    maximize: bool = static(True, choices=(False, True))
    strategy: str = static("Open_ES")
    optimizer: str = static("default", choices=OPTIMIZERS)
    shaping: str = static("default", choices=SHAPINGS)
    envs: tuple = static(
        (), help="names and references of the environments; none: the fitness is the return of the run"
    )

    source: Any = FieldInfo(static=True).field(None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choices(self)
        check_counts(self, "generations", "seeds", "segments")
        fitted("vary", self.vary, Sequence[Sequence[Any]])
        fitted("vary", [path for path, *_ in self.vary], Sequence[str])
        if not self.vary:
            raise ValueError("vary is empty: name what evolves, as in vary=(('learning_rate',), ('clip', 0.1, 0.3)).")

    @property
    def is_repeatable(self) -> bool:
        """Whether the fitness follows from the run alone, and not from those in other environments."""
        return not self.envs

    @property
    def ends_run(self) -> bool:
        """True: the run ends after the last generation."""
        return True

    @property
    def trainings(self) -> float:
        """The number of training runs of each slot."""
        return self.generations / self.segments

    def bind(self, agent: Agent, env: Env, given: UserChoices) -> "Evolve":
        """This selector with the range of every number in `vary`. Raises ValueError or TypeError for a wrong path."""
        setting = AgentEnv(agent, env)
        if given.first:
            raise ValueError(
                f"candidates must differ only in what evolves, but {', '.join(given.first)} differs between members: "
                f"give one value, or let it evolve."
            )
        vary = tuple(_with_range(setting, *item) for item in self.vary)
        if self.segments > 1:  # members go on with other candidates
            check_read(setting, (path for path, *_ in vary))
        bound = self.replace(vary=vary)
        return bound.with_source(self.source)

    def check(self, schedule: Schedule) -> None:
        """Raise ValueError if sizes do not fit each other or the strategy, or if candidates would have no fitness."""
        if len(schedule.steps) != self.every * self.segments:
            raise ValueError(
                f"every training run needs {self.every * self.segments} records ({self.segments} x {self.every}), and "
                f"one of {schedule.steps[-1]:,} steps has {len(schedule.steps)}: choose more steps, or fewer records."
            )
        if self.fitness == "final" and self.generations < self.segments:
            raise ValueError(
                f"fitness=final is known after a whole training run of {self.segments} generations, and the search has "
                f"{self.generations}: use --generations {self.segments} or more, or fewer segments."
            )
        steps = schedule.steps[-1]
        if schedule.scored_from > steps:
            why = (
                "training has no episodes" if math.isinf(schedule.scored_from) else "no episode may have ended by then"
            )
            raise ValueError(
                f"every training run has {steps:,} steps, after which candidates have no fitness: {why}. Choose more "
                f"steps, or an agent that trains in episodes."
            )
        if schedule.learns_from >= steps:
            raise ValueError(
                f"every training run has {steps:,} steps, but the first gradient step comes after "
                f"{schedule.learns_from:,.0f} steps: choose more steps, or let the agent learn earlier."
            )
        self._evolution(schedule.members // self.seeds, 2)

    def ranges(self, agent: Agent, env: Env) -> Mapping[str, Any]:
        """The lowest and the highest value of each number that varies. A struct has no range: it stands for both."""
        setting = AgentEnv(agent, env)
        return {path: span[:2] if span else (get(setting, path),) * 2 for path, span in self._spans().items()}

    def first_seeds(self, seed_index: np.ndarray) -> np.ndarray:
        """Seeds 0 to K - 1 for each candidate. Raises ValueError if the slots are no multiple of `seeds`."""
        if len(seed_index) % self.seeds:
            raise ValueError(f"{len(seed_index)} members cannot be split into candidates with {self.seeds} seeds each.")
        return self._seeds_of_run(0, len(seed_index)).astype(seed_index.dtype)

    def begin(self, roster: Roster, key: Key) -> tuple[Any, dict[str, Any]]:
        """The state of the search, and the candidates of the first generation."""
        space = self._space(roster)
        first = {path: jax.tree.map(lambda x: x[0], roster.hyperparameters[path]) for path in space.varied}
        k_init, k_ask = jax.random.split(key)
        evolution = self._evolution(len(roster.seed_index) // self.seeds, space.size)
        search = evolution.init(k_init, jnp.asarray(space.coordinates(first)), self.sigma)
        population, search = _ask(evolution)(k_ask, search, self.sigma)
        state = {"search": search, "population": population, "generation": np.int32(0)}
        return jax.tree.map(np.asarray, state), self._of_members(roster, space, np.asarray(population))

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Update the search with the fitness of this generation, and begin the next one."""
        roster, space = standing.roster, self._space(standing.roster)
        generation, members = int(state["generation"]), len(roster.seed_index)
        trained = [(standing.returns, standing.alive)] if self.source is None else self.source(generation)
        fitness = np.stack([fitness_of(returns, alive, self.seeds, self.fitness) for returns, alive in trained])
        note = _in_words(fitness, self.envs)
        fitness = mean_normalized(fitness, self.envs) if self.envs else fitness[0]
        if self.fitness == "final" and not is_last_segment(generation, self.segments):
            alive = np.all([alive for _, alive in trained], axis=0)
            failed = ~alive.reshape(-1, self.seeds).all(axis=1)
            fitness = np.where(failed, np.nan, 0.0)
        evolution = self._evolution(len(fitness), space.size)
        k_tell, k_ask = jax.random.split(key)
        worst_last = without_failures(jnp.asarray(fitness if self.maximize else -fitness, jnp.float32))
        search = _tell(evolution)(
            k_tell, state["population"], -worst_last, state["search"], self._sigma(generation), self.learning_rate
        )
        generation += 1
        population, search = _ask(evolution)(k_ask, search, self._sigma(generation))
        state = jax.tree.map(
            np.asarray, {"search": search, "population": population, "generation": np.int32(generation)}
        )
        runs, segment = divmod(generation, self.segments)
        turnover = Turnover(
            source=np.arange(members) if segment else np.full(members, FRESH),
            hyperparameters=self._of_members(roster, space, state["population"]),
            seed_index=self._seeds_of_run(runs, members),
            notes=(f"generation {generation} of {self.generations}: {note}",),
        )
        if generation < self.generations:
            return state, turnover
        return state, Turnover.none(standing)._replace(notes=turnover.notes, finished=True)

    def found(self, state: Any, roster: Roster) -> dict[str, Any]:
        """The mean of the search distribution, by path."""
        space = self._space(roster)
        evolution = self._evolution(len(roster.seed_index) // self.seeds, space.size)
        values = space.values(np.asarray(evolution.solution(jax.tree.map(jnp.asarray, state["search"]))))
        return jax.tree.map(_as_dtype_of, {path: roster.hyperparameters[path] for path in values}, values)

    # What varies, and the values of a generation.

    def _spans(self) -> dict[str, tuple]:
        """The range of each path: (low, high) or (low, high, "log"); () for a struct."""
        return {path: tuple(span) for path, *span in self.vary}

    def _space(self, roster: Roster) -> SearchSpace:
        varied = {}
        for path, span in self._spans().items():
            values = roster.hyperparameters[path]
            varied[path] = Range.of(span) if span else jax.tree.map(lambda x: x[0], values)
        return SearchSpace(varied)

    def _evolution(self, candidates: int, size: int) -> Evolution:
        return Evolution.named(
            self.strategy,
            candidates,
            size,
            optimizer=self.optimizer,
            shaping=self.shaping,
            segments=self.segments,
        )

    def _sigma(self, generation: int) -> Number:
        """The standard deviation of a generation's candidates. It is the same in all segments of a training run.

        Strategies of segments add up, or use again, the perturbations of a run, and divide by one variance.
        """
        return self.sigma * self.sigma_decay ** (generation - generation % self.segments)

    def _of_members(self, roster: Roster, space: SearchSpace, population: Float[np.ndarray, "P D"]) -> dict[str, Any]:
        """The values of all members [M], with the dtypes that the roster has."""
        values = space.values(np.repeat(population, self.seeds, axis=0))
        before = {path: roster.hyperparameters[path] for path in values}
        return jax.tree.map(_as_dtype_of, before, values)

    def _seeds_of_run(self, run: int, members: int) -> np.ndarray:
        """The seed index of each member [M]: every candidate has the same ones, and every training run new ones."""
        return run * self.seeds + np.tile(np.arange(self.seeds, dtype=np.int32), members // self.seeds)


def _with_range(pair: AgentEnv, path: str, *span: Any) -> tuple:
    """Return the path with the range of its number, or alone where it leads to a struct."""
    if isinstance(get(pair, path), Struct):
        if span:
            raise ValueError(f"{path} is a struct, which has no range: write ({path!r},).")
        return (path,)
    found = read_range(pair, path, span or None)
    if found.values:
        raise ValueError(f"{path} cannot evolve over a list of values: give a range, as in ({path!r}, low, high).")
    return (path, found.low, found.high, found.scale)


def _as_dtype_of(before: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(value) if np.issubdtype(before.dtype, np.integer) else value, before.dtype)


def _in_words(returns: Float[np.ndarray, "E P"], envs: Sequence[Sequence[Any]]) -> str:
    """Return the fitness of a generation in words; of several environments also the mean return in each."""
    if not envs:
        return _fitness_in_words(returns[0])
    means = ", ".join(
        f"{name} {own[np.isfinite(own)].mean() if np.isfinite(own).any() else math.nan:.4g}"
        for (name, *_), own in zip(envs, returns, strict=True)
    )
    return f"{_fitness_in_words(mean_normalized(returns, envs))}; mean returns: {means}"


def _fitness_in_words(fitness: Float[np.ndarray, "P"]) -> str:
    finite = fitness[np.isfinite(fitness)]
    failed = f", {len(fitness) - len(finite)} failed" * (len(finite) < len(fitness))
    if not len(finite):
        return f"all {len(fitness)} candidates failed"
    return f"fitness {finite.mean():.4g} ({finite.min():.4g} to {finite.max():.4g}){failed}"


# Compiled once for each strategy and size.


@lru_cache(maxsize=16)
def _ask(evolution: Evolution) -> Any:
    return jax.jit(evolution.ask)


@lru_cache(maxsize=16)
def _tell(evolution: Evolution) -> Any:
    return jax.jit(evolution.tell)
