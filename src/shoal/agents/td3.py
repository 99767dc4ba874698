"""Twin delayed deep deterministic policy gradients (TD3), and DDPG, on which it is based.

Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic methods"; DDPG: Lillicrap et al.
2016, here with the networks and learning rates of TD3 (Fujimoto's "our DDPG", but without delayed policy steps). The
defaults are the hyperparameters of CleanRL's `td3_continuous_action.py`, except that the buffer holds 100,000 samples
instead of a million, so that a population fits in memory. Differences: truncation by a time limit bootstraps from the
true final observation; initial weights are orthogonal.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.agents.normalization import normalized
from shoal.agents.replay_actor_critic import ReplayActorCritic, ReplayState
from shoal.agents.replay_agent import Losses, Observed, critic_loss
from shoal.agents.sequences import check_sequences
from shoal.core.agent import check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.spaces import to_unit
from shoal.core.struct import Number, Struct, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import as_action, check_bounded, sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torso_choice import chosen_torso
from shoal.ops.gradients import adam, descend_tree, first_moments, polyak_update
from shoal.ops.replay import Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import whole

Weights = Any
Fitted = TypeVar("Fitted", bound="TD3")


@struct
class Networks(Struct):
    """The weights of a policy and its critics."""

    actor: Weights
    critics: Weights  # leaves have a leading axis over critics [K]


@struct
class Learner(Struct):
    """All that a gradient step changes."""

    weights: Networks
    target: Networks
    actor_moments: Any  # Adam's state, over packed weights (`ops.gradients`)
    critic_moments: Any
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`


@struct
class TD3Policy(Struct):
    """The weights and statistics that `act` and `value` read."""

    actor: Weights
    critics: Weights
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@agent("td3")
@agent(
    "ddpg",
    num_critics=1,
    target_noise=0.0,
    policy_delay=1.0,
    about="Deep deterministic policy gradient: TD3 with one critic, without noise on target actions, without delay.",
)
@struct
class TD3(ReplayActorCritic):
    """TD3: a deterministic policy trained to maximize its critics' Q-values, for actions in a Box with finite bounds.

    An update takes `num_steps` steps of `num_envs` environments and stores them. Then it takes gradient steps:
    `train_iterations` for every `train_frequency` environment steps. During the first `learning_starts` environment
    steps there are none, and actions are uniformly random. A gradient step changes the critics; every `policy_delay`-th
    one also changes the policy and all target weights. All noise is in units of half the width of the Box.

    `memory` lets actions and Q-values depend on earlier observations of the episode, as in `sac`: policy, critics and
    their targets each have a memory of their own, and samples are sequences with stored carries and burn-in. Other than
    in LSTM-TD3 (Meng et al. 2021, "Memory-based deep reinforcement learning for POMDPs"), networks have no second
    branch for the present observation, and do not read last actions.
    """

    learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="learning rate of the critics")
    policy_learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    target_mix: Number = hyper(
        0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="weight of the online weights in each target update"
    )
    policy_delay: Number = hyper(2.0, valid=(1, 1e6), help="critic steps per policy step")
    exploration_noise: Number = hyper(
        0.1, search=(0.01, 1.0, "log"), valid=(0, 1e3), help="standard deviation of the noise added to actions"
    )
    target_noise: Number = hyper(
        0.2, search=(0.01, 1.0, "log"), valid=(0, 1e3), help="standard deviation of the noise of target actions"
    )
    target_clip: Number = hyper(0.5, valid=(0, 1e3), help="bound on the noise of target actions")
    learning_starts: Number = hyper(
        25e3, valid=(0, 1e9), help="environment steps with uniform actions before the first gradient step"
    )

    num_critics: int = static(
        2, help="targets use the smallest of their Q-values; the policy maximizes that of the first"
    )

    def bind(self: Fitted, env: Env) -> Fitted:
        """The agent fitted to an environment. Raises Unsuited if actions are not in a Box with finite bounds."""
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_critics", "hidden")
        check_bounded(env.action_space)
        if not np.any(np.asarray(self.target_noise)):
            refuse_ignored(self, "without target_noise", "target_clip")
        check_sequences(self)
        return self.fitted(env).replace(network=chosen_torso(self, env.observation_space))

    def act(
        self, state: ReplayState | TD3Policy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the policy's action, with exploration noise added unless greedy."""
        del mask
        weights = self.policy_state(state)
        seen, carry = self.seen_by_policy(weights.actor, normalized(weights.obs_stats, obs), carry)
        noise = 0.0 if greedy else sample_noise(self.action_space, key, ())
        return as_action(self.action_space, self._noisy_action(weights.actor, seen, noise)), carry

    def value(self, state: ReplayState | TD3Policy, obs: Any) -> Float[Array, "*axes"]:
        """The smallest of the critics' Q-values of the policy's action.

        With a memory, observations begin an episode.
        """
        weights = self.policy_state(state)
        seen, of_critics = self.seen_first(weights, normalized(weights.obs_stats, obs))
        outputs = self._critics(weights.critics, of_critics, self._greedy_action(weights.actor, seen))
        return jnp.min(self.q_values(outputs), axis=0)

    def with_policy(self, state: ReplayState, policy: TD3Policy) -> ReplayState:
        """A new member's state with a policy's weights (online and target) and observation statistics."""
        weights = Networks(policy.actor, policy.critics)
        return state.replace(learner=state.learner.replace(weights=weights, target=weights), obs_stats=policy.obs_stats)

    def policy_state(self, state: ReplayState | TD3Policy) -> TD3Policy:
        """Weights and observation statistics; a policy is returned as it is."""
        if isinstance(state, TD3Policy):
            return state
        return TD3Policy(state.learner.weights.actor, state.learner.weights.critics, state.obs_stats)

    # The parts of an update, in order.

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """The policy's actions with exploration noise [E]."""
        return self._noisy_action(learner.weights.actor, observed.obs, noise)

    def learn(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, Losses, Float[Array, "B"]]:
        """One gradient step: the critics, then policy and target weights if they are due."""
        learner, losses, error = self._learn_critics(learner, batch, sample_weight, key)
        return self._learn_policy(learner, batch, sample_weight), losses, error

    def q_values(self, outputs: Float[Array, "K ..."]) -> Float[Array, "K *axes"]:
        """The Q-values that the outputs of critics stand for. Default: the outputs."""
        return outputs

    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], tuple[Losses, Float[Array, "B"]]]:
        """(the loss of the critics, (losses to report, the error of each sample)). `key` is consumed."""
        noise = sample_noise(self.action_space, key, sample_weight.shape)
        target = batch.reward + batch.bootstrap * self._next_value(learner.target, batch, noise)
        action = to_unit(self.action_space, batch.action)
        seen, share = self.critics_batch(critics, batch).observed, self.share_of(sample_weight)
        return critic_loss(self._critics(critics, seen.obs, action), target, sample_weight, share)

    def policy_value(self, learner: Learner, action: Array, batch: Transitions) -> Float[Array, "B"]:
        """What the policy maximizes: the Q-value of its action by the first critic."""
        first = jax.tree.map(lambda x: x[:1], learner.weights.critics)
        of_critic = self.critics_batch(first, batch, slice(1)).observed
        return self._critics(first, of_critic.obs, action)[0]

    def target_with_policy(self, target: Networks, new: Networks) -> Networks:
        """The target weights after a policy step: moved towards the new weights by `target_mix`."""
        return polyak_update(target, new, self.target_mix)

    def _learn_critics(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, Losses, Float[Array, "B"]]:
        old = learner.weights
        gradient_of_loss = jax.grad(self.critics_loss, has_aux=True)
        gradient, (losses, error) = gradient_of_loss(old.critics, learner, batch, sample_weight, key)
        critics, moments, is_stopped = descend_tree(
            adam(self.adam_eps),
            old.critics,
            gradient,
            learner.critic_moments,
            self.learning_rate,
            is_stopped=learner.is_stopped,
        )
        weights = old.replace(critics=critics)
        return learner.replace(weights=weights, critic_moments=moments, is_stopped=is_stopped), losses, error

    def _next_value(self, target: Networks, batch: Transitions, noise: Float[Array, "B n"]) -> Float[Array, "B"]:
        """The smallest of the target critics' Q-values, for the target policy's action with clipped noise."""
        clipped_noise = jnp.clip(self.target_noise * noise, -self.target_clip, self.target_clip)
        seen = self.policy_batch(target.actor, batch).next_observed
        action = _add_noise(self._greedy_action(target.actor, seen.obs), clipped_noise)
        of_critics = self.critics_batch(target.critics, batch).next_observed
        return jnp.min(self._critics(target.critics, of_critics.obs, action), axis=0)

    def _learn_policy(self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"]) -> Learner:
        """Change the policy and all target weights after every `policy_delay` critic steps, otherwise nothing."""

        def step(_, learner):
            old = learner.weights

            def loss(actor):
                action = self._greedy_action(actor, self.policy_batch(actor, batch).observed.obs)
                return -jnp.sum(sample_weight * self.policy_value(learner, action, batch))

            gradient = jax.grad(loss)(old.actor)
            actor, moments, is_stopped = descend_tree(
                adam(self.adam_eps),
                old.actor,
                gradient,
                learner.actor_moments,
                self.policy_learning_rate,
                is_stopped=learner.is_stopped,
            )
            new = old.replace(actor=actor)
            target = self.target_with_policy(learner.target, new)
            return Learner(new, target, moments, learner.critic_moments, is_stopped)

        period = jnp.maximum(whole(self.policy_delay), 1)
        is_due = learner.critic_moments.count % period == 0
        return jax.lax.fori_loop(0, is_due.astype(jnp.int32), step, learner)

    # Networks, initial weights and actions.

    @property
    def _actor(self) -> PolicyNetwork:
        return PolicyNetwork(self.network, self.observation_space, self.action_space.shape[0], memory_of(self))

    @property
    def _critics(self) -> Critics:
        space = self.observation_space
        return Critics(self.network, space, self.action_space, self.num_critics, memory=memory_of(self))

    def init_learner(self, key: Key, obs: Any, action: Array) -> Learner:
        """Initial weights, target weights and Adam states. `key` is consumed."""
        k_actor, k_critics = jax.random.split(key)
        actor = self._actor.init(k_actor, obs)
        critics = self._critics.init(k_critics, obs, jnp.broadcast_to(action, (self.num_envs, *action.shape)))
        weights = Networks(actor, critics)
        return Learner(
            weights=weights,
            target=jax.tree.map(jnp.copy, weights),
            actor_moments=first_moments(adam(), actor),
            critic_moments=first_moments(adam(), critics),
        )

    # Actions are in the units of the box here (`core.spaces.from_unit`).

    def _greedy_action(self, actor: Weights, seen: Any) -> Float[Array, "*axes n"]:
        return jnp.tanh(self._actor(actor, seen))

    def _noisy_action(self, actor: Weights, seen: Any, noise: Any) -> Float[Array, "*axes n"]:
        return _add_noise(self._greedy_action(actor, seen), self.exploration_noise * noise)


def _add_noise(action: Float[Array, "*axes n"], noise: Any) -> Float[Array, "*axes n"]:
    return jnp.clip(action + noise, -1, 1)
