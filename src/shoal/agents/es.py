"""ES: policy search by evolution strategies. Variations of one controller play, and the better ones pull it along.

Strategies are those of evosax (`ops/evolution.py`). Source: Salimans et al. 2017, "Evolution Strategies as a Scalable
Alternative to Reinforcement Learning", for ranks, antithetic pairs and observation statistics; Ng and Jordan 2000
("PEGASUS") for judging all candidates under the same random numbers.
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
from shoal.core.spaces import Box, zeros
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, static, struct
from shoal.nn.controllers import Controller
from shoal.nn.distributions import distribution, head_size, restricted, sample_noise
from shoal.nn.memory import MEMORIES
from shoal.nn.torso_choice import TORSOS, chosen_torso
from shoal.ops.evolution import OPTIMIZERS, SHAPINGS, Evolution
from shoal.ops.running import RunningStats
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.rollout import sample_noise as sample_env_noise

Weights = Any
LEAST_SIGMA = 1e-3  # of the first: below, single precision cannot tell candidates from their mean
WITHOUT_LIMIT = 1_000  # steps of an episode in a world that never ends it


@struct
class ESState(Struct):
    """One member in training."""

    age: Int[Array, ""]
    key: Key
    search: Any  # the strategy's own state
    obs_stats: RunningStats | None


@struct
class ESPolicy(Struct):
    """What acting needs: weights and the statistics that observations are normalized with."""

    weights: Weights
    obs_stats: RunningStats | None


@struct
class Lives(Struct):
    """N = P x K episodes under way, those of a candidate side by side."""

    state: State
    carry: Any
    episode_return: Float[Array, "N"]
    length: Int[Array, "N"]
    over: Bool[Array, "N"]
    shift_sum: Any  # of observations minus the mean known before, [N, ...]; None where they are not normalized
    shift_square_sum: Any


@agent("es")
@struct
class ES(Agent):
    """Evolution strategies, for every kind of action; no gradients, no discount, no value function.

    One update is one generation: `population_size` candidates play `episodes` episodes each, all at the same time,
    until the last of them ends, or comes to `episode_steps`. What counts is the mean return. `strategy` is a name that
    evosax's registry has; the few that cannot search for policies are refused and say why. `sigma` is the deviation of
    a weight, but in ASEBO the length of a whole step, and in GradientlessDescent the longest.

    The policy that acts is the mean of the search distribution, never the best that was ever seen: that one was lucky.
    A strategy without a distribution gives the best candidate of its last generation. But DifferentialEvolution,
    MR15_GA, LGA, HillClimbing, GradientlessDescent and SimulatedAnnealing keep what they found, with what it was worth
    once, and never try it again: theirs may be the luckiest of a whole run.

    Steps: an update counts as population_size x episodes x the longest an episode may last, whether or not episodes
    end sooner, so the steps of a run are the most it may have taken; the loss `steps` says how many a generation
    really took. With `memory="gru"` or "lstm" the controller remembers within an episode.

    `network` takes any object with `init(key, features)` and `apply(weights, features)`, such as a flax module.
    """

    learning_rate: Number = hyper(0.0, search=(1e-3, 0.3, "log"), valid=(0, 100), help="0: what suits the strategy")
    learning_rate_decay: Number = hyper(1.0, search=(0.98, 1.0), valid=(0, 1), help="factor of each generation")
    sigma: Number = hyper(0.1, search=(0.01, 1.0, "log"), valid=(1e-9, 1e3), help="step size at first")
    sigma_decay: Number = hyper(1.0, search=(0.98, 1.0), valid=(0, 1), help="factor of each generation")
    sigma_limit: Number = hyper(
        0.0, search=(0.0, 0.05), valid=(0, 1e3), help="least step size; at least a thousandth of the first"
    )
    weight_decay: Number = hyper(0.0, search=(1e-5, 0.1, "log"), valid=(0, 1e3), help="cost of the squared weights")

    strategy: str = static("Open_ES", help="of evosax: Open_ES, SNES, Sep_CMA_ES, PGPE, SimpleGA, ...")
    population_size: int = static(64, help="candidates in a generation")
    episodes: int = static(1, help="of each candidate")
    episode_steps: int = static(0, help="longest episode; 0: the world's limit, or 1,000 where it has none")
    optimizer: str = static("default", choices=OPTIMIZERS, help="of strategies that follow a gradient")
    shaping: str = static("default", choices=SHAPINGS, help="what a strategy sees of returns")
    antithetic: str = static("default", choices=("default", "on", "off"), help="candidates in mirrored pairs")
    common_random_numbers: bool = static(True, choices=(False, True), help="all candidates meet the same chances")
    sample_actions: bool = static(False, choices=(False, True), help="draw choices instead of taking the likeliest")
    squash: str = static("tanh", choices=("tanh", "clip"), help="how numbers come to lie within their bounds")
    hidden: tuple[int, ...] = static((16,))
    activation: str = static("tanh", choices=("tanh", "relu", "silu", "gelu"))
    memory: str = static("none", choices=("none", *MEMORIES), help="on top of the torso")
    memory_size: int = static(16)
    torso: str = static("auto", choices=TORSOS, help="auto: as observations need it; impala has layers of its own")
    network: Any = static(None, help="a torso of your own; then hidden, activation and torso mean nothing")
    normalize_observation: bool = normalization_field()

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    evolution: Any = filled_by_bind()
    longest_episode: Any = filled_by_bind()

    def bind(self, env: Env) -> "ES":
        """This agent for this environment. Raises ValueError where they, or the options, do not go together."""
        check_choices(self)
        check_counts(self, "population_size", "episodes", "hidden", "memory_size")
        head_size(env.action_space)
        if self.episode_steps < 0:
            raise ValueError(f"episode_steps={self.episode_steps} must not be negative; 0 means the world's own limit.")
        if isinstance(env.action_space, Box):
            refuse_ignored(self, "where actions are numbers", "sample_actions")
        else:
            refuse_ignored(self, "where actions are choices", "squash")
        if self.memory == "none":
            refuse_ignored(self, "without a memory", "memory_size")
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
        _check_numbers(self, evolution)
        return bound.replace(evolution=evolution)

    @property
    def steps_per_update(self) -> int:
        """The most steps that a generation may take."""
        return self.population_size * self.episodes * self.longest_episode

    @property
    def weights_per_step(self) -> int:
        """Those of all candidates."""
        return self.population_size * self._count_weights()

    def init(self, key: Key, env: Env) -> ESState:
        """A search around fresh weights."""
        del env
        key, k_weights, k_search = jax.random.split(key, 3)
        center, _ = ravel_pytree(self._controller.init(k_weights, self._example()))
        return ESState(jnp.int32(0), key, self.evolution.init(k_search, center, self.sigma), first_stats(self))

    def update(self, state: ESState, env: Env, clock: Int[Array, ""]) -> tuple[ESState, Metrics]:
        """One generation: ask for candidates, let them play, tell what they were worth."""
        del clock
        key, k_ask, k_play, k_tell = jax.random.split(state.key, 4)
        sigma, rate = self._sigma(state.age), self._learning_rate(state.age)
        population, search = self.evolution.ask(k_ask, state.search, sigma)
        lives = self._play(env, population, state.obs_stats, k_play)
        fitness = jnp.mean(lives.episode_return.reshape(self.population_size, self.episodes), axis=1)
        cost = self.weight_decay * jnp.sum(population**2, axis=1) - without_failures(fitness)
        search = self.evolution.tell(k_tell, population, cost, search, sigma, rate)
        search = self.evolution.hold_sigma(search, self.sigma_limit)
        losses = {
            **describe(fitness),
            "sigma": self.evolution.sigma(search),
            "weight_norm": jnp.linalg.norm(self.evolution.solution(search)),
            "steps": jnp.sum(lives.length).astype(jnp.float32),
        }
        ended = jnp.isfinite(lives.episode_return)  # those cut off too: the others alone would be the failures
        episodes = EpisodeStats.of(ended, lives.episode_return, lives.length)
        stats = state.obs_stats and state.obs_stats.merge(_seen(lives, state.obs_stats))
        return ESState(state.age + 1, key, search, stats), Metrics(episodes, losses)

    def initial_carry(self) -> Any:
        """An empty memory."""
        return self._controller.initial_carry()

    def act(
        self, state: ESState | ESPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """What the searched-for controller does; it draws its choices only where it was trained to."""
        policy = self.policy_state(state) if isinstance(state, ESState) else state
        head, carry = self._controller.apply(policy.weights, normalized(policy.obs_stats, obs), carry)
        noise = sample_noise(self.action_space, key, ()) if self.sample_actions and not greedy else None
        return self._action(head, noise, mask), carry

    def policy_state(self, state: ESState) -> ESPolicy:
        """The mean of the distribution (or the best of the population) and observation statistics."""
        return ESPolicy(self._unravel(self.evolution.solution(state.search)), state.obs_stats)

    # What happens inside an update.

    def _play(self, env: Env, population: Float[Array, "P D"], stats: RunningStats | None, key: Key) -> Lives:
        """Every candidate's first K episodes, to the end of the longest."""
        k_init, k_env, k_act = jax.random.split(key, 3)
        weights = jax.vmap(self._unravel)(population)

        def running(loop: tuple[Int[Array, ""], Lives]) -> Bool[Array, ""]:
            t, lives = loop
            return (t < self.longest_episode) & ~jnp.all(lives.over)

        def step(loop: tuple[Int[Array, ""], Lives]) -> tuple[Int[Array, ""], Lives]:
            t, lives = loop
            obs, mask = jax.vmap(env.observe)(lives.state), jax.vmap(env.action_mask)(lives.state)
            head, carry = self._heads(weights, normalized(stats, obs), lives.carry)
            action = self._action(head, self._action_noise(jax.random.fold_in(k_act, t)), mask)
            env_noise = self._shared(sample_env_noise(env, jax.random.fold_in(k_env, t), self._chances))
            after, reward, terminated, truncated, _ = jax.vmap(env.advance)(lives.state, action, env_noise)
            return t + 1, _follow(lives, after, carry, reward, terminated | truncated, obs, stats)

        lives = self._begin(self._shared(self._starts(env, k_init)), stats)
        return jax.lax.while_loop(running, step, (jnp.int32(0), lives))[1]

    def _heads(self, weights: Weights, obs: Any, carry: Any) -> tuple[Float[Array, "N A"], Any]:
        grid = (self.population_size, self.episodes)
        obs, carry = jax.tree.map(lambda x: x.reshape(*grid, *x.shape[1:]), (obs, carry))
        head, carry = jax.vmap(self._controller.apply)(weights, obs, carry)
        return jax.tree.map(lambda x: x.reshape(math.prod(grid), *x.shape[2:]), (head, carry))

    def _begin(self, state: State, stats: RunningStats | None) -> Lives:
        n = self.population_size * self.episodes
        carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *x.shape)), self.initial_carry())
        nothing = stats and jax.tree.map(lambda x: jnp.zeros((n, *x.shape), x.dtype), stats.mean)
        none, nought = jnp.zeros(n, jnp.int32), jnp.zeros(n, jnp.float32)
        return Lives(state, carry, nought, none, jnp.zeros(n, bool), nothing, nothing)

    # Chances: G groups of candidates, each of which meets the same; K episodes of each.

    @property
    def _chances(self) -> tuple[int, int]:
        if self.common_random_numbers:
            return 1, self.episodes
        pairs = 2 if self.evolution.is_antithetic else 1
        return self.population_size // pairs, self.episodes

    def _starts(self, env: Env, key: Key) -> State:
        return jax.vmap(jax.vmap(env.init))(jax.random.split(key, self._chances))

    def _action_noise(self, key: Key) -> Any:
        return self._shared(sample_noise(self.action_space, key, self._chances)) if self.sample_actions else None

    def _shared(self, chances: Any) -> Any:
        """Leaves [G, K] for everyone, [N]: candidate p belongs to group p modulo G, as mirrored halves do."""
        groups, n = self._chances[0], self.population_size * self.episodes

        def everyone(x: Array) -> Array:
            copies = (self.population_size // groups, *x.shape)
            return jnp.broadcast_to(x[None], copies).reshape(n, *x.shape[2:])

        return jax.tree.map(everyone, chances)

    # Small parts.

    @property
    def _controller(self) -> Controller:
        memory = None if self.memory == "none" else MEMORIES[self.memory](self.memory_size)
        return Controller(self.network, self.observation_space, self.action_space, memory)

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
            return _within(space, head, self.squash)
        policy = restricted(distribution(space, head), mask)
        return (policy.mode() if noise is None else policy.sample(noise)).astype(space.dtype)

    def _sigma(self, age: Int[Array, ""]) -> Float[Array, ""]:
        least = jnp.maximum(self.sigma_limit, LEAST_SIGMA * self.sigma)
        return jnp.maximum(self.sigma * self.sigma_decay ** age.astype(jnp.float32), least)

    def _learning_rate(self, age: Int[Array, ""]) -> Float[Array, ""]:
        rate = jnp.where(self.learning_rate > 0, self.learning_rate, self.evolution.default_rate)
        return rate * self.learning_rate_decay ** age.astype(jnp.float32)


def without_failures(fitness: Float[Array, "P"]) -> Float[Array, "P"]:
    """Fitness where a candidate whose return is not finite counts as just below the worst of the others; 0 if none is.

    Just below, so that ranks tell the two apart; and no more, so that the scale of the others stays what it was.
    """
    finite = jnp.isfinite(fitness)
    below = jnp.nextafter(jnp.min(jnp.where(finite, fitness, jnp.inf)), -jnp.inf)
    return jnp.where(finite, fitness, jnp.where(jnp.any(finite), below, 0.0))


def describe(fitness: Float[Array, "P"]) -> dict[str, Float[Array, ""]]:
    """Mean, best and deviation over the candidates that did not fail, and the share that did. NaN if all did."""
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


def _follow(
    lives: Lives, state: State, carry: Any, reward: Array, done: Array, obs: Any, stats: RunningStats | None
) -> Lives:
    live = ~lives.over
    lives = lives.replace(
        state=state,
        carry=carry,
        episode_return=lives.episode_return + jnp.where(live, reward, 0),
        length=lives.length + live.astype(jnp.int32),
        over=lives.over | done,
    )
    if stats is None:
        return lives
    shift = jax.tree.map(lambda x, mean: jnp.where(_column(live, x), x - mean[None], 0), obs, stats.mean)
    return lives.replace(
        shift_sum=jax.tree.map(jnp.add, lives.shift_sum, shift),
        shift_square_sum=jax.tree.map(lambda total, x: total + x**2, lives.shift_square_sum, shift),
    )


def _seen(lives: Lives, stats: RunningStats) -> RunningStats:
    """Statistics of all observations of a generation; episodes that were not finite are left out."""
    sums = (lives.shift_sum, lives.shift_square_sum)
    finite = [jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim))) for x in jax.tree.leaves(sums)]
    sound = jnp.all(jnp.stack(finite), axis=0)
    count = jnp.sum(jnp.where(sound, lives.length, 0)).astype(jnp.float32)
    first, second = jax.tree.map(lambda x: jnp.sum(jnp.where(_column(sound, x), x, 0), axis=0), sums)
    n = jnp.maximum(count, 1)
    mean = jax.tree.map(lambda old, x: old + x / n, stats.mean, first)
    return RunningStats(count, mean, jax.tree.map(lambda x, square: jnp.maximum(square - x**2 / n, 0), first, second))


def _within(space: Box, x: Float[Array, "*axes A"], squash: str) -> Array:
    """Numbers within the bounds of a box: squashed where both are finite, else clipped."""
    low, high = (side.reshape((1,) * (x.ndim - 1) + side.shape) for side in space.bounds())
    if squash == "clip":
        return jnp.clip(x, low, high).astype(space.dtype)
    bounded = np.isfinite(low) & np.isfinite(high)
    center, half = np.where(bounded, (low + high) / 2, 0), np.where(bounded, (high - low) / 2, 1)
    return jnp.clip(jnp.where(bounded, center + half * jnp.tanh(x), x), low, high).astype(space.dtype)


def _column(flag: Bool[Array, "N"], x: Array) -> Bool[Array, "N *ones"]:
    return flag.reshape(flag.shape + (1,) * (x.ndim - 1))


def _longest_episode(env: Env, given: int) -> int:
    limit = episode_limit(env)
    return given or WITHOUT_LIMIT if limit is None else min(given or limit, limit)


def _check_numbers(agent: ES, evolution: Evolution) -> None:
    """Raise ValueError for a number that the strategy would ignore."""
    ignored = []
    if not evolution.takes_rate:
        ignored += ["learning_rate", "learning_rate_decay"]
    if not evolution.is_scheduled:
        ignored += ["sigma_decay"]
    if not (evolution.is_scheduled or evolution.adapts_sigma):
        ignored += ["sigma_limit"] + ["sigma"] * (not evolution.has_population)
    if evolution.name == "CMAAnchoredLES":  # its step size is the product of two
        ignored += ["sigma_limit"]
    refuse_ignored(agent, f"in the strategy {agent.strategy}", *ignored)
