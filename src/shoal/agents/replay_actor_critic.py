"""The base class of agents that learn a policy and critics from a replay buffer, such as SAC and TD3."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.normalization import first_stats, normalized, updated
from shoal.agents.replay_agent import Losses, Observed, ReplayAgent, SequenceShape, steps_of
from shoal.agents.sequences import (
    Hidden,
    burn_in_field,
    hidden_of_sequences,
    length_field,
    sequence_shape,
    with_hidden,
)
from shoal.core.agent import Guarded, Metrics
from shoal.core.env import Env
from shoal.core.keys import Key
from shoal.core.schedules import steps_taken
from shoal.core.spaces import zeros
from shoal.core.struct import static, struct
from shoal.nn.actor_critic import Carry
from shoal.nn.distributions import as_action, sample_noise, uniform_action
from shoal.nn.memory.fields import memory_field, memory_of, window_field
from shoal.nn.memory.scan import reset
from shoal.nn.recurrent_torso import RecurrentTorso
from shoal.nn.torso_choice import TORSO_HELP, TORSOS
from shoal.ops.priorities import Priorities
from shoal.ops.replay import Replay, Transitions
from shoal.ops.running import RunningStats
from shoal.rollouts.rollout import EnvStates, Trajectory

Weights = Any


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
    carry: Carry | None = None  # at the start of the next rollout: of the policy [E], of the critics [E, K]
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("learner",)


@struct
class ReplayActorCritic(ReplayAgent):
    """A replay agent with a policy and K critics. Its actions are uniform until `learning_starts`. Abstract.

    With a `memory` every network has one of its own after its torso. What the networks read is then not observations
    but hidden vectors: of the policy [..., H], of the critics [K, ..., H]. Names say `seen` for both.
    """

    num_critics: int = static(2)
    hidden: tuple[int, ...] = static((256, 256))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation and torso then have no effect")
    memory: str = memory_field()
    memory_size: int = static(64, help="units of the memory")
    memory_window: int = window_field()
    sequence_length: int = length_field()
    burn_in: int = burn_in_field()

    @abc.abstractmethod
    def init_learner(self, key: Key, obs: Any, action: Array) -> Any:
        """Initial weights, and all else that a gradient step changes. `key` is consumed.

        `obs` [E] (normalized) and one `action` give shapes and dtypes.
        """

    @abc.abstractmethod
    def explore(self, learner: Any, observed: Observed, noise: Array) -> Array:
        """Exploratory actions [E] of the policy; in a Box, in its units (`core.spaces.from_unit`).

        `noise` comes from `nn.distributions.sample_noise`. `observed` is what the policy's network reads.
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
        replay, stats = self.empty_replay(observed, action, self._first_carries(())), first_stats(self)
        learner = self.init_learner(k_learner, normalized(stats, observed.obs), action)
        priorities, carry = self.first_priorities(replay), self._first_carries((self.num_envs,))
        return ReplayState(jnp.int32(0), key, learner, env_states, replay, stats, priorities, carry)

    @property
    def sequence(self) -> SequenceShape | None:
        """The shape of sampled sequences; None without a memory."""
        return sequence_shape(self)

    def initial_carry(self) -> Any:
        """The policy's recurrent carry at the start of an episode; None without a memory."""
        return self._recurrent_torso.initial_carry()

    def actor_carries(self, state: ReplayState) -> tuple[Any, Any]:
        """The policy's carries [E] at the start of the next rollout, and at the start of an episode."""
        return state.carry and state.carry.actor, self._recurrent_torso.initial_carry((self.num_envs,))

    def policy_noise(self, state: ReplayState, key: Key) -> tuple[Array, Bool[Array, "T"]]:
        """(noise of the actions [T, E], whether actions are still uniform [T]). `key` is consumed."""
        noise = sample_noise(self.action_space, key, (self.num_steps, self.num_envs))
        within = jnp.arange(self.num_steps, dtype=jnp.int32) * self.num_envs
        return noise, steps_taken(state.age, self.steps_per_update, within) < self.learning_starts

    def behavior(self, state: ReplayState) -> Any:
        """The exploratory policy of a rollout."""

        def behave(obs, mask, noise, carry):
            noise, is_uniform = noise
            seen, carry = self.seen_by_policy(self.policy_state(state).actor, normalized(state.obs_stats, obs), carry)
            explored = self.explore(state.learner, Observed(seen, mask), noise)
            chosen = jnp.where(is_uniform, uniform_action(self.action_space, noise, mask), explored)
            return as_action(self.action_space, chosen), None, carry

        return behave

    def learn_from(
        self, state: ReplayState, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[ReplayState, Metrics]:
        """Store the steps, and make the gradient steps that are due. `carry` is the policy's after the rollout."""
        replay = state.replay.add(steps_of(trajectory, state.carry), clock)
        next_carry = state.carry and Carry(carry, self._critics_after(state, trajectory))
        stats = updated(state.obs_stats, trajectory.obs)
        learner = state.learner.replace(is_stopped=state.is_stopped)
        priorities = self.add_priorities(state.priorities, replay, state.age)
        learner, losses, due, priorities = self.train_on_replay(
            self.learn, learner, replay, state.age, clock, key, stats, priorities, trajectory.env
        )
        state = state.replace(
            age=state.age + 1,
            learner=learner.replace(is_stopped=None),
            replay=replay,
            obs_stats=stats,
            priorities=priorities,
            carry=next_carry,
            is_stopped=learner.is_stopped,
        )
        return state, Metrics(trajectory.episodes(), losses, due.astype(jnp.float32))

    def _critics_after(self, state: ReplayState, trajectory: Trajectory) -> Any:
        # The critics' carries [E, K] after a rollout, in one pass: acting does not need them.
        torso, memory = self._recurrent_torso, memory_of(self)
        assert memory is not None and state.carry is not None
        obs, is_first = normalized(state.obs_stats, trajectory.obs), trajectory.is_first

        def after(critic: Weights, carry: Any) -> Any:
            carries = torso.unroll(critic, obs, is_first, carry)[1]
            return reset(memory, trajectory.done[-1], jax.tree.map(lambda x: x[-1], carries))

        return jax.vmap(after, in_axes=(0, 1), out_axes=1)(self.policy_state(state).critics, state.carry.critic)

    # What the networks read: see the class.

    @property
    def _recurrent_torso(self) -> RecurrentTorso:
        """The torso and the memory of one network."""
        return RecurrentTorso(self.network, self.observation_space, memory_of(self))

    def _first_carries(self, axes: tuple[int, ...]) -> Carry | None:
        """The carries at the start of an episode, of the policy [*axes] and the critics [*axes, K], with a memory."""
        if self.sequence is None:
            return None
        initial = self._recurrent_torso.initial_carry
        return Carry(initial(axes), initial((*axes, self.num_critics)))

    def seen_by_policy(self, actor: Weights, obs: Any, carry: Any) -> tuple[Any, Any]:
        """(what the policy's network reads of single observations with any leading axes, the next carry)."""
        return (obs, carry) if self.sequence is None else self._recurrent_torso.hidden(actor, obs, carry)

    def seen_first(self, policy: Any, obs: Any) -> tuple[Any, Any]:
        """What the network of a policy, and what its critics read of observations that begin an episode."""
        if self.sequence is None:
            return obs, obs
        torso, carry = self._recurrent_torso, self._recurrent_torso.first_carry(obs)
        return (
            torso.hidden(policy.actor, obs, carry)[0],
            jax.vmap(lambda weights: torso.hidden(weights, obs, carry)[0])(policy.critics),
        )

    def policy_batch(self, actor: Weights, batch: Transitions) -> Transitions:
        """The samples with what the policy's network reads in the place of their observations."""
        if batch.history is None:
            return batch
        return with_hidden(batch, self._hidden(actor, batch, batch.history.carry.actor))

    def critics_batch(self, critics: Weights, batch: Transitions, chosen: Any = slice(None)) -> Transitions:
        """The samples with what critics read in the place of their observations.

        `chosen` are the numbers of the critics whose weights these are, if they are not all.
        """
        if batch.history is None:
            return batch
        carry = jax.tree.map(lambda x: x[:, chosen], batch.history.carry.critic)
        hidden = jax.vmap(lambda weights, carry: self._hidden(weights, batch, carry), in_axes=(0, 1))
        return with_hidden(batch, hidden(critics, carry))

    def _hidden(self, weights: Weights, batch: Transitions, carry: Any) -> Hidden:
        # The hidden vectors of one network, from its own stored carries [B] on.
        assert batch.history is not None and self.sequence is not None
        batch = batch.replace(history=batch.history.replace(carry=carry))
        return hidden_of_sequences(self._recurrent_torso, weights, batch, self.sequence)
