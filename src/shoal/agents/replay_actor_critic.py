"""The base class of agents that learn a policy and critics from a replay buffer, such as SAC and TD3."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.normalization import first_stats, normalized, updated
from shoal.agents.replay_agent import Losses, Observed, ReplayAgent, steps_of
from shoal.core.agent import Guarded, Metrics
from shoal.core.env import Env
from shoal.core.keys import Key
from shoal.core.schedules import steps_taken
from shoal.core.spaces import zeros
from shoal.core.struct import struct
from shoal.nn.distributions import as_action, sample_noise, uniform_action
from shoal.ops.priorities import Priorities
from shoal.ops.replay import Replay, Transitions
from shoal.ops.running import RunningStats
from shoal.rollouts.rollout import EnvStates, Trajectory


@struct
class ReplayState(Guarded):
    """The agent state of one member of a ReplayActorCritic."""

    age: Int[Array, ""]
    key: Key
    learner: Any  # all that a gradient step changes
    env_states: EnvStates
    replay: Replay
    obs_stats: RunningStats | None = None  # statistics that normalize observations
    priorities: Priorities | None = None  # of the samples in the buffer; None: they are sampled uniformly
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("learner",)


@struct
class ReplayActorCritic(ReplayAgent):
    """A replay agent with a policy and critics. Its actions are uniform until `learning_starts`. Abstract."""

    @abc.abstractmethod
    def init_learner(self, key: Key, obs: Any, action: Array) -> Any:
        """Initial weights, and all else that a gradient step changes. `key` is consumed.

        `obs` [E] (normalized) and one `action` give shapes and dtypes.
        """

    @abc.abstractmethod
    def explore(self, learner: Any, observed: Observed, noise: Array) -> Array:
        """Exploratory actions [E] of the policy; in a Box, in its units (`core.spaces.from_unit`).

        `noise` comes from `nn.distributions.sample_noise`. The observations are normalized already.
        """

    @abc.abstractmethod
    def learn(
        self, learner: Any, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Any, Losses, Float[Array, "B"]]:
        """Make one gradient step: (learner after it, losses, the error of each sample). `key` is consumed.

        `sample_weight` is the weight of each sample in a mean. The observations are normalized already.
        """

    def init(self, key: Key, env: Env) -> ReplayState:
        """Initial weights, environment states, and an empty buffer. `key` is consumed."""
        key, k_learner, k_envs = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        observed = Observed(jax.vmap(env.observe)(env_states.state), jax.vmap(env.action_mask)(env_states.state))
        action = zeros(self.action_space)
        replay, stats = self.empty_replay(observed, action), first_stats(self)
        learner = self.init_learner(k_learner, normalized(stats, observed.obs), action)
        return ReplayState(jnp.int32(0), key, learner, env_states, replay, stats, self.first_priorities(replay))

    def policy_noise(self, state: ReplayState, key: Key) -> tuple[Array, Bool[Array, "T"]]:
        """(noise of the actions [T, E], whether actions are still uniform [T]). `key` is consumed."""
        noise = sample_noise(self.action_space, key, (self.num_steps, self.num_envs))
        within = jnp.arange(self.num_steps, dtype=jnp.int32) * self.num_envs
        return noise, steps_taken(state.age, self.steps_per_update, within) < self.learning_starts

    def behavior(self, state: ReplayState) -> Any:
        """The exploratory policy of a rollout."""

        def behave(obs, mask, noise, carry):
            noise, is_uniform = noise
            explored = self.explore(state.learner, Observed(normalized(state.obs_stats, obs), mask), noise)
            chosen = jnp.where(is_uniform, uniform_action(self.action_space, noise, mask), explored)
            return as_action(self.action_space, chosen), None, carry

        return behave

    def learn_from(
        self, state: ReplayState, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[ReplayState, Metrics]:
        """Store the steps, and make the gradient steps that are due."""
        del carry
        replay = state.replay.add(steps_of(trajectory), clock)
        stats = updated(state.obs_stats, trajectory.obs)
        learner = state.learner.replace(is_stopped=state.is_stopped)
        priorities = self.add_priorities(state.priorities, replay, clock)
        learner, losses, due, priorities = self.train_on_replay(
            self.learn, learner, replay, state.age, clock, key, stats, priorities
        )
        state = state.replace(
            age=state.age + 1,
            learner=learner.replace(is_stopped=None),
            replay=replay,
            obs_stats=stats,
            priorities=priorities,
            is_stopped=learner.is_stopped,
        )
        return state, Metrics(trajectory.episodes(), losses, due.astype(jnp.float32))
