"""ES: policy search by evolution strategies. Each generation evaluates P candidate weight vectors in episodes.

The strategies are those of evosax (`ops/evolution.py`). Source: Salimans et al. 2017, "Evolution Strategies as a
Scalable Alternative to Reinforcement Learning", for ranks, antithetic pairs and observation statistics; Ng and Jordan
2000 ("PEGASUS") for evaluating all candidates with the same random numbers.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.normalization import first_stats, normalization_field, normalized
from shoal.core.agent import Agent, Metrics, check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key, State, episode_limit
from shoal.core.keys import make_key
from shoal.core.registry import agent
from shoal.core.spaces import Box, from_unit, is_bounded, zeros
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, is_concrete, schedules_in, static, struct
from shoal.nn.controllers import Controller
from shoal.nn.distributions import (
    distribution,
    head_size,
    in_units,
    restricted,
    revision_of_units,
    sample_noise,
)
from shoal.nn.memory.fields import check_memory_fields, memory_field, memory_of, window_field
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso
from shoal.ops import sums
from shoal.ops.evolution import OPTIMIZERS, SHAPINGS, Evolution
from shoal.ops.running import RunningStats
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.rollout import sample_noise as sample_env_noise

Weights = Any
SMALLEST_SIGMA = 1e-3  # times the initial sigma; with a smaller one, candidates are rounded to their mean in float32
STEPS_WITHOUT_LIMIT = 1_000  # episode length in an environment without a time limit


@struct
class ESState(Struct):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    search: Any  # the state of the strategy
    obs_stats: RunningStats | None


@struct
class ESPolicy(Struct):
    """The inputs of `act`: weights, and the statistics that normalize observations."""

    weights: Weights
    obs_stats: RunningStats | None


@struct
class RunningEpisodes(Struct):
    """N = P x K running episodes: P candidates with K episodes each; those of one candidate are adjacent."""

    state: State
    carry: Any  # recurrent carry
    episode_return: Float[Array, "N"]
    rounding: Float[Array, "N"] | None  # of this sum (`ops.sums`)
    length: Int[Array, "N"]
    ended: Bool[Array, "N"]
    shift_sum: Any  # sum of (observation - previous mean), [N, ...]; None without normalization
    shift_square_sum: Any  # sum of the squares of these differences


@agent("es")
@struct
class ES(Agent):
    """Evolution strategies, for every kind of action; they use no gradients, no discount and no value function.

    One update is one generation: `population_size` candidates run `episodes` episodes each, all in parallel, until the
    last one ends or reaches `episode_steps`. The fitness of a candidate is its mean return. `strategy` is a name of
    evosax's registry; the few strategies that cannot search for policies are rejected with the reason. `sigma` is the
    standard deviation of a weight, except in ASEBO, where it is the length of a step, and in GradientlessDescent, where
    it is the length of the longest step.

    The policy is the mean of the search distribution, and never the best candidate of the whole run, whose high return
    may be due to chance. For a strategy without a distribution it is the best candidate of the last generation.
    DifferentialEvolution, MR15_GA, LGA, HillClimbing, GradientlessDescent and SimulatedAnnealing keep a good candidate
    together with the return of its only evaluation. Their policy may therefore be the candidate that had the luckiest
    evaluation of the whole run.

    An update counts as population_size x episodes x (longest possible episode) environment steps, also if episodes end
    sooner. The number of steps of a run is therefore an upper bound; the metric `steps` is the number that a generation
    took. With a `memory` the controller is recurrent.

    `network` takes any object with `init(key, features)` and `apply(weights, features)`, such as a flax module.
    """

    learning_rate: Number = hyper(0.0, search=(1e-3, 0.3, "log"), valid=(0, 100), help="0: the default of the strategy")
    learning_rate_decay: Number = hyper(1.0, search=(0.98, 1.0), valid=(0, 1), help="factor per generation")
    sigma: Number = hyper(
        0.1,
        search=(0.01, 1.0, "log"),
        valid=(1e-9, 1e3),
        initial=lambda agent: agent.evolution.sigma_is_initial,
        help="initial step size",
    )
    sigma_decay: Number = hyper(1.0, search=(0.98, 1.0), valid=(0, 1), help="factor per generation")
    sigma_limit: Number = hyper(
        0.0, search=(0.0, 0.05), valid=(0, 1e3), help="smallest step size; at least a thousandth of the initial one"
    )
    weight_decay: Number = hyper(
        0.0, search=(1e-5, 0.1, "log"), valid=(0, 1e3), help="factor of the penalty on the sum of squared weights"
    )

    strategy: str = static("Open_ES", help="of evosax: Open_ES, SNES, Sep_CMA_ES, PGPE, SimpleGA, ...")
    population_size: int = static(64, help="candidates per generation")
    episodes: int = static(1, help="episodes per candidate")
    episode_steps: int = static(0, help="longest episode; 0: the environment's time limit, or 1,000 if it has none")
    optimizer: str = static("default", choices=OPTIMIZERS, help="of strategies that follow a gradient")
    shaping: str = static("default", choices=SHAPINGS, help="transformation of the returns for the strategy")
    antithetic: str = static("default", choices=("default", "on", "off"), help="candidates in mirrored pairs")
    common_random_numbers: bool = static(True, choices=(False, True), help="the same random numbers for all candidates")
    sample_actions: bool = static(
        False, choices=(False, True), help="sample discrete actions instead of taking the most probable"
    )
    squash: str = static("tanh", choices=("tanh", "clip"), help="how continuous actions are kept within their bounds")
    hidden: tuple[int, ...] = static((16,))
    activation: str = static("tanh", choices=("tanh", "relu", "silu", "gelu"))
    memory: str = memory_field()
    memory_size: int = static(16, help="units of the memory")
    memory_window: int = window_field()
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation and torso then have no effect")
    normalize_observation: bool = normalization_field()

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    evolution: Any = filled_by_bind()
    longest_episode: Any = filled_by_bind()

    def __post_init__(self) -> None:
        schedule = schedules_in(self).get("learning_rate")
        if schedule is not None and is_concrete(schedule.levels) and np.any(schedule.lowest == 0):
            raise ValueError(f"learning_rate={schedule} reaches 0, and 0 means the default of the strategy.")

    def bind(self, env: Env) -> "ES":
        """The agent with the spaces and sizes of an environment. Raises ValueError if a field does not fit it."""
        check_choices(self)
        check_counts(self, "population_size", "episodes", "hidden")
        head_size(env.action_space)
        if self.episode_steps < 0:
            raise ValueError(f"episode_steps={self.episode_steps} must not be negative; 0 means the time limit.")
        if isinstance(env.action_space, Box):
            refuse_ignored(self, "where actions are continuous", "sample_actions")
        else:
            refuse_ignored(self, "where actions are discrete", "squash")
        check_memory_fields(self)
        bound = self.replace(
            network=chosen_torso(self, env.observation_space),
            observation_space=env.observation_space,
            action_space=env.action_space,
            longest_episode=_longest_episode(env, self.episode_steps),
        )
        evolution = Evolution.named(
            self.strategy,
            self.population_size,
            bound._count_weights(),
            optimizer=self.optimizer,
            shaping=self.shaping,
            antithetic={"default": None, "on": True, "off": False}[self.antithetic],
        )
        _refuse_ignored_hyperparameters(self, evolution)
        return bound.replace(evolution=evolution)

    @property
    def steps_per_update(self) -> int:
        """The largest number of environment steps that a generation can take."""
        return self.population_size * self.episodes * self.longest_episode

    @property
    def weights_per_step(self) -> int:
        """The weights of all candidates together."""
        return self.population_size * self._count_weights()

    @property
    def revision(self) -> int:
        """2 in a Box with `squash="clip"`, where revision 1 had the units of the environment; otherwise 1."""
        return revision_of_units(self.action_space) if self.squash == "clip" else 1

    def upgraded(self, policy: ESPolicy, revision: int) -> ESPolicy:
        """A policy of revision 1 as one of revision 2, whose head is in the units of the Box."""
        if revision != 1:
            return super().upgraded(policy, revision)
        return policy.replace(weights=in_units(self.action_space, policy.weights))

    def init(self, key: Key, env: Env) -> ESState:
        """A search distribution around initial weights. `key` is consumed."""
        del env
        key, k_weights, k_search = jax.random.split(key, 3)
        center, _ = ravel_pytree(self._controller.init(k_weights, self._example()))
        return ESState(jnp.int32(0), key, self.evolution.init(k_search, center, self.sigma), first_stats(self))

    def update(self, state: ESState, env: Env, clock: Int[Array, ""]) -> tuple[ESState, Metrics]:
        """One generation: get candidates from the strategy, evaluate them, and update the strategy with their costs."""
        del clock
        key, k_ask, k_evaluate, k_tell = jax.random.split(state.key, 4)
        sigma, learning_rate = self._sigma(state.age), self._learning_rate(state.age)
        population, search = self.evolution.ask(k_ask, state.search, sigma)
        played = self._run_episodes(env, population, state.obs_stats, k_evaluate)
        fitness = jnp.mean(played.episode_return.reshape(self.population_size, self.episodes), axis=1)
        cost = self.weight_decay * jnp.sum(population**2, axis=1) - without_failures(fitness)
        search = self.evolution.tell(k_tell, population, cost, search, sigma, learning_rate)
        search = self.evolution.with_smallest_sigma(search, self.sigma_limit)
        losses = {
            **fitness_summary(fitness),
            "sigma": self.evolution.sigma(search),
            "weight_norm": jnp.linalg.norm(self.evolution.solution(search)),
            "steps": jnp.sum(played.length).astype(jnp.float32),
        }
        # Episodes that reached `episode_steps` count too: leaving out the longest ones would bias the mean return.
        counted = jnp.isfinite(played.episode_return)
        episodes = EpisodeStats.of(counted, played.episode_return, played.length)
        stats = state.obs_stats and state.obs_stats.merge(_observation_stats(played, state.obs_stats))
        return ESState(state.age + 1, key, search, stats), Metrics(episodes, losses)

    def initial_carry(self) -> Any:
        """The recurrent carry at the start of an episode; None without a recurrent cell."""
        return self._controller.initial_carry()

    def act(
        self, state: ESState | ESPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): a sample with `sample_actions` and not greedy, otherwise the most probable action."""
        policy = self.policy_state(state) if isinstance(state, ESState) else state
        head, carry = self._controller.apply(policy.weights, normalized(policy.obs_stats, obs), carry)
        noise = sample_noise(self.action_space, key, ()) if self.sample_actions and not greedy else None
        return self._action(head, noise, mask), carry

    def policy_state(self, state: ESState) -> ESPolicy:
        """The mean of the search distribution (or the best of the population) and observation statistics."""
        return ESPolicy(self._unravel(self.evolution.solution(state.search)), state.obs_stats)

    # The parts of an update.

    def _run_episodes(
        self, env: Env, population: Float[Array, "P D"], stats: RunningStats | None, key: Key
    ) -> RunningEpisodes:
        """Run K episodes of every candidate, until the last one ends or reaches `longest_episode` steps."""
        k_init, k_env, k_act = jax.random.split(key, 3)
        weights = jax.vmap(self._unravel)(population)

        def running(loop: tuple[Int[Array, ""], RunningEpisodes]) -> Bool[Array, ""]:
            t, played = loop
            return (t < self.longest_episode) & ~jnp.all(played.ended)

        def step(loop: tuple[Int[Array, ""], RunningEpisodes]) -> tuple[Int[Array, ""], RunningEpisodes]:
            t, played = loop
            obs, mask = jax.vmap(env.observe)(played.state), jax.vmap(env.action_mask)(played.state)
            head, carry = self._heads(weights, normalized(stats, obs), played.carry)
            action = self._action(head, self._action_noise(jax.random.fold_in(k_act, t)), mask)
            env_noise = self._for_candidates(sample_env_noise(env, jax.random.fold_in(k_env, t), self._noise_axes))
            state, reward, terminated, truncated, _ = jax.vmap(env.advance)(played.state, action, env_noise)
            return t + 1, _after_step(played, state, carry, reward, terminated | truncated, obs, stats)

        played = self._start_episodes(self._for_candidates(self._first_states(env, k_init)), stats)
        return jax.lax.while_loop(running, step, (jnp.int32(0), played))[1]

    def _heads(self, weights: Weights, obs: Any, carry: Any) -> tuple[Float[Array, "N A"], Any]:
        # The network outputs for N observations; the weights [P] differ between candidates.
        grid = (self.population_size, self.episodes)
        obs, carry = jax.tree.map(lambda x: x.reshape(*grid, *x.shape[1:]), (obs, carry))
        head, carry = jax.vmap(self._controller.apply)(weights, obs, carry)
        return jax.tree.map(lambda x: x.reshape(math.prod(grid), *x.shape[2:]), (head, carry))

    def _start_episodes(self, state: State, stats: RunningStats | None) -> RunningEpisodes:
        n = self.population_size * self.episodes
        carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *x.shape)), self.initial_carry())
        no_shift = stats and jax.tree.map(lambda x: jnp.zeros((n, *x.shape), x.dtype), stats.mean)
        no_length, no_return = jnp.zeros(n, jnp.int32), jnp.zeros(n, jnp.float32)
        rounding = None if sums.are_few(self.longest_episode) else no_return
        return RunningEpisodes(state, carry, no_return, rounding, no_length, jnp.zeros(n, bool), no_shift, no_shift)

    # Random numbers have the axes [G, K]: all candidates of a group use the same ones; each of K episodes uses others.

    @property
    def _noise_axes(self) -> tuple[int, int]:
        if self.common_random_numbers:
            return 1, self.episodes
        pairs = 2 if self.evolution.is_antithetic else 1
        return self.population_size // pairs, self.episodes

    def _first_states(self, env: Env, key: Key) -> State:
        return jax.vmap(jax.vmap(env.init))(jax.random.split(key, self._noise_axes))

    def _action_noise(self, key: Key) -> Any:
        if not self.sample_actions:
            return None
        return self._for_candidates(sample_noise(self.action_space, key, self._noise_axes))

    def _for_candidates(self, shared: Any) -> Any:
        """Repeat leaves [G, K] to [N]. Candidate p is in group p modulo G, so that mirrored pairs share a group."""
        groups, n = self._noise_axes[0], self.population_size * self.episodes

        def repeat(x: Array) -> Array:
            copies = (self.population_size // groups, *x.shape)
            return jnp.broadcast_to(x[None], copies).reshape(n, *x.shape[2:])

        return jax.tree.map(repeat, shared)

    # The controller, its weights and actions, and schedules.

    @property
    def _controller(self) -> Controller:
        return Controller(self.network, self.observation_space, self.action_space, memory_of(self))

    @property
    def _weight_shapes(self) -> Any:
        return jax.eval_shape(self._controller.init, make_key(0), self._example())

    def _count_weights(self) -> int:
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self._weight_shapes))

    def _unravel(self, flat: Float[Array, "D"]) -> Weights:
        shapes = self._weight_shapes
        return ravel_pytree(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes))[1](flat)

    def _example(self) -> Any:
        return normalized(first_stats(self), zeros(self.observation_space))

    def _action(self, head: Float[Array, "*axes A"], noise: Any, mask: Any) -> Array:
        space = self.action_space
        if isinstance(space, Box):
            return from_unit(space, self._squashed(head))
        policy = restricted(distribution(space, head), mask)
        return (policy.mode() if noise is None else policy.sample(noise)).astype(space.dtype)

    def _squashed(self, head: Float[Array, "*axes A"]) -> Float[Array, "*axes A"]:
        # With "tanh", numbers with two finite bounds are squashed into them; `from_unit` clips the others.
        is_squashed = np.broadcast_to(is_bounded(self.action_space) & (self.squash == "tanh"), head.shape)
        return jnp.where(is_squashed, jnp.tanh(head), head)

    def _sigma(self, age: Int[Array, ""]) -> Float[Array, ""]:
        smallest = jnp.maximum(self.sigma_limit, SMALLEST_SIGMA * self.sigma)
        return jnp.maximum(self.sigma * self.sigma_decay ** age.astype(jnp.float32), smallest)

    def _learning_rate(self, age: Int[Array, ""]) -> Float[Array, ""]:
        initial = jnp.where(self.learning_rate > 0, self.learning_rate, self.evolution.default_learning_rate)
        return initial * self.learning_rate_decay ** age.astype(jnp.float32)


def without_failures(fitness: Float[Array, "P"]) -> Float[Array, "P"]:
    """The fitness, with values that are not finite replaced by one just below the worst finite value (0 without one).

    Just below, so that ranks order failed candidates last; not far below, so that a fitness shaping that depends on the
    scale (z-scores) is hardly affected.
    """
    finite = jnp.isfinite(fitness)
    worst = jnp.min(jnp.where(finite, fitness, jnp.inf))
    # XLA rounds numbers below `tiny` to 0, so the next number below 0 would equal 0.
    below = jnp.minimum(jnp.nextafter(worst, -jnp.inf), worst - jnp.finfo(fitness.dtype).tiny)
    return jnp.where(finite, fitness, jnp.where(jnp.any(finite), below, 0.0))


def fitness_summary(fitness: Float[Array, "P"]) -> dict[str, Float[Array, ""]]:
    """Mean, best and standard deviation of the finite fitness values, and the fraction that is not finite.

    Mean and standard deviation are NaN if no value is finite.
    """
    finite = jnp.isfinite(fitness)
    count = jnp.sum(finite).astype(jnp.float32)
    mean = jnp.sum(jnp.where(finite, fitness, 0)) / count
    variance = jnp.sum(jnp.where(finite, (fitness - mean) ** 2, 0)) / count
    return {
        "fitness_mean": mean,
        "fitness_best": jnp.max(jnp.where(finite, fitness, -jnp.inf)),
        "fitness_std": jnp.sqrt(variance),
        "failed": 1 - count / fitness.size,
    }


def _after_step(
    played: RunningEpisodes,
    state: State,
    carry: Any,
    reward: Array,
    done: Array,
    obs: Any,
    stats: RunningStats | None,
) -> RunningEpisodes:
    is_running = ~played.ended
    total, rounding = sums.add(played.episode_return, played.rounding, reward)
    played = played.replace(
        state=state,
        carry=carry,
        episode_return=jnp.where(is_running, total, played.episode_return),
        rounding=rounding,
        length=played.length + is_running.astype(jnp.int32),
        ended=played.ended | done,
    )
    if stats is None:
        return played
    seen = stats.covered(obs)
    shift = jax.tree.map(lambda x, mean: jnp.where(_column(is_running, x), x - mean[None], 0), seen, stats.mean)
    return played.replace(
        shift_sum=jax.tree.map(jnp.add, played.shift_sum, shift),
        shift_square_sum=jax.tree.map(lambda total, x: total + x**2, played.shift_square_sum, shift),
    )


def _observation_stats(played: RunningEpisodes, stats: RunningStats) -> RunningStats:
    """Statistics of all observations of a generation, without episodes whose observations are not finite."""
    sums = (played.shift_sum, played.shift_square_sum)
    finite = [jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim))) for x in jax.tree.leaves(sums)]
    is_finite = jnp.all(jnp.stack(finite), axis=0)
    count = jnp.sum(jnp.where(is_finite, played.length, 0)).astype(jnp.float32)
    first, second = jax.tree.map(lambda x: jnp.sum(jnp.where(_column(is_finite, x), x, 0), axis=0), sums)
    n = jnp.maximum(count, 1)
    mean = jax.tree.map(lambda old, x: old + x / n, stats.mean, first)
    return RunningStats(count, mean, jax.tree.map(lambda x, square: jnp.maximum(square - x**2 / n, 0), first, second))


def _column(flag: Bool[Array, "N"], x: Array) -> Bool[Array, "N *ones"]:
    return flag.reshape(flag.shape + (1,) * (x.ndim - 1))


def _longest_episode(env: Env, episode_steps: int) -> int:
    limit = episode_limit(env)
    if limit is None:
        return episode_steps or STEPS_WITHOUT_LIMIT
    return min(episode_steps or limit, limit)


def _refuse_ignored_hyperparameters(agent: ES, evolution: Evolution) -> None:
    """Raise ValueError for a hyperparameter that the strategy would ignore."""
    ignored = []
    if not evolution.takes_learning_rate:
        ignored += ["learning_rate", "learning_rate_decay"]
    if not evolution.is_scheduled:
        ignored += ["sigma_decay"]
    if not (evolution.is_scheduled or evolution.adapts_sigma):
        ignored += ["sigma_limit"] + ["sigma"] * (not evolution.has_population)
    if evolution.name == "CMAAnchoredLES":  # its step size is the product of two factors
        ignored += ["sigma_limit"]
    refuse_ignored(agent, f"in the strategy {agent.strategy}", *ignored)
