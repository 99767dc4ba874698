"""The bases of agents that learn from a replay: their common fields, what they store, and how much they learn when.

`ReplayAgent` is the base of all of them, DQN among them. `ReplayActorCritic` adds the state and the update of those
that learn a policy and its critics from uniform samples: SAC and TD3.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.normalization import first_stats, normalization_field, normalized, updated
from shoal.core.agent import Agent, Metrics
from shoal.core.env import Env
from shoal.core.keys import Key
from shoal.core.struct import Number, Struct, fill_caps, filled_by_bind, hyper, static, struct
from shoal.nn.distributions import sample_noise, uniform_action
from shoal.ops.replay import Replay, Steps, Transitions, rows_for
from shoal.ops.running import RunningStats
from shoal.ops.schedules import passed, steps_taken, whole
from shoal.rollouts.rollout import EnvStates, Rollout, Trajectory, final_slots

Learner = TypeVar("Learner")  # what gradient steps change
Losses = dict[str, Array]
# (learner, samples [B], the weight of each sample in a mean [B], key) -> (learner after a gradient step, what to log)
GradientStep = Callable[[Learner, Transitions, Float[Array, "B"], Key], tuple[Learner, Losses]]
Fitted = TypeVar("Fitted", bound="ReplayAgent")


@struct
class Observed(Struct):
    """What an agent is told of an environment: the observation and which actions are allowed (None: all, always)."""

    obs: Any
    mask: Any


@struct
class ReplayAgent(Agent):
    """An agent that stores its steps and learns from samples of them. Abstract.

    An update takes `num_steps` steps of `num_envs` environments, stores them, and then makes as many gradient steps as
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on. Subclasses
    declare a field again to give it another default.

    The replay holds observations as they are. Where they are normalized, what a rollout collected counts in the
    statistics before the gradient steps, which normalize each batch anew.
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    batch_size: Number = hyper(256.0, search=(32, 512, "log"), valid=(1, 1e6), cap="max_batch_size")
    buffer_size: Number = hyper(1e5, search=(1e4, 1e6, "log"), valid=(1, 1e9), cap="max_buffer_size")
    learning_starts: Number = hyper(5e3, valid=(0, 1e9), help="steps before the first gradient step")
    train_frequency: Number = hyper(1.0, search=(1, 16, "log"), valid=(1, 1e9), help="steps between two trainings")
    train_iterations: Number = hyper(1.0, search=(1, 8), valid=(1, 1e4), help="gradient steps of each training")
    adam_eps: Number = hyper(1e-8, valid=(1e-12, 1))

    num_envs: int = static(1)
    num_steps: int = static(4, help="steps of each environment in one update")
    max_batch_size: int = static(0, help="0: the largest batch_size of the run")
    max_buffer_size: int = static(0, help="0: the largest buffer_size of the run")
    normalize_observation: bool = normalization_field()
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="fresh first states for each environment in an update; 0: as a random policy needs")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()
    final_rows: Any = filled_by_bind()  # how many time limits the buffer can hold

    def fitted(self: Fitted, env: Env, n_step: int = 1) -> Fitted:
        """This agent with the spaces and sizes that follow from an environment; the part of `bind` that all share.

        Raises ValueError for a buffer that cannot hold a sample of `n_step` steps and its successor.
        """
        _check_buffer(self, n_step)
        (full,) = fill_caps([self])
        return full.replace(
            observation_space=env.observation_space,
            action_space=env.action_space,
            rollout=Rollout.for_env(env, self.num_envs, self.num_steps, self.reset, self.bank_size),
            final_rows=final_slots(env, rows_for(full.max_buffer_size, self.num_envs, self.num_steps)),
        )

    @property
    def steps_per_update(self) -> int:
        """Steps of all environments together."""
        return self.num_envs * self.num_steps

    @property
    def learns_from(self) -> Number:
        """`learning_starts`."""
        return self.learning_starts

    def empty_replay(self, observed: Observed, action: Array) -> Replay:
        """Room for `max_buffer_size` samples; `observed` [E] and one `action` are examples."""
        return Replay.empty(
            jax.tree.map(lambda x: x[0], observed),
            action,
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            size=self.max_buffer_size,
            final_rows=self.final_rows,
        )

    def gradient_steps_due(self, age: Int[Array, ""], n_step: int = 1) -> Int[Array, ""]:
        """How many gradient steps belong to the update at this age.

        None before `learning_starts` and before a first sample of `n_step` steps and its successor are stored.
        """
        steps, rows = self.steps_per_update, self.num_steps
        is_time = (steps_taken(age, steps, steps) > self.learning_starts) & (steps_taken(age, rows, rows) > n_step)
        return jnp.where(is_time, passed(age, steps, self.train_frequency) * whole(self.train_iterations), 0)

    def train_on_replay(
        self,
        gradient_step: GradientStep,
        learner: Learner,
        replay: Replay,
        age: Int[Array, ""],
        clock: Int[Array, ""],
        key: Key,
        stats: RunningStats | None = None,
    ) -> tuple[Learner, Losses, Int[Array, ""]]:
        """(learner after the gradient steps that are due, their mean losses, how many steps that were).

        Batches are drawn uniformly and normalized by `stats`. `key` is consumed.
        """
        newest, usable = replay.newest(clock), replay.usable(age, limit=self.buffer_size)
        share = batch_shares(self.batch_size, self.max_batch_size)

        def step(i: Array, learner: Any) -> tuple[Any, Losses]:
            k_index, k_learn = jax.random.split(jax.random.fold_in(key, i))
            index = replay.uniform(k_index, self.max_batch_size, newest, usable)
            batch = normalized_batch(stats, replay.take(index, self.discount))
            return gradient_step(learner, batch, share, k_learn)

        def add(i: Array, loop: tuple[Any, Losses]) -> tuple[Any, Losses]:
            learner, losses = step(i, loop[0])
            return learner, jax.tree.map(jnp.add, loop[1], losses)

        due = self.gradient_steps_due(age)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(step, due, learner)[1])
        learner, total = jax.lax.fori_loop(0, due, add, (learner, nothing))
        return learner, jax.tree.map(lambda x: x / jnp.maximum(due, 1), total), due


@struct
class ReplayState(Struct):
    """One member of a ReplayActorCritic in training."""

    age: Int[Array, ""]
    key: Key
    learner: Any  # what gradient steps change
    env_states: EnvStates
    replay: Replay
    obs_stats: RunningStats | None = None  # that observations are normalized with


@struct
class ReplayActorCritic(ReplayAgent):
    """A replay agent with a policy and critics, whose actions are uniform until `learning_starts`. Abstract."""

    @abc.abstractmethod
    def fresh_learner(self, key: Key, obs: Any, action: Array) -> Any:
        """Weights and what else gradient steps change; `key` is consumed.

        `obs` [E], as networks read them, and one `action` are examples.
        """

    @abc.abstractmethod
    def explore(self, learner: Any, observed: Observed, noise: Array) -> Array:
        """Actions [E] of the policy as it explores, given noise of `nn.distributions.draw_noise`.

        What was observed comes as networks read it.
        """

    @abc.abstractmethod
    def learn(
        self, learner: Any, batch: Transitions, share: Float[Array, "B"], key: Key
    ) -> tuple[Any, dict[str, Array]]:
        """A gradient step: (learner after it, losses to log). `share` weighs the samples. `key` is consumed.

        Observations of the batch come as networks read them.
        """

    def init(self, key: Key, env: Env) -> ReplayState:
        """A fresh learner, environments, and an empty buffer."""
        key, k_learner, k_envs = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        observed = Observed(jax.vmap(env.observe)(env_states.state), jax.vmap(env.action_mask)(env_states.state))
        action = jnp.zeros(self.action_space.shape, self.action_space.dtype)
        replay, stats = self.empty_replay(observed, action), first_stats(self)
        learner = self.fresh_learner(k_learner, normalized(stats, observed.obs), action)
        return ReplayState(jnp.int32(0), key, learner, env_states, replay, stats)

    def update(self, state: ReplayState, env: Env, clock: Int[Array, ""]) -> tuple[ReplayState, Metrics]:
        """Roll out, store, and make the gradient steps that are due."""
        key, k_noise, k_envs, k_train = jax.random.split(state.key, 4)
        noise = self._action_noise(state.age, k_noise)
        env_states, trajectory, _ = self.rollout.collect(env, state.env_states, self._behavior(state), noise, k_envs)
        replay = state.replay.add(steps_of(trajectory), clock)
        stats = updated(state.obs_stats, trajectory.obs)
        learner, losses, due = self.train_on_replay(self.learn, state.learner, replay, state.age, clock, k_train, stats)
        state = ReplayState(state.age + 1, key, learner, env_states, replay, stats)
        return state, Metrics(trajectory.episodes(), losses, due.astype(jnp.float32))

    def _action_noise(self, age: Int[Array, ""], key: Key) -> tuple[Array, Bool[Array, "T"]]:
        """(noise of the actions [T, E], whether they are still uniform) for the rollout at this age."""
        noise = sample_noise(self.action_space, key, (self.num_steps, self.num_envs))
        within = jnp.arange(self.num_steps, dtype=jnp.int32) * self.num_envs
        return noise, steps_taken(age, self.steps_per_update, within) < self.learning_starts

    def _behavior(self, state: ReplayState) -> Any:
        def behave(obs, mask, noise, carry):
            noise, is_uniform = noise
            chosen = self.explore(state.learner, Observed(normalized(state.obs_stats, obs), mask), noise)
            action = jnp.where(is_uniform, uniform_action(self.action_space, noise, mask), chosen)
            return action.astype(self.action_space.dtype), None, carry

        return behave


def steps_of(trajectory: Trajectory) -> Steps:
    """A rollout as a replay stores it."""
    return Steps(
        seen=Observed(trajectory.obs, trajectory.mask),
        action=trajectory.action,
        reward=trajectory.reward,
        terminated=trajectory.terminated,
        truncated=trajectory.truncated,
        finals=Observed(trajectory.final_obs, trajectory.final_mask),
        final_slot=trajectory.final_slot,
    )


def normalized_batch(stats: RunningStats | None, batch: Transitions) -> Transitions:
    """Samples whose observations, which a replay holds as they are, are as networks read them."""
    seen, after = (x.replace(obs=normalized(stats, x.obs)) for x in (batch.seen, batch.next_seen))
    return batch.replace(seen=seen, next_seen=after)


def critic_loss(
    q_values: Float[Array, "K B"], target: Float[Array, "B"], share: Float[Array, "B"]
) -> tuple[Float[Array, ""], Losses]:
    """(squared errors of K critics, summed over them and averaged over samples; what to log of them)."""
    error = q_values - target[None]
    squares = jnp.sum(share * jnp.sum(error**2, axis=0))
    mean = {"td_error": jnp.abs(error), "q_value": q_values}
    return squares, {"loss": squares, **jax.tree.map(lambda x: jnp.sum(share * jnp.mean(x, axis=0)), mean)}


def batch_shares(batch_size: Number, size: int) -> Float[Array, "B"]:
    """The weight of each of `size` samples in a mean over the first `batch_size` of them; others weigh nothing."""
    used = jnp.clip(jnp.round(batch_size), 1, size)
    return jnp.where(jnp.arange(size) < used, 1 / used, 0)


def _check_buffer(agent: ReplayAgent, n_step: int) -> None:
    """Raise ValueError where a buffer, of one agent or the smallest of a population, cannot hold a single sample."""
    held = math.ceil(np.min(np.asarray(agent.buffer_size)) / agent.num_envs)
    if held <= n_step:
        raise ValueError(
            f"buffer_size={np.min(np.asarray(agent.buffer_size)):g} holds {held} steps of each of {agent.num_envs} "
            f"environments: too few for samples of {n_step} and their successors. It must be more than "
            f"{n_step * agent.num_envs}."
        )
